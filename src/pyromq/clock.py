"""The machine's clocks as servers and the store read them, in milliseconds, and pauses between tries.

Whoever needs time is given one of these clocks, so that tests give another.
"""

import time
from collections.abc import Callable


def wall_clock() -> int:
    """Unix time."""
    return time.time_ns() // 1_000_000


def steady_clock() -> int:
    """Time that no change of the wall clock touches: for how long something has lasted."""
    return time.monotonic_ns() // 1_000_000


def steady_for(clock: Callable[[], int]) -> Callable[[], int]:
    """What measures durations beside a wall clock: a clock of a test's own serves for both."""
    return steady_clock if clock is wall_clock else clock


def pause_after(tries: int, *, first: float = 0.1, longest: float = 5.0) -> float:
    """Seconds to wait after so many tries in vain: twice as long each time, up to the longest."""
    return min(first * 2.0 ** min(tries - 1, 32), longest)
