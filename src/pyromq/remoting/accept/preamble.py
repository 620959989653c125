"""The first bytes of an accepted connection: an optional PROXY header, then TLS or plain text.

Bytes are peeked and only those of a PROXY header are taken, so that the event loop's own TLS and plain transports
start with an untouched stream. Works on every asyncio event loop through its public interface.
"""

import asyncio
import socket
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address

from pyromq.remoting.accept.proxyheader import FIRST_BYTES, ProxyReader
from pyromq.remoting.address import Address
from pyromq.remoting.errors import ProxyHeaderError
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import HANDSHAKE_BYTE

PEEK = 512
CLOSED = "closed by the peer before its first byte"

Network = IPv4Network | IPv6Network
Ready = Callable[["Opening", bool], None]
Failed = Callable[["Opening", str], None]


class Opening:
    """One accepted socket until it is known what it speaks; then `ready(opening, is_tls)` or `failed(opening, why)`.

    `host` is where the socket comes from, `peer` the client, which a trusted proxy may announce.
    """

    __slots__ = ("_failed", "_loop", "_proxy", "_ready", "_trusted", "host", "peer", "since", "sock")

    def __init__(
        self, sock: socket.socket, peer: Address, since: float, *, trusted: bool, ready: Ready, failed: Failed
    ) -> None:
        self.sock = sock
        self.peer = peer
        self.host = peer.host
        self.since = since
        self._trusted = trusted
        self._ready = ready
        self._failed = failed
        self._proxy: ProxyReader | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    def overdue(self, now: float, limits: Limits) -> bool:
        """Whether the first byte, or the end of the PROXY header, has been waited for too long."""
        return now - self.since >= (limits.idle_timeout if self._proxy is None else limits.handshake_timeout)

    def stop(self) -> None:
        """Stop watching the socket."""
        self._loop.remove_reader(self.sock.fileno())

    def _on_readable(self) -> None:
        try:
            available = self.sock.recv(PEEK, socket.MSG_PEEK)
            if not available:
                self._failed(self, CLOSED)
            elif self._proxy is None and available[0] in FIRST_BYTES:
                self._proxy = self._begin_proxy()
                self._take_proxy(self._proxy, available)
            elif self._proxy is not None and not self._proxy.done:
                self._take_proxy(self._proxy, available)
            else:
                self.stop()
                self._ready(self, available[0] == HANDSHAKE_BYTE)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, ProxyHeaderError) as error:
            self._failed(self, str(error))

    def _begin_proxy(self) -> ProxyReader:
        if not self._trusted:
            raise ProxyHeaderError(f"PROXY header from {self.peer.host}, which is not a trusted proxy")
        return ProxyReader()

    def _take_proxy(self, proxy: ProxyReader, available: bytes) -> None:
        self.sock.recv(proxy.take(available))
        if proxy.done and proxy.source is not None:
            self.peer = proxy.source


def is_within(host: str, networks: tuple[Network, ...]) -> bool:
    """Whether a numeric host belongs to one of the networks."""
    if not networks:
        return False
    try:
        ip = ip_address(host)
    except ValueError:
        return False
    return any(ip in network for network in networks)
