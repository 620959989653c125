"""Queue offset by store time (S-11). Pure search: the queue and a way to read store times are passed in.

Relies on store times not decreasing along a queue, which the append path ensures as far as the clock allows.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

FILLER_SIZE = 0x7FFFFFFF  # an entry (offset 0, this size) stands for no message


class Boundary(Enum):
    """Which offset to take around the wanted time; the values are the words on the wire."""

    LOWER = "lower"
    UPPER = "upper"


class _Queue(Protocol):
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    def entry(self, index: int, /) -> tuple[int, int, int] | None: ...


def offset_by_time(
    queue: _Queue,
    timestamp: int,
    boundary: Boundary,
    store_time_at: Callable[[int, int], int],
    *,
    removed_below: int = 0,
) -> int:
    """The queue offset for a store time in milliseconds, within [min_offset, max_offset].

    LOWER: the first entry stored at or after `timestamp`, `max_offset` when there is none. UPPER: the last entry
    stored at or before it, `min_offset` when there is none. `store_time_at(physical_offset, size)` gives -1 when the
    record cannot be read: then the search gives up with `min_offset`, which never skips a message. Entries that point
    below `removed_below` (the log's minimum) count as older than everything.
    """
    upper = boundary is Boundary.UPPER
    first = low = queue.min_offset
    high = queue.max_offset
    while low < high:
        middle = (low + high) // 2
        entry = queue.entry(middle)
        if entry is None:
            return first
        physical_offset, size, _ = entry
        if physical_offset < removed_below or size == FILLER_SIZE:
            low = middle + 1
            continue
        time = store_time_at(physical_offset, size)
        if time < 0:
            return first
        if time < timestamp or (upper and time == timestamp):
            low = middle + 1
        else:
            high = middle
    return max(low - 1, first) if upper else low
