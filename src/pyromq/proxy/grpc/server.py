"""A gRPC server: listens with TLS and plain text on one port, and stops without losing calls."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from pyromq.proxy.grpc.connection import GrpcConnection
from pyromq.proxy.grpc.endpoint import Endpoint
from pyromq.proxy.grpc.limits import GrpcLimits, GrpcStats
from pyromq.proxy.grpc.method import Service
from pyromq.proxy.http2.frames import ErrorCode
from pyromq.remoting.accept.listener import Listener
from pyromq.remoting.address import Address
from pyromq.remoting.tls import ServerTls

SWEEP_EVERY = 5.0
LOOK_EVERY = 0.05
HEARING = 1.0
"""What a client has to notice that the server drains; one without calls that does not answer is closed then."""


class GrpcServer:
    """Serves `service`, a table from path to method, on every address it listens on.

    server = GrpcServer({"/echo.Echo/Say": Unary(lambda message, call: message)})
    address = await server.listen("127.0.0.1", 0)
    ...
    await server.stop(grace=10)
    """

    def __init__(
        self,
        service: Service,
        *,
        limits: GrpcLimits | None = None,
        tls: ServerTls | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or GrpcLimits()
        self.tls = tls.speaking("h2") if tls is not None else None
        self._endpoint = Endpoint(service, self.limits, clock)
        self._listeners: list[Listener] = []
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def stats(self) -> GrpcStats:
        """Counters, live."""
        return self._endpoint.stats

    @property
    def connections(self) -> frozenset[GrpcConnection]:
        """The connections that are up now."""
        return frozenset(self._endpoint.connections)

    async def listen(self, host: str, port: int) -> Address:
        """Listen on one more address and return it with its real port; port 0 takes a free one. Raises OSError."""
        listener = Listener(lambda: GrpcConnection(self._endpoint), self.tls)
        address = await listener.start(host, port)
        self._listeners.append(listener)
        if self._sweeper is None:
            self._sweep()
        return address

    def sweep(self, now: float) -> None:
        """Close what is idle or overdue at the given time of the clock; runs by itself while the server listens."""
        for connection in tuple(self._endpoint.connections):
            connection.sweep(now)

    async def stop(self, grace: float = 10.0) -> None:
        """Accept nothing more, answer the calls under way, then close; what takes longer than `grace` is ended.

        Conversations, and streams without a deadline, do not end by themselves: they are ended when they are all that
        is left of a connection.
        """
        endpoint = self._endpoint
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.stop()
        for connection in tuple(endpoint.connections):
            connection.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._empty()
        for connection in tuple(endpoint.connections):
            connection.end_calls()
            connection.close(ErrorCode.NO_ERROR, "the server stopped")
        for connection in tuple(endpoint.connections):
            connection.abort()
        while endpoint.connections:  # noqa: ASYNC110 - a turn or two, until the event loop has told them
            await asyncio.sleep(0)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        endpoint.deadlines.stop()

    async def _empty(self) -> None:
        """Wait until all connections are closed, and end what would keep them open."""
        connections = self._endpoint.connections
        begin = asyncio.get_running_loop().time()
        while connections:
            is_late = asyncio.get_running_loop().time() - begin >= HEARING
            for connection in tuple(connections):
                connection.end_calls(endless=True)
                if is_late and not connection.calls:
                    connection.close(ErrorCode.NO_ERROR, "the server stops")
            await asyncio.sleep(LOOK_EVERY)

    def _sweep(self) -> None:
        self.sweep(self._endpoint.clock())
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_EVERY, self._sweep)
