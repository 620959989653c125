"""Offsets of a stream: their JSON form, and the arithmetic of limits. Pure: no I/O, no Spark, no clock.

    {"v": 1, "q": {"orders": {"broker-a": {"0": 120, "1": 98}}}, "init": {"orders": {"broker-a": {"0": 100}}}}

`q` is the next offset to read of each queue. Spark logs only the ends of batches, so an end carries what its beginning
was wherever that is not the end of the batch before: `init` in the first batch, whose beginning would otherwise be
asked for again after a crash and may have moved; `skip` for queues that continue elsewhere because messages are gone,
or that are new; `gone` how far queues reached that do not exist any more, for the record: their place stays, and the
note until they are in sight again. `fresh` marks the answer to "where does a new query begin".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import LostRange, OptionError

VERSION = 1
LATEST = -1
EARLIEST = -2

Positions = dict[MessageQueue, int]
Bounds = Mapping[MessageQueue, tuple[int, int]]
"""Queue to its first offset and the one after its last."""


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
    fresh: bool = False

    def render(self) -> dict[str, Any]:
        """The JSON form; made once, then only handed around, since Spark compares texts."""
        shape: dict[str, Any] = {"v": VERSION, "q": nest(self.positions)}
        parts = {"init": self.init, "skip": self.skip, "gone": self.gone}
        shape |= {key: nest(part) for key, part in parts.items() if part}
        if self.fresh:
            shape["fresh"] = True
        return shape

    @classmethod
    def parse(cls, shape: Mapping[str, Any]) -> "Offset":
        """Raises OptionError for what no version of ours wrote."""
        if shape.get("v") != VERSION or not isinstance(shape.get("q"), dict):
            raise OptionError(f"the checkpoint holds offsets of another kind: {str(shape)[:200]}")
        positions, init, skip, gone = (flatten(shape.get(key) or {}) for key in ("q", "init", "skip", "gone"))
        return cls(positions, init, skip, gone, fresh=bool(shape.get("fresh")))


def nest(positions: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Topic to broker to queue to offset, sorted."""
    shape: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(positions):
        shape.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = positions[queue]
    return shape


def flatten(shape: object) -> Positions:
    """The reverse. Raises OptionError for any other shape."""
    positions: Positions = {}
    try:
        for topic, brokers in shape.items():  # type: ignore[attr-defined]  # anything else is refused below
            for broker, queues in brokers.items():
                for queue, offset in queues.items():
                    if type(offset) is not int:
                        raise ValueError(offset)  # noqa: TRY301 - one refusal for every wrong shape
                    positions[MessageQueue(topic, broker, int(queue))] = offset
    except (AttributeError, ValueError, TypeError):
        raise OptionError(
            f'offsets must have the form {{"topic": {{"broker": {{"0": 17}}}}}}, not {str(shape)[:200]}'
        ) from None
    return positions


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


def standing(
    positions: Positions, bounds: Bounds, *, new_queues: bool = True, gone: Positions | None = None
) -> Standing:
    """Compare positions with what is there. A queue nobody knows any more keeps its position; new ones begin first.

    So does one that was deleted and is shorter now than it was: it was made anew.
    """
    gone = gone or {}
    begin = dict(positions)
    skip: Positions = {}
    available: dict[MessageQueue, int] = {}
    for queue, (low, high) in sorted(bounds.items()):
        position = positions.get(queue)
        if position is None:
            if not new_queues:
                continue
            begin[queue] = skip[queue] = low
        elif not low <= position <= high or high < gone.get(queue, 0):
            begin[queue] = skip[queue] = low
        if high > begin[queue]:
            available[queue] = high - begin[queue]
    return Standing(begin, skip, available, {queue: last for queue, last in gone.items() if queue not in bounds})


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
    positions = {queue: begin + taken.get(queue, 0) for queue, begin in stand.begin.items()}
    return Offset(positions, init=init or {}, skip=dict(stand.skip), gone=stand.gone | (gone or {}))
