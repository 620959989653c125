"""Offsets of a stream: their JSON form, and the arithmetic of limits. Pure: no I/O, no Spark, no clock.

    {"v": 1, "q": {"orders": {"broker-a": {"0": 120, "1": 98}}}, "init": {"orders": {"broker-a": {"0": 100}}}}

`q` is the next offset to read of each queue. Spark logs only the ends of batches, so an end carries what its beginning
was wherever that is not the end of the batch before: `init` in the first batch, whose beginning would otherwise be
asked for again after a crash and may have moved; `skip` for queues that continue elsewhere because messages are gone,
or that are new; `gone` how far queues reached that do not exist any more, for the record: their place stays, and the
note until they are in sight again; `anew` how far queues were known to reach whose topic was deleted and made again.
`marks` has offset and store time of some messages that were read, by which a topic is known again. `fresh` marks the
answer to "where does a new query begin".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import LostRange, OptionError
from pyromq.spark.source.queuetable import flatten, flatten_values, nest, whole

VERSION = 1
LATEST = -1
EARLIEST = -2

Positions = dict[MessageQueue, int]
Bounds = Mapping[MessageQueue, tuple[int, int]]
"""Queue to its first offset and the one after its last."""


class Mark(NamedTuple):
    """A message that was read."""

    offset: int
    stored: int
    """When it was stored, Unix milliseconds."""


Marks = dict[MessageQueue, Mark]


class Range(NamedTuple):
    """Messages [start, end) of one queue."""

    topic: str
    broker: str
    queue: int
    start: int
    end: int

    @property
    def messages(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Offset:
    """What the JSON says."""

    positions: Positions
    init: Positions = field(default_factory=dict)
    skip: Positions = field(default_factory=dict)
    gone: Positions = field(default_factory=dict)
    anew: Positions = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    fresh: bool = False

    def render(self) -> dict[str, Any]:
        """The JSON form; made once, then only handed around, since Spark compares texts."""
        shape: dict[str, Any] = {"v": VERSION, "q": nest(self.positions)}
        parts = {"init": self.init, "skip": self.skip, "gone": self.gone, "anew": self.anew}
        shape |= {key: nest(part) for key, part in parts.items() if part}
        if self.marks:
            shape["marks"] = nest({queue: list(mark) for queue, mark in self.marks.items()})
        if self.fresh:
            shape["fresh"] = True
        return shape

    @classmethod
    def parse(cls, shape: Mapping[str, Any]) -> "Offset":
        """Raises OptionError for what no version of ours wrote."""
        if shape.get("v") != VERSION or not isinstance(shape.get("q"), dict):
            raise OptionError(f"the checkpoint holds offsets of another kind: {str(shape)[:200]}")
        positions, init, skip, gone, anew = (
            flatten(shape.get(key) or {}) for key in ("q", "init", "skip", "gone", "anew")
        )
        marks = flatten_values(shape.get("marks") or {}, _mark)
        return cls(positions, init, skip, gone, anew, marks, fresh=bool(shape.get("fresh")))


def _mark(value: object) -> Mark:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(value)
    return Mark(whole(value[0]), whole(value[1]))


def ranges(start: Offset, end: Offset) -> list[Range]:
    """What a batch has to read, sorted; nothing for queues that did not move."""
    if start == end:  # a batch without data, made for its state or for another source
        return []
    found = []
    for queue, last in sorted(end.positions.items()):
        first = end.skip.get(queue, end.init.get(queue, start.positions.get(queue, last)))
        if first < last:
            found.append(Range(queue.topic, queue.broker_name, queue.queue_id, first, last))
    return found


def losses(start: Offset, end: Offset) -> list[LostRange]:
    """What a batch passes over because it is gone, read from its two offsets alone."""
    found = []
    for queue, begin in sorted(end.skip.items()):
        before = start.positions.get(queue)
        if before is None:
            continue
        if queue in end.anew:
            if queue not in start.gone:
                last = max(end.anew[queue], before)
                found.append(LostRange(queue.topic, queue.broker_name, queue.queue_id, before, last, "recreated"))
            continue
        noted = max(before, start.gone.get(queue, before))
        if noted < begin:
            found.append(LostRange(queue.topic, queue.broker_name, queue.queue_id, noted, begin, "expired"))
        elif before > begin and queue not in start.gone:
            found.append(LostRange(queue.topic, queue.broker_name, queue.queue_id, begin, before, "truncated"))
    for queue, last in sorted(end.gone.items()):
        begin = end.positions.get(queue, last)
        unread = max(begin, start.gone.get(queue, begin))
        if unread < last:
            found.append(LostRange(queue.topic, queue.broker_name, queue.queue_id, unread, last, "deleted"))
    return found


@dataclass(frozen=True)
class Standing:
    """Where a stream stands against what the brokers have."""

    begin: Positions
    """Where each queue continues."""
    skip: Positions
    """Those of them that continue elsewhere than where they ended."""
    available: dict[MessageQueue, int]
    """Messages of each queue that can be read; queues without any are not in it."""
    gone: Positions = field(default_factory=dict)
    """Queues that were noted as deleted and are not back."""
    anew: Positions = field(default_factory=dict)
    """Queues of topics that were made again, with how far they were known to reach before."""


def standing(
    positions: Positions, bounds: Bounds, *, gone: Positions | None = None, anew: Positions | None = None
) -> Standing:
    """Compare positions with what is there. A queue nobody knows any more keeps its position; new ones begin first.

    So does one of a topic that was made again: `anew` says so, or that it was deleted and is shorter now than it was.
    """
    gone, anew = gone or {}, anew or {}
    begin = dict(positions)
    skip: Positions = {}
    available: dict[MessageQueue, int] = {}
    for queue, (low, high) in bounds.items():
        position = positions.get(queue)
        if position is None or not low <= position <= high or high < gone.get(queue, 0) or queue in anew:
            position = begin[queue] = skip[queue] = low
        if high > position:
            available[queue] = high - position
    away = {queue: last for queue, last in gone.items() if queue not in bounds}
    return Standing(begin, skip, available, away, {queue: last for queue, last in anew.items() if queue in skip})


def share(available: Mapping[MessageQueue, int], budget: int) -> dict[MessageQueue, int]:
    """Divide `budget` messages in proportion to what each queue has, at least one for each: no queue starves."""
    total = sum(available.values())
    if total <= budget:
        return dict(available)
    spare = max(budget - len(available), 0)
    taken = {queue: 1 + (count - 1) * spare // (total - len(available) or 1) for queue, count in available.items()}
    left = spare + len(available) - sum(taken.values())
    for queue in sorted(taken, key=lambda queue: taken[queue] - available[queue]):
        more = min(left, available[queue] - taken[queue])
        taken[queue] += more
        left -= more
    return taken


def capped(bounds: Bounds, target: Mapping[MessageQueue, int]) -> dict[MessageQueue, tuple[int, int]]:
    """Bounds that do not reach beyond a target; queues outside of it are left out."""
    return {
        queue: (low, max(low, min(high, target[queue]))) for queue, (low, high) in bounds.items() if queue in target
    }


def advanced(
    stand: Standing,
    taken: Mapping[MessageQueue, int],
    *,
    init: Positions | None = None,
    gone: Positions | None = None,
) -> Offset:
    """The end of a batch that reads `taken` messages of each queue."""
    positions = stand.begin | {queue: stand.begin[queue] + count for queue, count in taken.items()}
    return Offset(positions, init=init or {}, skip=dict(stand.skip), gone=stand.gone | (gone or {}), anew=stand.anew)
