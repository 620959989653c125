"""The machine's clocks as servers and the store read them, in milliseconds. Whoever needs time is given one of these,
so that tests give another.
"""

import time


def wall_clock() -> int:
    """Unix time."""
    return time.time_ns() // 1_000_000


def steady_clock() -> int:
    """Time that no change of the wall clock touches: for how long something has lasted."""
    return time.monotonic_ns() // 1_000_000
