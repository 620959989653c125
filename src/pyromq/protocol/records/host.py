"""Addresses inside records and ids: 4 or 16 address bytes, then the port as a 32-bit number."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import Final, NamedTuple

from pyromq.protocol.errors import MessageError

V4_SIZE: Final = 8
V6_SIZE: Final = 20

_PORT = Struct(">i")


class Host(NamedTuple):
    """An address and a port, as `ip:port` or `[ip]:port`."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@lru_cache(maxsize=4096)
def pack_address(ip: str) -> bytes:
    """4 or 16 bytes. An IPv4 peer seen through an IPv6 socket (::ffff:a.b.c.d) is written as the 4 bytes it is."""
    try:
        address = ip_address(ip)
    except ValueError:
        raise MessageError(f"{ip!r} is not an IP address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


@lru_cache(maxsize=4096)
def pack_host(host: tuple[str, int]) -> bytes:
    """V4_SIZE or V6_SIZE bytes. Raises MessageError for what is no address or does not fit."""
    ip, port = host
    if not -0x8000_0000 <= port <= 0x7FFF_FFFF:
        raise MessageError(f"port {port} does not fit 32 bits")
    return pack_address(ip) + _PORT.pack(port)


@lru_cache(maxsize=4096)
def unpack_host(data: bytes) -> Host:
    """The reverse of `pack_host`; the length tells the kind of address."""
    if len(data) == V4_SIZE:
        ip = str(IPv4Address(data[:4]))
    elif len(data) == V6_SIZE:
        ip = str(IPv6Address(data[:16]))
    else:
        raise MessageError(f"a host takes {V4_SIZE} or {V6_SIZE} bytes, not {len(data)}")
    return Host(ip, _PORT.unpack(data[-4:])[0])
