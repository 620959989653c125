"""Who a client says it is: address, instance name and client id."""

import os
import socket
import time
from ipaddress import ip_address

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
DEFAULT_INSTANCE = "DEFAULT"


def local_ip() -> str:
    """The first address of this machine that is neither loopback nor private, else the last IPv4, else IPv6."""
    found = _local_addresses()
    public = [ip for ip in found if ":" not in ip and not ip_address(ip).is_private]
    if public:
        return public[0]
    v4 = [ip for ip in found if ":" not in ip]
    if v4:
        return v4[-1]
    return f"[{found[0]}]" if found else "127.0.0.1"


def _local_addresses() -> list[str]:
    """Addresses of this machine without loopback; the one that routes to the outside stands last among the private."""
    found: list[str] = []
    try:
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            found.append(str(address[0]).partition("%")[0])
    except OSError:
        pass
    for family, probe in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Connecting a datagram socket sends nothing; it only asks the system which address it would use.
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probing:
                probing.connect((probe, 9))
                found.append(probing.getsockname()[0])
        except OSError:
            continue
    return [ip for ip in dict.fromkeys(found) if not ip_address(ip).is_loopback and not ip_address(ip).is_link_local]


def instance_name(configured: str, group: str) -> str:
    """The configured name; the default one becomes unique to this client, except for the inner producer."""
    if group == INNER_PRODUCER_GROUP or configured != DEFAULT_INSTANCE:
        return configured
    return f"{os.getpid()}#{time.monotonic_ns()}"


def client_id(ip: str, instance: str, unit: str | None = None, *, stream: bool = False) -> str:
    """`ip@instance[@unit][@STREAM]`.

    >>> client_id("10.0.0.9", "4321#1", "cell", stream=True)
    '10.0.0.9@4321#1@cell@STREAM'
    """
    parts = [ip, instance]
    if unit and not unit.isspace():
        parts.append(unit)
    if stream:
        parts.append("STREAM")
    return "@".join(parts)
