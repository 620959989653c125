"""A server: listens on its addresses, and stops without losing what it accepted.

How a socket becomes a connection is in `acceptor`, what happens inside one in `connection`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network

from pyromq.remoting.accept.acceptor import Acceptor, bind
from pyromq.remoting.accept.quota import ConnectionQuota
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import ConnectionListener, Endpoint, Handler, logger
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats
from pyromq.remoting.tls import ServerTls


class Server:
    """Serves `handlers`, a table from request code to handler, on every address it listens on.

    `trusted_proxies` (networks such as "10.0.0.0/8") may announce their clients with a PROXY header; from anybody
    else it ends the connection. `on_open` and `on_close` are told about every connection. With `strangers` connections
    are held to tighter limits until a handler clears their `is_stranger`.

        server = Server({RequestCode.GET_BROKER_CONFIG: get_config})
        address = await server.listen("127.0.0.1", 0)
        ...
        await server.stop(grace=10)
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        trusted_proxies: Iterable[str] = (),
        on_open: ConnectionListener | None = None,
        on_close: ConnectionListener | None = None,
        strangers: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self.tls = tls
        self._handlers = handlers
        self._proxies = tuple(ip_network(network) for network in trusted_proxies)
        self._endpoint = Endpoint(
            self.limits,
            clock,
            is_server=True,
            max_calls=self.limits.calls_per_connection,
            on_open=on_open,
            on_close=on_close,
            strangers=strangers,
        )
        self._quota = ConnectionQuota(self.limits, self._endpoint.stats, clock, strangers=strangers)
        self._endpoint.on_introduction = lambda connection: self._quota.introduce(connection.peer.host)
        self._acceptors: list[Acceptor] = []

    @property
    def stats(self) -> Stats:
        """Counters, live."""
        return self._endpoint.stats

    @property
    def connections(self) -> frozenset[Connection]:
        """The connections that are up now."""
        return frozenset(self._endpoint.connections)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the server listens."""
        return tuple(acceptor.address for acceptor in self._acceptors)

    async def listen(self, host: str, port: int, *, handlers: Mapping[int, Handler] | None = None) -> Address:
        """Listen on one more address and return it with its real port; port 0 takes a free one.

        `handlers` replaces the server's table on this address, as a fast port needs. Raises OSError.
        """
        sock = await bind(host, port)
        table = self._handlers if handlers is None else handlers
        acceptor = Acceptor(sock, table, self._endpoint, self._quota, self.tls, self._proxies)
        self._acceptors.append(acceptor)
        self._endpoint.start_sweeping(self._sweep)
        return acceptor.address

    def attach(self, peer: Address, handlers: Mapping[int, Handler]) -> Connection:
        """A connection with somebody in this process, who knows the peer behind it and gives it a transport."""
        connection = Connection(self._endpoint, handlers, peer)
        connection.is_stranger = False
        return connection

    def sweep(self, now: float) -> None:
        """Close what is idle or overdue at the given time of the clock; runs by itself while the server listens."""
        self._endpoint.sweep(now)
        self._sweep(now)

    async def stop(self, grace: float = 10.0) -> None:
        """Accept nothing more, answer what was accepted, then close; what takes longer than `grace` is cut off.

        While requests are still being answered, new ones are too, or are sent away with GO_AWAY where the client
        understands it.
        """
        endpoint = self._endpoint
        endpoint.leaving = True
        acceptors, self._acceptors = self._acceptors, []
        for acceptor in acceptors:
            await acceptor.stop()
        try:
            async with asyncio.timeout(grace):
                await endpoint.quiet()
                for connection in tuple(endpoint.connections):
                    connection.finish()
                await endpoint.empty()
        except TimeoutError:
            stats = endpoint.stats
            logger.warning(
                "Cutting off %d connections with %d unanswered requests, which did not end within %g s",
                stats.connections,
                stats.requests_in_flight,
                grace,
            )
        await endpoint.cut_off("server stopped")

    def _sweep(self, now: float) -> None:
        if self.tls is not None:
            self.tls.reload_if_changed()
        for acceptor in self._acceptors:
            acceptor.sweep(now)
