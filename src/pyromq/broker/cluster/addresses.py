"""Under which address a broker is known, and whether anybody can reach it there."""

import asyncio
import logging
import socket
from dataclasses import dataclass

from pyromq.remoting.address import Address

log = logging.getLogger(__name__)

REACH_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Under which name and at which addresses a broker registers."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str


def local_address() -> str:
    """The address this machine uses towards others; nothing is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address of documentation: choosing a route sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def advertised_host(configured: str, bound: str) -> str:
    """The host that clients are told: the configured one, else the bound one, else this machine's address."""
    if configured:
        return configured
    return local_address() if bound in {"0.0.0.0", "::", ""} else bound  # noqa: S104 - compared with, not bound


async def numeric_host(host: str) -> str:
    """The IP address behind a host name, which message ids need; loopback when it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        log.warning("the advertised host %s has no address here; message ids will carry 127.0.0.1", host)
        return "127.0.0.1"
    ordered = sorted(found, key=lambda info: info[0] != socket.AF_INET)
    return str(ordered[0][4][0])


async def check_reachable(address: Address) -> bool:
    """Connect to the advertised address once and say loudly if that fails: clients would fail the same way."""
    try:
        async with asyncio.timeout(REACH_TIMEOUT):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError) as error:
        log.warning(
            "clients are told to connect to %s, but that address cannot be reached from here (%s); "
            "set brokerIP1 to a host name or address that clients can reach",
            address,
            str(error) or "no answer",
        )
        return False
    writer.close()
    return True
