"""Time and timers, passed in so that tests never sleep.

Everything in the client that depends on time asks a `Clock`: the wall clock for what other machines see (born
timestamps, ids), the monotonic one for durations, and `call_later` for what must happen later. Nothing else in the
client may call `time.*`, `asyncio.sleep` or `asyncio.timeout`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from pyromq.clock import wall_clock

T = TypeVar("T")


class Timer(Protocol):
    """A pending `call_later`."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What the client knows about time."""

    def millis(self) -> int:
        """Wall clock, milliseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` on the event loop after `delay` seconds."""


class SystemClock:
    """The machine's clocks and the running event loop's timers."""

    millis = staticmethod(wall_clock)
    monotonic = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, delay), callback)


async def sleep(clock: Clock, seconds: float, until: "asyncio.Future[None] | None" = None) -> None:
    """Wait on the given clock, or until somebody sets a result before."""
    done = until if until is not None else asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        timer.cancel()


async def within(clock: Clock, seconds: float, awaitable: Awaitable[T]) -> T:
    """The result of `awaitable`, or `TimeoutError` (and its cancellation) when it takes longer than `seconds`."""
    task = asyncio.ensure_future(awaitable)
    caller = asyncio.current_task()
    cancellations = caller.cancelling() if caller is not None else 0
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await task
    except asyncio.CancelledError:
        # Who is cancelled at that very moment must not go on as if only the time were over.
        cancelled = caller is not None and caller.cancelling() > cancellations
        if expired and task.cancelled() and not cancelled:
            raise TimeoutError(f"not done within {seconds} s") from None
        task.cancel()
        raise
    finally:
        timer.cancel()
