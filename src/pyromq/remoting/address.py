"""Addresses as `host:port`, split at the last colon, and the one spelling used for peers.

IPv4 addresses that arrive mapped into IPv6 (`::ffff:1.2.3.4`) are written as IPv4, so a peer has one name
whichever socket it came through.
"""

import ipaddress
from typing import NamedTuple

from pyromq.remoting.errors import AddressError


class Address(NamedTuple):
    """Host and port; `str()` gives `host:port`, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `host:port`, `[v6]:port` or `v6:port`. Raises AddressError.

        >>> Address.parse("broker-a:10911")
        Address(host='broker-a', port=10911)
        """
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressError(f"{text!r} is not an address; expected host:port, for example 127.0.0.1:9876")
        return cls(host, int(port))

    @property
    def fast(self) -> "Address":
        """The address of the same broker's fast port, two below its listen port."""
        return Address(self.host, self.port - 2)


UNKNOWN = Address("unknown", 0)
"""A peer or ourselves before, or after, the socket can tell."""


def normal_host(host: str) -> str:
    """The one spelling of a numeric host: no scope id, IPv4-mapped IPv6 as IPv4."""
    host = host.partition("%")[0]
    if ":" in host:
        try:
            mapped = ipaddress.IPv6Address(host).ipv4_mapped
        except ValueError:
            return host
        if mapped is not None:
            return str(mapped)
    return host


def peer_address(sockname: object) -> Address:
    """Address from what a socket calls its peer or itself; tolerates sockets that have no name any more."""
    if isinstance(sockname, tuple) and len(sockname) >= 2:
        return Address(normal_host(str(sockname[0])), int(sockname[1]))
    return UNKNOWN
