"""Looks at many queues of a broker at once, as PyroMQ's brokers answer them: what is asked, and what an answer says.

Sans I/O. Queues are asked for in runs of consecutive numbers, so a question is short however many there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyromq.protocol.bodies.offsets import QueueBounds, QueueLook, QueueRun
from pyromq.protocol.errors import BodyError
from pyromq.protocol.message import MessageQueue
from pyromq.spark.source.offsets import Bounds


class Stored(NamedTuple):
    """The first message from some offset on."""

    offset: int
    time: int
    """When it was stored, Unix milliseconds."""


WireName = Callable[[str], str]


@dataclass(frozen=True)
class Look:
    """A question about queues of one broker, encoded once and asked again and again."""

    queues: Sequence[MessageQueue]
    body: bytes

    @classmethod
    def at(cls, queues: Sequence[MessageQueue], wire_name: WireName) -> "Look":
        """At sorted queues."""
        return cls(queues, QueueLook(runs=[_run(run, wire_name) for run in _runs(queues)]).encode())

    def read(self, answer: bytes) -> Bounds:
        """The bounds that an answer tells. Raises BodyError."""
        runs = QueueBounds.decode(answer).runs
        lows = [low for run in runs for low in run.lows]
        highs = [high for run in runs for high in run.highs]
        if len(lows) != len(self.queues) or len(highs) != len(lows):
            raise BodyError(f"bounds of {len(lows)} queues, of {len(self.queues)} that were asked for")
        return dict(zip(self.queues, zip(lows, highs, strict=True), strict=True))


def waiting(positions: Mapping[MessageQueue, int], wire_name: WireName) -> bytes:
    """The question whether one of the queues has something at its position."""
    runs = []
    for run in _runs(sorted(positions)):
        made = _run(run, wire_name)
        made.ends = [positions[queue] for queue in run]
        runs.append(made)
    return QueueLook(runs=runs).encode()


def times(places: Mapping[MessageQueue, int], wire_name: WireName) -> bytes:
    """The question when the messages at some places were stored; the answer has one run for each place."""
    runs = [
        QueueRun(topic=wire_name(queue.topic), queues=[queue.queue_id], offsets=[offset])
        for queue, offset in places.items()
    ]
    return QueueLook(runs=runs).encode()


def read_times(answer: bytes) -> list[int]:
    """What it says of each place, -1 where there is no message. Raises BodyError."""
    return [time for run in QueueBounds.decode(answer).runs for time in run.times]


def _runs(queues: Sequence[MessageQueue]) -> Iterator[Sequence[MessageQueue]]:
    """Sorted queues of one broker, cut where the topic changes or numbers are left out."""
    begin = 0
    for place in range(1, len(queues) + 1):
        if place == len(queues) or not _follows(queues[place - 1], queues[place]):
            yield queues[begin:place]
            begin = place


def _follows(one: MessageQueue, other: MessageQueue) -> bool:
    return other.queue_id == one.queue_id + 1 and other.topic == one.topic


def _run(queues: Sequence[MessageQueue], wire_name: WireName) -> QueueRun:
    return QueueRun(topic=wire_name(queues[0].topic), first=queues[0].queue_id, count=len(queues))
