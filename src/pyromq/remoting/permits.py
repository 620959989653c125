"""How many requests may be under way; what is beyond waits in line.

`asyncio.Semaphore` does the same, but taking a free permit from it costs as much as encoding a header.
"""

import asyncio
from collections import deque


class Permits:
    """Use it on one event loop. Every permit taken needs one `release`. Nobody waits while there is a free one."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_free(self) -> bool:
        """Take a permit if there is one."""
        if self._free:
            self._free -= 1
            return True
        return False

    async def take(self, seconds: float) -> None:
        """Wait for a permit. Raises TimeoutError when none becomes free in time."""
        if self.take_free():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException:
            if not waiter.cancelled():
                self.release()  # it came too late, somebody else may have it
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def release(self) -> None:
        """Give a permit back; the one who has waited longest gets it."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
