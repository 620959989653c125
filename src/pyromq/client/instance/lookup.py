"""Where the name servers are: addresses as users write them, and the HTTP service that can be asked for them."""

import http.client

from pyromq.client.config import ClientConfig

LOOKUP_LIMIT = 64 * 1024


def parse_addresses(text: str) -> list[str]:
    """`host:port;host:port`, or one `http://host:port`, as a list without duplicates.

    >>> parse_addresses("http://MQ_INST_1_A.example.com:80")
    ['MQ_INST_1_A.example.com:80']
    """
    pieces = (piece.strip().rpartition("/")[2] for piece in text.replace(",", ";").split(";"))
    return list(dict.fromkeys(piece for piece in pieces if piece))


def lookup_url(config: ClientConfig) -> tuple[str, str]:
    """Host and path of the HTTP lookup. A domain that names a port keeps it; the usual port is 8080."""
    domain = config.namesrv_domain
    host = domain if ":" in domain else f"{domain}:8080"
    path = f"/rocketmq/{config.namesrv_subgroup}"
    if config.unit_name:
        path += f"-{config.unit_name}?nofix=1"
    return host, path


def fetch_addresses(host: str, path: str, seconds: float) -> list[str]:
    """Ask the lookup service; the first line of a good answer names the servers. Blocks, for a thread.

    Raises OSError or http.client.HTTPException when the service cannot be asked or refuses.
    """
    connection = http.client.HTTPConnection(host, timeout=seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise http.client.HTTPException(f"answered {response.status} {response.reason}")
        text = response.read(LOOKUP_LIMIT).decode("utf-8", "replace")
    finally:
        connection.close()
    lines = text.strip().splitlines()
    return parse_addresses(lines[0]) if lines else []
