"""What all connections of one server or one client share: limits, counters, calls, the idle sweep, waiting for quiet.

Owned by a `Server` or a `Client`; lives on one event loop and must only be touched there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pyromq.protocol.command import Command
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.calls import Calls
from pyromq.remoting.handler import Deferred
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats

if TYPE_CHECKING:
    from pyromq.remoting.connection import Connection

Answer = Command | bytes | list[bytes | memoryview] | None
"""A response, whole frames already encoded (one buffer or several), or nothing."""

Outcome = Answer | Deferred | Awaitable[Answer]
"""What a handler returns."""

Handler = Callable[[Command, "Connection"], Outcome]
"""A plain function that answers a request at once, or returns a `Deferred`, future or coroutine when it must wait.

None means no answer now: there is none, or it comes later through `connection.send(request.reply(...))`; such
requests are not counted as in flight, so who holds them must bound them, and a server that stops does not wait. What a
handler raises is answered with SYSTEM_ERROR (a ValidationError with its own code) and the text of the exception.
"""

ConnectionListener = Callable[["Connection"], None]

logger = logging.getLogger("pyromq.remoting")

COMPLAINTS_PER_SECOND = 5.0


class Tally:
    """Request bytes of one address that were accepted but not answered."""

    __slots__ = ("__weakref__", "bytes")

    def __init__(self) -> None:
        self.bytes = 0


class Endpoint:
    """Shared state of the connections of one server (which stops reading from peers that do not read) or one client."""

    __slots__ = (
        "_complaints",
        "_empty",
        "_interval",
        "_quiet",
        "_sweeper",
        "_tallies",
        "calls",
        "clock",
        "connections",
        "is_server",
        "leaving",
        "limits",
        "max_calls",
        "on_close",
        "on_introduction",
        "on_open",
        "request_rates",
        "stats",
        "strangers",
        "tasks",
    )

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        *,
        is_server: bool,
        max_calls: int,
        on_open: ConnectionListener | None = None,
        on_close: ConnectionListener | None = None,
        strangers: bool = False,
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.is_server = is_server
        self.max_calls = max_calls
        self.on_open = on_open
        self.on_close = on_close
        self.on_introduction: ConnectionListener | None = None
        self._tallies: WeakValueDictionary[str, Tally] = WeakValueDictionary()
        self.stats = Stats()
        self.strangers = strangers
        self._complaints = TokenBuckets(COMPLAINTS_PER_SECOND, 10 * COMPLAINTS_PER_SECOND, clock=clock)
        self.request_rates = None
        if limits.request_rate:
            self.request_rates = TokenBuckets(limits.request_rate, 2 * limits.request_rate, clock=clock)
        self.calls = Calls(self.stats, clock)
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[Answer]] = set()
        self.leaving = False
        self._quiet: asyncio.Future[None] | None = None
        self._empty: asyncio.Future[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._interval = min(max(min(limits.idle_timeout, limits.frame_timeout, limits.handshake_timeout) / 4, 0.01), 5)

    def complain(self, level: int, text: str, *arguments: object) -> None:
        """Log what a peer did wrong, but not everything of one who does nothing else: the counters have the rest."""
        if self._complaints.take(""):
            logger.log(level, text, *arguments)

    def introduced(self, connection: "Connection") -> None:
        """A peer proved who it is."""
        if self.on_introduction is not None:
            notify(self.on_introduction, connection)

    def opened(self, connection: "Connection") -> None:
        """A connection came up."""
        self.connections.add(connection)
        self.stats.connections = len(self.connections)
        self.stats.connections_opened += 1
        if self.on_open is not None:
            notify(self.on_open, connection)

    def closed(self, connection: "Connection") -> None:
        """A connection ended."""
        self.connections.discard(connection)
        self.stats.connections = len(self.connections)
        if self.on_close is not None:
            notify(self.on_close, connection)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def run(self, coroutine: Coroutine[Any, Any, Answer]) -> "asyncio.Task[Answer]":
        """Start and keep hold of the task of a handler that waits."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def tally(self, host: str) -> "Tally":
        """What an address has in flight; forgotten with the last of its connections."""
        known = self._tallies.get(host)
        if known is None:
            known = self._tallies[host] = Tally()
        return known

    def accept(self, size: int, count: int = 1) -> None:
        """Count a request, or several, answered later."""
        self.stats.requests_in_flight += count
        self.stats.bytes_in_flight += size

    def finish(self, size: int, count: int = 1) -> None:
        """Count a request, or several, that have been answered."""
        self.stats.requests_in_flight -= count
        self.stats.bytes_in_flight -= size
        if not self.stats.requests_in_flight and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    async def quiet(self) -> None:
        """Wait until every accepted request has been answered."""
        while self.stats.requests_in_flight:
            self._quiet = self._quiet if self._quiet and not self._quiet.done() else _future()
            await asyncio.shield(self._quiet)

    async def empty(self) -> None:
        """Wait until every connection has ended."""
        while self.connections:
            self._empty = self._empty if self._empty and not self._empty.done() else _future()
            await asyncio.shield(self._empty)

    async def cut_off(self, reason: str) -> None:
        """End every connection and every waiting handler now."""
        tasks = tuple(self.tasks)
        for task in tasks:
            task.cancel()
        for connection in tuple(self.connections):
            connection.abort(reason)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.empty()
        self.stop_timers()

    def start_sweeping(self, also: Callable[[float], None] | None = None) -> None:
        """Look for idle connections from now on, with one timer for all; `also` is called with each sweep's time."""
        if self._sweeper is None:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(self._interval, self._on_timer, loop, also)

    def stop_timers(self) -> None:
        """Stop the sweep and the time-outs of calls."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.calls.stop()

    def sweep(self, now: float) -> None:
        """Close the connections that are idle, or have been inside one frame for too long."""
        for connection in tuple(self.connections):
            connection.check_idle(now)

    def _on_timer(self, loop: asyncio.AbstractEventLoop, also: Callable[[float], None] | None) -> None:
        now = self.clock()
        self.sweep(now)
        if also is not None:
            also(now)
        elif not self.connections:
            self._sweeper = None
            return
        self._sweeper = loop.call_later(self._interval, self._on_timer, loop, also)


def notify(listener: ConnectionListener, connection: "Connection") -> None:
    """Call a listener; its fault is logged and goes no further."""
    try:
        listener(connection)
    except Exception:
        logger.exception("A listener failed for the connection with %s", connection.peer)


def _future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()
