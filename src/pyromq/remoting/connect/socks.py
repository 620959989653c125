"""SOCKS5 (RFC 1928) with optional user and password (RFC 1929): reaching an address through a proxy.

Which proxy serves an address is decided by the first network that contains it; names are matched by the network that
contains everything and resolved by the proxy.
"""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pyromq.remoting.address import Address
from pyromq.remoting.errors import AddressError, ConnectError

_VERSION = 5
_NO_AUTH, _USER_AUTH = 0, 2
_CONNECT = 1
_V4, _NAME, _V6 = 1, 3, 4
_ADDRESS_SIZES = {_V4: 4, _V6: 16}
_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SocksProxy:
    """One proxy."""

    address: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


class SocksProxies:
    """Proxies by network in CIDR form, in the order in which they are tried. Raises AddressError."""

    def __init__(self, table: Mapping[str, SocksProxy]) -> None:
        try:
            self._table = [(ip_network(network, strict=False), proxy) for network, proxy in table.items()]
        except ValueError as error:
            raise AddressError(f"the proxies are keyed by networks such as 10.0.0.0/8: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._table)

    def proxy_for(self, host: str) -> SocksProxy | None:
        """The proxy that serves a host, None for a direct connection."""
        try:
            ip: IPv4Address | IPv6Address | None = ip_address(host)
        except ValueError:
            ip = None
        return next((proxy for network, proxy in self._table if _contains(network, ip)), None)


def _contains(network: IPv4Network | IPv6Network, ip: IPv4Address | IPv6Address | None) -> bool:
    return network.prefixlen == 0 or (ip is not None and ip.version == network.version and ip in network)


async def dial(proxy: SocksProxy, target: Address) -> socket.socket:
    """A socket that leads to the target. Raises ConnectError and OSError."""
    loop = asyncio.get_running_loop()
    where = Address.parse(proxy.address)
    found = await loop.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, sockaddr = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, sockaddr)
        await _Handshake(sock, proxy).run(target)
    except BaseException:
        sock.close()
        raise
    return sock


class _Handshake:
    """The conversation before the first byte of ours goes through."""

    def __init__(self, sock: socket.socket, proxy: SocksProxy) -> None:
        self._sock = sock
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()

    async def run(self, target: Address) -> None:
        await self._authenticate()
        port = target.port.to_bytes(2)
        await self._send(bytes([_VERSION, _CONNECT, 0]) + _encode_host(target.host) + port)
        version, code, _, kind = await self._read(4)
        if version != _VERSION:
            raise self._error("does not speak SOCKS5")
        if code != 0:
            raise self._error(f"refused to connect to {target}: {_REFUSALS.get(code, f'code {code}')}")
        size = _ADDRESS_SIZES.get(kind)
        if size is None:
            if kind != _NAME:
                raise self._error(f"answered with address type {kind}")
            size = (await self._read(1))[0]
        await self._read(size + 2)

    async def _authenticate(self) -> None:
        proxy = self._proxy
        wanted = [_NO_AUTH] if proxy.username is None else [_NO_AUTH, _USER_AUTH]
        await self._send(bytes([_VERSION, len(wanted), *wanted]))
        version, method = await self._read(2)
        if version != _VERSION:
            raise self._error("does not speak SOCKS5")
        if method == _NO_AUTH:
            return
        if method != _USER_AUTH or proxy.username is None:
            raise self._error("wants another kind of authentication")
        user, password = proxy.username.encode(), (proxy.password or "").encode()
        if len(user) > 255 or len(password) > 255:
            raise self._error("takes user names and passwords of at most 255 bytes")
        await self._send(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await self._read(2))[1] != 0:
            raise self._error("refused the user name and password")

    async def _send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self._loop.sock_recv(self._sock, size - len(data))
            if not piece:
                raise self._error("closed the connection")
            data += piece
        return data

    def _error(self, what: str) -> ConnectError:
        return ConnectError(f"proxy {self._proxy.address} {what}")


def _encode_host(host: str) -> bytes:
    try:
        ip = ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([_NAME, len(name)]) + name
    return bytes([_V4 if ip.version == 4 else _V6]) + ip.packed
