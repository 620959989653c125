"""A client: one connection for each address, made on demand and shared by all callers.

Concurrent first callers share one attempt to connect. A request fails at once when its connection dies; the next one
connects again. Which answer codes are errors is the caller's business, except GO_AWAY.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from pyromq.protocol.codes import ResponseCode, request_name
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.remoting.address import Address
from pyromq.remoting.calls import Pending
from pyromq.remoting.connect.connector import Connector
from pyromq.remoting.connect.permits import Permits
from pyromq.remoting.connect.socks import SocksProxies
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import ConnectionListener, Endpoint, Handler
from pyromq.remoting.errors import CallTimeout, ConnectionLost, InFlightLimitReached, SendError
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats
from pyromq.remoting.tls import ClientTls


class Client:
    """Sends requests to addresses (`host:port`) and serves what the peers ask in turn with `handlers`.

    `on_open` and `on_close` are told about every connection.

        client = Client()
        response = await client.call("127.0.0.1:10911", Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), 3.0)
        await client.close()
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler] | None = None,
        *,
        limits: Limits | None = None,
        tls: ClientTls | None = None,
        proxies: SocksProxies | None = None,
        hooks: Sequence[RequestHook] = (),
        on_open: ConnectionListener | None = None,
        on_close: ConnectionListener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self.hooks = tuple(hooks)
        self._clock = clock
        self._endpoint = Endpoint(
            self.limits, clock, is_server=False, max_calls=self.limits.calls, on_open=on_open, on_close=on_close
        )
        self._connector = Connector(self._endpoint, handlers or {}, tls, proxies)
        self._call_permits = Permits(self.limits.calls)
        self._oneway_permits = Permits(self.limits.oneways)
        self._held_up = 0
        """Requests that wait for a permit, a connection, or a peer that does not read: later ones let them pass."""

    @property
    def stats(self) -> Stats:
        """Counters, live."""
        return self._endpoint.stats

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The connections that are up now, by address."""
        return dict(self._connector.connections)

    def is_connected(self, address: str | Address) -> bool:
        """Whether a connection to the address is up."""
        connection = self._connector.connections.get(str(address))
        return connection is not None and connection.is_open

    async def call(self, address: str | Address, command: Command, timeout: float = 3.0) -> Command:  # noqa: ASYNC109 - part of the contract with peers
        """Send a request and wait for its answer, whatever its code. Sets the command's opaque.

        Raises ConnectError, SendError and InFlightLimitReached when the request was not sent; CallTimeout and
        ConnectionLost when it may or may not have been carried out.
        """
        address = str(address)
        deadline = self._clock() + timeout
        if not self._call_permits.take_free():
            await self._take(self._call_permits, command, timeout)
        try:
            connection, response = await self._exchange(address, command, deadline)
            if response.code == ResponseCode.GO_AWAY:
                self._connector.retire(address, connection)
                connection, response = await self._exchange(address, command, deadline)
                if response.code == ResponseCode.GO_AWAY:
                    self._connector.retire(address, connection)
                    raise SendError(f"{request_name(command.code)} not carried out: {address} is going away")
        finally:
            self._call_permits.give()
        return response

    def ready(self, address: str) -> Connection | None:
        """The connection on which a request would leave at once and pass no other; None if it has to wait, or if hooks
        have to see it.

        For requests that are written as frames: they need a permit (`take_permit`, `give_permit`) as others do.
        """
        if self._held_up or self.hooks:
            return None
        connection = self._connector.connections.get(address)
        if connection is None or not connection.is_open or connection.writing_paused:
            return None
        return connection

    def take_permit(self) -> bool:
        """For one request, if one is free."""
        return self._call_permits.take_free()

    def give_permit(self) -> None:
        self._call_permits.give()

    def retire(self, address: str, connection: Connection) -> None:
        """The peer is going away: further requests need a new connection."""
        self._connector.retire(address, connection)

    async def oneway(self, address: str | Address, command: Command, timeout: float = 3.0) -> None:  # noqa: ASYNC109 - as `call`
        """Send a request that has no answer; waits while the peer does not take what was written before.

        Raises ConnectError, SendError or InFlightLimitReached when the request was not sent.
        """
        address = str(address)
        deadline = self._clock() + timeout
        if not self._oneway_permits.take_free():
            await self._take(self._oneway_permits, command, timeout)
        try:
            connection = await self._connector.connect(address, deadline)
            if connection.writing_paused:
                await self._drained(connection, command, deadline)
            command.flag |= ONEWAY_FLAG
            command.opaque = self._endpoint.calls.next_opaque()
            for hook in self.hooks:
                hook.before(command, address)
            if not connection.send(command):
                raise SendError(f"{request_name(command.code)} not sent: the connection with {address} has ended")
        finally:
            self._oneway_permits.give()

    def disconnect(self, address: str | Address, reason: str = "closed by us") -> None:
        """Close the connection to an address, if there is one; what waits on it fails with ConnectionLost."""
        connection = self._connector.connections.get(str(address))
        if connection is not None:
            connection.close(reason)

    def sweep(self, now: float) -> None:
        """Close what is idle at the given time of the clock; runs by itself while there are connections."""
        self._endpoint.sweep(now)

    async def close(self) -> None:
        """End all connections; what still waits fails with ConnectionLost, later calls with SendError."""
        self._endpoint.leaving = True
        await self._connector.stop()
        await self._endpoint.cut_off("client closed")

    async def _exchange(self, address: str, command: Command, deadline: float) -> tuple[Connection, Command]:
        connection = self._connector.connections.get(address)
        if connection is None or not connection.is_open:
            self._held_up += 1
            try:
                connection = await self._connector.connect(address, deadline)
            finally:
                self._held_up -= 1
        if connection.writing_paused:
            await self._drained(connection, command, deadline)
        for hook in self.hooks:
            hook.before(command, address)
        call = connection.asker.open(command, max(deadline - self._clock(), 0.0))
        try:
            response = await call.future
        except CallTimeout:
            self.judge_silence(connection, call)
            raise
        finally:
            connection.asker.close(call)
        for hook in self.hooks:
            hook.after(command, response, address)
        return connection, response

    def judge_silence(self, connection: Connection, call: Pending) -> None:
        """After a time-out: end a connection on which nothing has arrived since the request."""
        # Somebody may hold the peer's address without answering; a new connection finds out.
        if call.timeout >= self.limits.silence and call.peer_was_silent:
            connection.abort(f"nothing arrived for {call.timeout:.3g} s while a request waited")

    async def _drained(self, connection: Connection, command: Command, deadline: float) -> None:
        self._held_up += 1
        try:
            async with asyncio.timeout(max(deadline - self._clock(), 0.0)):
                await connection.drained()
        except TimeoutError:
            raise SendError(f"{request_name(command.code)} not sent: {connection.peer} does not read") from None
        except ConnectionLost as error:
            raise SendError(f"{request_name(command.code)} not sent: {error}") from None
        finally:
            self._held_up -= 1

    async def _take(self, permits: Permits, command: Command, timeout: float) -> None:  # noqa: ASYNC109 - as `call`
        self._held_up += 1
        try:
            await permits.take(timeout)
        except TimeoutError:
            raise InFlightLimitReached(
                f"{request_name(command.code)} not sent: too many requests in flight for {timeout:g} s,"
                " limits calls and oneways"
            ) from None
        finally:
            self._held_up -= 1
