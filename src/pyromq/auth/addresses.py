"""Ranges of source addresses, as rules and `plain_acl.yml` write them. A range can only narrow: none means anywhere.

Forms: `10.0.0.7`, `10.0.0.0/8`, `2001:db8::/32`, and RocketMQ 4's `10.0.*.*`, `10.0.1-9.{1,5}`. What is none of these
is refused when it is read, so a slip of the pen cannot turn into "anywhere".
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pyromq.auth.errors import AuthError

MAX_TEXT = 256
_OCTET = re.compile(r"\*|\d{1,3}|\d{1,3}-\d{1,3}|\{\d{1,3}(?:,\d{1,3}){0,254}\}", re.ASCII)
_PART = re.compile(r"\{[^}]*\}|[^.]+")


@dataclass(frozen=True)
class AddressRange:
    """One range, kept as it was written."""

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > MAX_TEXT:
            raise AuthError(f"a source address of {len(self.text)} characters is no address")
        if self._network is None and not self._octets:
            raise AuthError(f"{self.text!r} is no source address: write 10.0.0.7, 10.0.0.0/8 or 10.0.*.*")

    def __contains__(self, host: str) -> bool:
        address = parse_host(host)
        if address is None:
            return False
        if self._network is not None:
            return address in self._network
        if not isinstance(address, IPv4Address):
            return False
        return all(byte in octet for byte, octet in zip(address.packed, self._octets, strict=True))

    @cached_property
    def _network(self) -> IPv4Network | IPv6Network | None:
        try:
            return ip_network(self.text, strict=False)
        except ValueError:
            return None

    @cached_property
    def _octets(self) -> tuple[frozenset[int], ...]:
        parts = _PART.findall(self.text) if self.text != "*" else ["*"] * 4
        if ".".join(parts) != self.text and self.text != "*":
            return ()
        octets = tuple(map(_octet, parts))
        return octets if len(octets) == 4 and all(octets) else ()


def _octet(text: str) -> frozenset[int]:
    if not _OCTET.fullmatch(text):
        return frozenset()
    if text == "*":
        return frozenset(range(256))
    if text.startswith("{"):
        return frozenset(map(int, text[1:-1].split(",")))
    low, _, high = text.partition("-")
    return frozenset(range(int(low), int(high or low) + 1))


@lru_cache(maxsize=4096)
def parse_host(host: str) -> IPv4Address | IPv6Address | None:
    """A numeric host; an IPv4 address in IPv6 clothes counts as what it is."""
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_from(host: str, ranges: tuple[AddressRange, ...]) -> bool:
    """Whether a host lies in one of the ranges, or there are none."""
    return not ranges or any(host in each for each in ranges)
