"""Marks: how a stream knows a topic again.

A topic that was deleted and made again has the name, the queues and soon the offsets of the earlier one. What it cannot
have is the same message at the same offset: so the end of a batch says when some messages that were read were stored.
They are looked at again when a query starts and before more of their topic is read from their broker. A message that
is expired, or a broker that does not answer, proves nothing: only another message in its place does.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyromq.protocol.message import MessageQueue
from pyromq.spark.source.brokers.looks import Stored
from pyromq.spark.source.offsets import Bounds, Mark, Marks, Positions

KEPT = 8
"""Marks of a topic on one broker: a topic is deleted there as a whole, so few are enough."""

Place = tuple[str, str]
"""A topic on a broker."""


class Archive(Protocol):
    """Who can tell when messages were stored."""

    def stored(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Stored | None]:
        """The message at each place, None where there is none; queues whose broker does not answer are left out."""


@dataclass(frozen=True)
class Verdict:
    """What a look at marks proved."""

    remade: frozenset[MessageQueue] = frozenset()
    """Queues of topics that are not those that were read."""
    unsure: frozenset[Place] = frozenset()
    """Topics on brokers that did not answer."""


def place_of(queue: MessageQueue) -> Place:
    return queue.topic, queue.broker_name


def look_at(archive: Archive, marks: Marks, bounds: Bounds, places: Collection[Place] | None = None) -> Verdict:
    """Compare the marks of some places, without `places` of all, with what is there."""
    asked = {
        queue: mark
        for queue, mark in marks.items()
        if (places is None or place_of(queue) in places) and queue in bounds and _within(mark.offset, bounds[queue])
    }
    if not asked:
        return Verdict()
    found = archive.stored({queue: mark.offset for queue, mark in asked.items()})
    same: set[Place] = set()
    others: set[MessageQueue] = set()
    for queue, mark in asked.items():
        message = found.get(queue)
        if message is None or message.offset != mark.offset:
            continue
        if message.time == mark.stored:
            same.add(place_of(queue))
        else:
            others.add(queue)
    # Where one message is what it was, the topic is; then others were replaced by a master that had less.
    remade = {place_of(queue) for queue in others} - same
    return Verdict(
        frozenset(others) | {queue for queue in bounds if place_of(queue) in remade} if others else frozenset(),
        frozenset(place_of(queue) for queue in asked if queue not in found),
    )


def made_again(
    remade: Collection[MessageQueue], positions: Positions, bounds: Bounds, reached: Positions | None = None
) -> Positions:
    """Of queues whose topic is another now, those of which something was read, with how far they are known to have
    reached."""
    reached = reached or {}
    return {
        queue: max(positions[queue], reached.get(queue, 0))
        for queue in remade
        if queue in positions and queue in bounds and positions[queue] > bounds[queue][0]
    }


def renewed(archive: Archive, marks: Marks, end: Positions, bounds: Bounds, moved: Iterable[MessageQueue]) -> Marks:
    """The marks for the end of a batch: of what it has moved, the message before its place; else those it had."""
    moved = set(moved)
    marked = {place_of(queue) for queue in marks}
    by_place: dict[Place, list[MessageQueue]] = {}
    for queue, (low, _) in bounds.items():
        if end.get(queue, low) > low and (queue in moved or place_of(queue) not in marked):
            by_place.setdefault(place_of(queue), []).append(queue)
    places = {
        queue: end[queue] - 1
        for queues in by_place.values()
        for queue in sorted(queues, key=lambda queue: (queue not in moved, -end[queue]))[:KEPT]
    }
    found = archive.stored(places) if places else {}
    news = {
        queue: Mark(message.offset, message.time)
        for queue, message in found.items()
        if message is not None and message.offset == places[queue] and message.time > 0
    }
    return _latest({**marks, **news})


def _latest(marks: Marks) -> Marks:
    """The newest of each place."""
    by_place: dict[Place, list[MessageQueue]] = {}
    for queue in sorted(marks, key=lambda queue: (-marks[queue].stored, queue)):
        by_place.setdefault(place_of(queue), []).append(queue)
    return {queue: marks[queue] for queues in by_place.values() for queue in queues[:KEPT]}


def _within(offset: int, bounds: tuple[int, int]) -> bool:
    low, high = bounds
    return low <= offset < high
