"""Requests that wait for their answers, of one client or one server, matched by opaque.

Opaques are unique over all connections of the endpoint, and an answer counts only on the connection the request went
out on. Time-outs are kept in coarse buckets with one timer for the earliest, because a timer for each call costs
more than the call.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol

from pyromq.protocol.codes import request_name
from pyromq.protocol.command import Command
from pyromq.remoting.errors import CallTimeout, RemotingError
from pyromq.remoting.stats import Stats

TICK = 0.05
"""Width of a time-out bucket: a call fails at most this much after its time."""


class Owner(Protocol):
    """What a call needs to know of the connection it went out on."""

    calls_in_flight: int
    arrivals: int
    """How many times data has arrived; tells a silent peer from a slow answer."""

    @property
    def peer(self) -> object: ...


class Call:
    """One request that waits for its answer."""

    __slots__ = ("arrivals", "code", "future", "opaque", "owner", "timeout")

    def __init__(self, opaque: int, code: int, owner: Owner, timeout: float, future: asyncio.Future[Command]) -> None:
        self.opaque = opaque
        self.code = code
        self.owner = owner
        self.timeout = timeout
        self.future = future
        self.arrivals = owner.arrivals

    @property
    def peer_was_silent(self) -> bool:
        """Whether nothing at all has arrived from the peer since the request was sent."""
        return self.owner.arrivals == self.arrivals


class Calls:
    """The table of outstanding calls. `open`, then await the call's future, then `close` whatever happened."""

    __slots__ = ("_buckets", "_clock", "_due", "_opaque", "_stats", "_table", "_timer")

    def __init__(self, stats: Stats, clock: Callable[[], float]) -> None:
        self._table: dict[int, Call] = {}
        self._buckets: dict[int, list[int]] = {}
        self._due: list[int] = []
        self._opaque = 0
        self._stats = stats
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._table)

    def next_opaque(self) -> int:
        """The next free int32, wrapping to negative as every peer expects."""
        while True:
            self._opaque = (self._opaque + 1 + 0x80000000) % 0x100000000 - 0x80000000
            if self._opaque not in self._table:
                return self._opaque

    def open(self, owner: Owner, code: int, timeout: float) -> Call:
        """Enter a call that fails with CallTimeout after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        opaque = self.next_opaque()
        call = Call(opaque, code, owner, timeout, loop.create_future())
        self._table[opaque] = call
        owner.calls_in_flight += 1
        stats = self._stats
        stats.calls += 1
        stats.calls_in_flight += 1
        key = int((self._clock() + timeout) / TICK) + 1
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.append(opaque)
        else:
            self._buckets[key] = [opaque]
            heapq.heappush(self._due, key)
            if self._due[0] == key:
                self._arm(loop)
        return call

    def close(self, call: Call) -> None:
        """Forget a call, answered or not."""
        if self._table.get(call.opaque) is call:
            self._remove(call)

    def resolve(self, owner: Owner, response: Command) -> bool:
        """Hand an answer to its call. False when nobody on this connection waits for it (any more)."""
        call = self._table.get(response.opaque)
        if call is None or call.owner is not owner:
            return False
        self._remove(call)
        if call.future.done():
            return False
        call.future.set_result(response)
        return True

    def fail(self, owner: Owner, error: Callable[[Call], RemotingError]) -> None:
        """Fail every call of a connection that died."""
        if owner.calls_in_flight:
            for call in [call for call in self._table.values() if call.owner is owner]:
                self._remove(call)
                if not call.future.done():
                    call.future.set_exception(error(call))

    def expire(self, now: float) -> None:
        """Fail every call whose time is over."""
        while self._due and self._due[0] * TICK <= now:
            for opaque in self._buckets.pop(heapq.heappop(self._due)):
                call = self._table.get(opaque)
                if call is not None and not call.future.done():
                    self._remove(call)
                    self._stats.calls_timed_out += 1
                    call.future.set_exception(
                        CallTimeout(
                            f"{request_name(call.code)} to {call.owner.peer} got no answer within {call.timeout:.3g} s"
                        )
                    )

    def stop(self) -> None:
        """Stop the timer; outstanding calls are the caller's to fail."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove(self, call: Call) -> None:
        del self._table[call.opaque]
        call.owner.calls_in_flight -= 1
        self._stats.calls_in_flight -= 1

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop()
        if self._due:
            self._timer = loop.call_later(max(0.0, self._due[0] * TICK - self._clock()), self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.expire(self._clock())
        self._arm(loop)
