"""From a listening socket to connections: accept, admit, find out what is spoken, hand over to the event loop."""

import asyncio
import errno
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from pyromq.remoting.accept.preamble import CLOSED, Network, Opening, is_within
from pyromq.remoting.accept.quota import ConnectionQuota
from pyromq.remoting.address import Address, peer_address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Endpoint, Handler, logger
from pyromq.remoting.tls import ServerTls, TlsMode

BACKLOG = 1024
ACCEPTS_PER_TURN = 128
ACCEPT_PAUSE = 1.0


class Acceptor:
    """One listening socket, the handlers behind it, and the connections that are not up yet."""

    __slots__ = (
        "_endpoint",
        "_handlers",
        "_handovers",
        "_loop",
        "_openings",
        "_proxies",
        "_quota",
        "_refusing",
        "_retry",
        "_sock",
        "_tls",
        "address",
    )

    def __init__(
        self,
        sock: socket.socket,
        handlers: Mapping[int, Handler],
        endpoint: Endpoint,
        quota: ConnectionQuota,
        tls: ServerTls | None,
        proxies: tuple[Network, ...],
    ) -> None:
        self.address = peer_address(sock.getsockname())
        self._sock = sock
        self._handlers = handlers
        self._endpoint = endpoint
        self._quota = quota
        self._tls = tls
        self._proxies = proxies
        self._openings: set[Opening] = set()
        self._handovers: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._retry: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    def sweep(self, now: float) -> None:
        """Drop the sockets that stay silent, or take too long over a PROXY header."""
        for opening in tuple(self._openings):
            if opening.overdue(now, self._endpoint.limits):
                self._on_failed(opening, "nothing, or half a PROXY header, arrived in time")

    async def stop(self) -> None:
        """Accept nothing more and drop what is not up yet."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        for opening in tuple(self._openings):
            self._discard(opening)
        for task in self._handovers:
            task.cancel()
        await asyncio.gather(*self._handovers, return_exceptions=True)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, name = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Mostly too many open files. The socket stays readable, so trying again at once would only spin.
                logger.warning("Cannot accept connections on %s for now: %s", self.address, error)
                self._loop.remove_reader(self._sock.fileno())
                self._retry = self._loop.call_later(ACCEPT_PAUSE, self._accept_again)
                return
            self._admit(sock, peer_address(name))

    def _accept_again(self) -> None:
        self._retry = None
        self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def _admit(self, sock: socket.socket, peer: Address) -> None:
        trusted = is_within(peer.host, self._proxies)
        admitted = self._quota.enter(peer.host, shared=trusted)
        if not admitted and not self._refusing:
            # Once for a run of refusals; the counters have the rest.
            logger.warning(
                "Refusing connections, the latest from %s: limits connections, connections_per_peer, connection_rate",
                peer,
            )
        self._refusing = not admitted
        if not admitted:
            sock.close()
            return
        sock.setblocking(False)
        with suppress(OSError):  # Some systems refuse it when the peer has gone again; reading will tell.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = self._endpoint.clock()
        self._openings.add(
            Opening(sock, peer, now, trusted=trusted, ready=self._on_ready, failed=self._on_failed),
        )

    def _on_ready(self, opening: Opening, is_tls: bool) -> None:
        mode = self._tls.mode if self._tls is not None else TlsMode.DISABLED
        if is_tls and mode is TlsMode.DISABLED:
            self._on_failed(opening, "TLS is disabled")
        elif not is_tls and mode is TlsMode.ENFORCING:
            self._on_failed(opening, "only TLS is served")
        elif self._recount(opening):
            self._openings.discard(opening)
            task = self._loop.create_task(self._hand_over(opening, self._tls if is_tls else None))
            self._handovers.add(task)
            task.add_done_callback(self._handovers.discard)

    def _recount(self, opening: Opening) -> bool:
        """Count a connection that came through a proxy for the client the proxy announced."""
        if opening.host == opening.peer.host:
            return True
        self._quota.leave(opening.host)
        opening.host = opening.peer.host
        if self._quota.enter(opening.host):
            return True
        self._openings.discard(opening)
        opening.sock.close()
        return False

    async def _hand_over(self, opening: Opening, tls: ServerTls | None) -> None:
        endpoint = self._endpoint
        limit = endpoint.limits.handshake_timeout
        connection = Connection(endpoint, self._handlers, opening.peer)
        connection.on_close(partial(self._left, opening.host))
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                opening.sock,
                ssl=tls.context if tls is not None else None,
                ssl_handshake_timeout=limit if tls is not None else None,
                ssl_shutdown_timeout=limit if tls is not None else None,
            )
        except OSError as error:
            endpoint.stats.handshakes_failed += 1
            endpoint.complain(logging.INFO, "Connection from %s failed: %s", opening.peer, error)
        finally:
            if not connection.was_made:
                opening.sock.close()
                self._quota.leave(opening.host)

    def _left(self, host: str, _: Connection) -> None:
        self._quota.leave(host)

    def _on_failed(self, opening: Opening, reason: str) -> None:
        self._endpoint.stats.handshakes_failed += 1
        # Whoever only looks whether the port is open, a broker at its own for example, does nothing wrong.
        level = logging.DEBUG if reason == CLOSED else logging.INFO
        self._endpoint.complain(level, "Connection from %s dropped: %s", opening.peer, reason)
        self._discard(opening)

    def _discard(self, opening: Opening) -> None:
        self._openings.discard(opening)
        opening.stop()
        opening.sock.close()
        self._quota.leave(opening.host)


async def bind(host: str, port: int) -> socket.socket:
    """A listening socket on one address. `::` serves IPv4 too, where the system can. Raises OSError, which names it."""
    if not 0 <= port <= 65535:
        raise OSError(errno.EINVAL, f"cannot listen on {Address(host, port)}: there is no such port")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)  # noqa: S104 - only when asked for
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {Address(host, port)}: {error.strerror}") from error
    return sock
