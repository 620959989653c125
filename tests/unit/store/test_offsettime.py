"""Offset by time (S-11) against a linear search over the same times."""

from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.queue.offsettime import FILLER_SIZE, Boundary, offset_by_time

LOWER, UPPER = Boundary.LOWER, Boundary.UPPER


class Times:
    """A queue whose entry i points at physical offset 100 * i, and the store time of each."""

    def __init__(self, times: list[int], first: int = 0, fillers: int = 0) -> None:
        self.times, self.first, self.fillers = times, first, fillers
        self.min_offset, self.max_offset = first, first + len(times)

    def entry(self, index: int) -> tuple[int, int, int] | None:
        if not self.min_offset <= index < self.max_offset:
            return None
        if index - self.first < self.fillers:
            return 0, FILLER_SIZE, 0
        return 100 * index, 100, 0

    def time_at(self, physical_offset: int, size: int) -> int:
        assert size == 100
        return self.times[physical_offset // 100 - self.first]

    def find(self, timestamp: int, boundary: Boundary, removed_below: int = 0) -> int:
        return offset_by_time(self, timestamp, boundary, self.time_at, removed_below=removed_below)


def test_ties_and_gaps() -> None:
    queue = Times([10, 20, 20, 20, 30])
    assert queue.find(20, LOWER) == 1  # S-11: first equal
    assert queue.find(20, UPPER) == 3  # S-11: last equal
    assert queue.find(25, LOWER) == 4  # smallest later one
    assert queue.find(25, UPPER) == 3  # largest earlier one


def test_outside_of_the_range() -> None:
    queue = Times([10, 20], first=7)
    assert queue.find(21, LOWER) == 9  # S-11: last + 1
    assert queue.find(21, UPPER) == 8  # S-11: last
    assert queue.find(9, LOWER) == 7
    assert queue.find(9, UPPER) == 7  # 0, clamped to the minimum


def test_empty_queue() -> None:
    assert Times([], first=5).find(1, LOWER) == 5
    assert Times([], first=5).find(1, UPPER) == 5


def test_removed_records_and_fillers_count_as_older() -> None:
    assert Times([10, 20, 30, 40]).find(5, LOWER, removed_below=150) == 2
    assert Times([10, 20, 30, 40], first=3, fillers=2).find(5, LOWER) == 5


def test_a_record_that_cannot_be_read_gives_the_minimum() -> None:
    queue = Times([10, 20, -1, -1, 50], first=2)
    assert queue.find(45, LOWER) == 2


@given(st.lists(st.integers(1, 40)).map(sorted), st.integers(0, 41), st.integers(0, 1000))
def test_same_as_looking_at_every_entry(times: list[int], timestamp: int, first: int) -> None:
    queue = Times(times, first)
    later = [i for i, time in enumerate(times) if time >= timestamp]
    earlier = [i for i, time in enumerate(times) if time <= timestamp]
    assert queue.find(timestamp, LOWER) == first + (later[0] if later else len(times))
    assert queue.find(timestamp, UPPER) == first + (earlier[-1] if earlier else 0)
