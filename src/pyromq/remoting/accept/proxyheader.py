"""The PROXY header (HAProxy, versions 1 and 2) that a load balancer puts before a connection's own bytes.

Pure parsing, fed by what has been peeked; never takes a byte beyond the header, since the next one may begin a TLS
handshake that somebody else must read.
"""

import struct
from ipaddress import ip_address

from pyromq.remoting.address import Address, normal_host
from pyromq.remoting.errors import ProxyHeaderError

V1_START = b"PROXY "
V1_MAX = 107
V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
# 12 signature | 1 version (high nibble) and command (low) | 1 family (high nibble) and transport (low) | 2 length
V2_HEAD = struct.Struct(">12sBBH")
V2_MAX_TAIL = 4096
V2_TCP4, V2_TCP6 = 0x11, 0x21
# source address | destination address | source port | destination port
V2_ADDRESSES = {V2_TCP4: struct.Struct(">4s4sHH"), V2_TCP6: struct.Struct(">16s16sHH")}

FIRST_BYTES = frozenset((V1_START[0], V2_SIGNATURE[0]))
"""No frame starts with one of these: it would be longer than 200 MiB."""


class ProxyReader:
    """Takes one header. When `done`, `source` is the real client, or None when the proxy speaks for itself."""

    __slots__ = ("_have", "done", "source")

    def __init__(self) -> None:
        self._have = bytearray()
        self.done = False
        self.source: Address | None = None

    def take(self, available: bytes) -> int:
        """Consume from the available bytes what belongs to the header; returns how many. Raises ProxyHeaderError."""
        taken = 0
        while taken < len(available) and not self.done:
            first = self._have[0] if self._have else available[0]
            rest = available[taken:]
            part = rest[: rest.find(b"\n") + 1 or len(rest)] if first == V1_START[0] else rest[: self._missing()]
            self._have += part
            taken += len(part)
            if first == V1_START[0]:
                self._parse_text()
            else:
                self._parse_binary()
        return taken

    def _missing(self) -> int:
        """Bytes of the version 2 header still to come, as far as known."""
        if len(self._have) < V2_HEAD.size:
            return V2_HEAD.size - len(self._have)
        length: int = V2_HEAD.unpack_from(self._have)[3]
        return V2_HEAD.size + length - len(self._have)

    def _parse_text(self) -> None:
        head = bytes(self._have)
        if not head.startswith(V1_START[: len(head)]) or len(head) > V1_MAX:
            raise ProxyHeaderError("bad PROXY header: not a version 1 line of at most 107 bytes")
        if not head.endswith(b"\n"):
            if len(head) == V1_MAX:
                raise ProxyHeaderError("bad PROXY header: no line end within 107 bytes")
            return
        words = head.decode("ascii", "replace").rstrip("\r\n").split(" ")
        if head.endswith(b"\r\n") and len(words) == 6 and words[1] in ("TCP4", "TCP6"):
            self.source = self._address(words[2], words[4], version=4 if words[1] == "TCP4" else 6)
        elif not head.endswith(b"\r\n") or len(words) < 2 or words[1] != "UNKNOWN":
            raise ProxyHeaderError(f"bad PROXY header: {head[:V1_MAX]!r}")
        self.done = True

    def _parse_binary(self) -> None:
        have = self._have
        if not have.startswith(V2_SIGNATURE[: len(have)]):
            raise ProxyHeaderError("bad PROXY header: wrong version 2 signature")
        if len(have) < V2_HEAD.size:
            return
        _, version_command, family, length = V2_HEAD.unpack_from(have)
        if version_command not in (0x20, 0x21):
            raise ProxyHeaderError(f"bad PROXY header: version and command byte 0x{version_command:02x}")
        if length > V2_MAX_TAIL:
            raise ProxyHeaderError(f"bad PROXY header: {length} bytes announced, at most {V2_MAX_TAIL} are taken")
        if len(have) < V2_HEAD.size + length:
            return
        layout = V2_ADDRESSES.get(family)
        if version_command == 0x21 and layout is not None:
            if length < layout.size:
                raise ProxyHeaderError(f"bad PROXY header: {length} bytes are too few for family 0x{family:02x}")
            source, _, port, _ = layout.unpack_from(have, V2_HEAD.size)
            self.source = Address(normal_host(str(ip_address(source))), port)
        self.done = True

    @staticmethod
    def _address(host: str, port: str, *, version: int) -> Address:
        try:
            ip, number = ip_address(host), int(port)
        except ValueError as error:
            raise ProxyHeaderError(f"bad PROXY header: {error}") from None
        if ip.version != version or not 0 <= number <= 65535:
            raise ProxyHeaderError(f"bad PROXY header: {host} port {port} is not a TCP{version} address")
        return Address(normal_host(str(ip)), number)
