"""Back-pressure for asynchronous sends: a bound on their number and one on their bytes, both waited for in turn.

First come, first served: a small message does not overtake a large one. Whoever waits longer than its time is refused.
"""

import asyncio
from collections import deque

from pyromq.client.clock import Clock, within
from pyromq.client.errors import TooManyRequestsError

MIN_COUNT = 10
MIN_BYTES = 1024 * 1024


class Permits:
    """A fair semaphore whose limit can change while permits are out: what is free becomes new limit minus in use."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._waiters: deque[tuple[asyncio.Future[None], int]] = deque()

    @property
    def free(self) -> int:
        return self.limit - self.in_use

    async def acquire(self, amount: int, clock: Clock, seconds: float) -> bool:
        """False when the permits were not there within the time. More than the limit is taken when nothing is out."""
        if not self._waiters and self._fits(amount):
            self.in_use += amount
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, amount))
        try:
            await within(clock, seconds, waiter)
        except (TimeoutError, asyncio.CancelledError) as error:
            granted = waiter.done() and not waiter.cancelled()
            if granted:
                self.release(amount)
            else:
                self._waiters.remove((waiter, amount))
                self._grant()
            if isinstance(error, asyncio.CancelledError):
                raise
            return False
        return True

    def release(self, amount: int) -> None:
        self.in_use -= amount
        self._grant()

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._grant()

    def _fits(self, amount: int) -> bool:
        return self.in_use + amount <= self.limit or self.in_use == 0

    def _grant(self) -> None:
        while self._waiters:
            waiter, amount = self._waiters[0]
            if not waiter.done():
                if not self._fits(amount):
                    return
                self.in_use += amount
                waiter.set_result(None)
            self._waiters.popleft()


class BackPressure:
    """The two bounds of one producer."""

    def __init__(self, clock: Clock, count: int, size: int) -> None:
        self._clock = clock
        self.count = Permits(max(count, MIN_COUNT))
        self.size = Permits(max(size, MIN_BYTES))

    def resize(self, *, count: int | None = None, size: int | None = None) -> None:
        """Change the bounds while the producer runs; they do not go below 10 messages and 1 MiB."""
        if count is not None:
            self.count.resize(max(count, MIN_COUNT))
        if size is not None:
            self.size.resize(max(size, MIN_BYTES))

    async def acquire(self, size: int, seconds: float) -> int:
        """Wait for a place; returns what to give to `release`. Raises TooManyRequestsError when the time is over."""
        amount = max(size, 1)
        began = self._clock.monotonic()
        if not await self.count.acquire(1, self._clock, seconds):
            raise TooManyRequestsError(
                f"back-pressure: {self.count.in_use} asynchronous sends are under way, the bound is {self.count.limit}"
            )
        left = max(0.0, seconds - (self._clock.monotonic() - began))
        try:
            enough = await self.size.acquire(amount, self._clock, left)
        except BaseException:
            self.count.release(1)
            raise
        if not enough:
            self.count.release(1)
            raise TooManyRequestsError(
                f"back-pressure: {self.size.in_use} bytes of asynchronous sends are under way, "
                f"the bound is {self.size.limit}"
            )
        return amount

    def release(self, amount: int) -> None:
        """The final outcome of a send was delivered."""
        self.count.release(1)
        self.size.release(amount)
