"""Permits to send: a semaphore that costs a comparison while permits are free, as they nearly always are."""

import asyncio
from collections import deque


class Permits:
    """So many at a time; who waits is served in turn."""

    __slots__ = ("_free", "_waiters")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiters: deque[asyncio.Future[None]] = deque()

    def take_free(self) -> bool:
        """Take a permit if there is one."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    async def take(self, seconds: float) -> None:
        """Wait for a permit. Raises TimeoutError when the time is over."""
        if self.take_free():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self.give()  # it came too late
            raise

    def give(self) -> None:
        """Give a permit back: to the first who still waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
