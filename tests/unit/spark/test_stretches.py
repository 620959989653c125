"""Ranges cut by position in the log: together what was wanted, nothing twice, and about as much for each task."""

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pyromq.spark.log.storefiles import Queue
from pyromq.spark.log.stretches import SAMPLES, cut
from pyromq.spark.source.offsets import Range
from pyromq.store.queue.offsettime import FILLER_SIZE

Entry = tuple[int, int, int]
FILLER = (0, FILLER_SIZE, 0)


class Entries(Queue):
    """A queue whose entries are given."""

    def __init__(self, first: int, entries: list[Entry]) -> None:
        super().__init__("orders", 0, Path())
        self._first = first
        self._entries = entries

    def entry(self, index: int) -> Entry | None:
        place = index - self._first
        return self._entries[place] if 0 <= place < len(self._entries) else None


class Log:
    """Queues of several brokers, whose messages lie among one another."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], Entries] = {}
        self._ends: dict[str, int] = {}

    def put(self, broker: str, queue: int, size: int) -> None:
        entries = self.queues.setdefault((broker, queue), Entries(queue * 1000, []))._entries
        position = self._ends.get(broker, 0)
        entries.append((position, size, 0) if size else FILLER)
        self._ends[broker] = position + size

    def of(self, wanted: Range) -> Queue:
        return self.queues.get((wanted.broker, wanted.queue)) or Entries(0, [])

    def ranges(self) -> list[Range]:
        return [
            Range("orders", broker, queue, entries._first, entries._first + len(entries._entries))
            for (broker, queue), entries in self.queues.items()
        ]

    def span(self, group: tuple[Range, ...]) -> tuple[int, int]:
        """The first and the last position of what a task reads."""
        entries = [self.of(each).entry(offset) for each in group for offset in (each.start, each.end - 1)]
        positions = [entry[0] for entry in entries if entry is not None]
        return min(positions), max(positions)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, list[Range]]:
    log = Log()
    # Runs, so that queues have stretches of the log for themselves. Size 0 stands for a filler.
    runs = st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 90), st.sampled_from([0, 1, 200, 5000]))
    for broker, queue, count, size in draw(st.lists(runs, max_size=8)):
        for _ in range(count):
            log.put(broker, queue, size)
    wanted = []
    for each in log.ranges():
        start = draw(st.integers(each.start, each.end))
        wanted.append(each._replace(start=start, end=draw(st.integers(start, each.end + 3))))  # beyond what is there
    return log, wanted


@given(logs(), st.integers(1, 12))
def test_all_that_is_wanted_and_nothing_twice(made: tuple[Log, list[Range]], tasks: int) -> None:
    log, wanted = made
    groups = cut(wanted, tasks, log.of)
    assert all(len({each.broker for each in group}) == 1 for group in groups)
    pieces = [each for group in groups for each in group]
    assert all(each.messages > 0 for each in pieces)
    for each in wanted:
        own = [piece for piece in pieces if piece[:3] == each[:3]]
        starts, ends = [piece.start for piece in own], [piece.end for piece in own]
        if each.messages:
            assert [each.start, *ends] == [*starts, each.end]
        else:
            assert own == []
    assert len(groups) <= max(tasks + 1, 2)  # shares of two brokers, each rounded


def test_tasks_have_even_shares_and_stretches_of_their_own() -> None:
    log = Log()
    for number in range(12_000):  # three queues throughout, two more one after the other
        log.put("a", number % 3 if number % 2 else 3 + number // 6000, 100 + number % 50)
    groups = cut(log.ranges(), 6, log.of)
    assert len(groups) == 6
    counts = [sum(each.messages for each in group) for group in groups]
    assert sum(counts) == 12_000
    assert max(counts) - min(counts) <= 12_000 / SAMPLES
    spans = [log.span(group) for group in groups]
    for (_, last), (first, _) in itertools.pairwise(spans):
        assert last < first + 12_000 * 125 / SAMPLES


def test_one_message_and_none() -> None:
    log = Log()
    log.put("a", 0, 100)
    (wanted,) = log.ranges()
    assert cut([wanted], 5, log.of) == [(wanted,)]
    assert cut([wanted._replace(start=1), wanted._replace(start=5, end=2)], 5, log.of) == []
    assert cut([], 5, log.of) == []
