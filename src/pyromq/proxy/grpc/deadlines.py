"""When calls must end: one timer for all of them.

Deadlines are rounded up to ticks, coarser ones the farther they are, so that there are never many, whatever clients
ask for. A call is never ended early.
"""

import asyncio
import heapq
import math
from collections.abc import Callable
from typing import Protocol

_TICKS = ((60.0, 0.02), (3600.0, 1.0), (86_400.0, 60.0), (math.inf, 3600.0))
"""Up to so many seconds ahead ticks are so long."""
FARTHEST = 30 * 86_400.0
"""Later deadlines are as good as none."""


class Expiring(Protocol):
    """Something with a deadline."""

    def expire(self) -> None:
        """The deadline has passed."""


class Deadlines:
    """Calls by the tick at which their time is over."""

    __slots__ = ("_clock", "_due", "_ticks", "_timer")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[float, dict[int, Expiring]] = {}
        self._ticks: list[float] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Expiring, when: float) -> float:
        """Have `call.expire()` called at `when`; gives what `discard` wants."""
        ahead = when - self._clock()
        if ahead > FARTHEST:
            return math.inf
        tick = next(tick for limit, tick in _TICKS if ahead < limit)
        due = math.ceil(when / tick) * tick
        calls = self._due.get(due)
        if calls is None:
            calls = self._due[due] = {}
            heapq.heappush(self._ticks, due)
            if self._ticks[0] == due:
                self._schedule()
        calls[id(call)] = call
        return due

    def discard(self, call: Expiring, due: float) -> None:
        """A call has ended by itself."""
        calls = self._due.get(due)
        if calls is not None:
            calls.pop(id(call), None)

    def run(self) -> None:
        """End what is due; runs by itself."""
        now = self._clock()
        while self._ticks and self._ticks[0] <= now:
            for call in tuple(self._due.pop(heapq.heappop(self._ticks)).values()):
                call.expire()
        self._schedule()

    def stop(self) -> None:
        """Forget everything."""
        self._due.clear()
        self._ticks.clear()
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ticks:
            delay = max(0.0, self._ticks[0] - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self.run)
