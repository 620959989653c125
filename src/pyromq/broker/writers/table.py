"""What a broker knows about writers: which run and which attempts are theirs now, and how far each has come in a queue.

No I/O and no clock. Rules: a run or an attempt that another took over from is refused for good; within an attempt the
messages of a queue are taken in the order of their numbers, each once. Forgetting a writer is always safe: one that is
not known is refused until it begins a run again, and numbers of runs ascend over all writers, so that none comes twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pyromq.broker.errors import Refused
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.handles.writer import Place

MAX_STRETCHES = 16
"""Stretches of a queue in which an attempt's messages lie, as far as they are remembered."""


class QueueProgress(msgspec.Struct):
    """How far an attempt has come in a queue."""

    next: int = 0
    end: int = 0
    """Of its last message in the log."""
    stretches: list[tuple[int, int]] = []
    """Numbers and offsets at which messages begin that lie side by side in the queue."""

    def note(self, sequence: int, count: int, offset: int, end: int) -> None:
        last = self.stretches[-1] if self.stretches else None
        if last is None or offset - last[1] != sequence - last[0]:
            self.stretches.append((sequence, offset))
            del self.stretches[:-MAX_STRETCHES]
        self.next = sequence + count
        self.end = end

    def offset_of(self, sequence: int) -> int:
        """Where a message lies in its queue, -1 when that is forgotten."""
        for first, offset in reversed(self.stretches):
            if first <= sequence:
                return offset + sequence - first
        return -1


class Lane(msgspec.Struct):
    """A part of a writer's work."""

    attempt: int
    queues: dict[int, QueueProgress] = {}


class Writer(msgspec.Struct):
    """One writer, as it is kept in the log, too."""

    topic: str
    name: str
    run: int
    used: int
    """When it was last heard of."""
    origins: dict[int, int] = {}
    """By queue: an offset before all of its messages, of all runs."""
    lanes: dict[int, Lane] = {}


class WriterTable:
    """All writers. `max_writers` bounds them, `max_lanes` both their lanes and the queues of these, all together: the
    writer that was silent for longest makes room, and one that is too large by itself is forgotten."""

    def __init__(self, max_writers: int, max_lanes: int) -> None:
        self._max_writers = max_writers
        self._max_lanes = max_lanes
        self._writers: dict[tuple[str, str], Writer] = {}
        self._topics: Counter[str] = Counter()
        self.lanes = 0
        self.tails = 0
        self.latest = 0
        """The highest number that a run ever had."""
        self.evicted = 0
        """How often a bound was met."""

    def __len__(self) -> int:
        return len(self._writers)

    def __iter__(self) -> Iterator[Writer]:
        return iter(self._writers.values())

    def get(self, topic: str, name: str) -> Writer | None:
        return self._writers.get((topic, name))

    def has_topic(self, topic: str) -> bool:
        """Whether a writer of the topic is known."""
        return topic in self._topics

    def next_run(self, now: int) -> int:
        """A number that no run had before. It follows the clock, in case everything was forgotten."""
        return max(now, self.latest + 1)

    def origins(self, topic: str, name: str, ends: Mapping[int, int]) -> dict[int, int]:
        """Those of a writer that begins a run when the topic's queues have these ends."""
        known = self._writers.get((topic, name))
        return dict(ends) if known is None else {**ends, **known.origins}

    def begin(self, topic: str, name: str, run: int, origins: Mapping[int, int], now: int) -> Writer:
        """A new run."""
        self.close(topic, name)
        self.latest = max(self.latest, run)
        made = Writer(topic, name, run, now, dict(origins))
        self._add(made)
        self._make_room(made)
        return made

    def check_open(self, topic: str, name: str, place: Place) -> Writer:
        """Raises Refused when the run or a later attempt does not let this one take the lane over."""
        writer = self._current(topic, name, place)
        lane = writer.lanes.get(place.lane)
        if lane is not None and lane.attempt > place.attempt:
            raise _taken_over("attempt", place.attempt, lane.attempt, f"lane {place.lane} of {name}")
        return writer

    def open(self, topic: str, name: str, place: Place, now: int) -> Writer:
        """An attempt takes a lane over. Raises as `check_open`."""
        writer = self.check_open(topic, name, place)
        lane = writer.lanes.get(place.lane)
        if lane is None or lane.attempt != place.attempt:
            self.lanes += lane is None
            self.tails -= len(lane.queues) if lane is not None else 0
            writer.lanes[place.lane] = Lane(place.attempt)
        writer.used = now
        if not self._make_room(writer):
            raise Refused(ResponseCode.NO_PERMISSION, f"{name} has more than {self._max_lanes} lanes")
        return writer

    def stored(self, topic: str, name: str, place: Place) -> int:
        """How many messages, from `place` on, the queue has already: 0 when it is the next. Raises Refused."""
        lane = self._current(topic, name, place).lanes.get(place.lane)
        if lane is None or lane.attempt < place.attempt:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"attempt {place.attempt} has not opened lane {place.lane} of {name}: it must, before it sends",
            )
        if lane.attempt > place.attempt:
            raise _taken_over("attempt", place.attempt, lane.attempt, f"lane {place.lane} of {name}")
        tail = lane.queues.get(place.queue)
        ahead = (tail.next if tail is not None else 0) - place.sequence
        if ahead < 0:
            raise Refused(
                ResponseCode.OUT_OF_SEQUENCE,
                f"message {place.sequence} of {name} came before {place.sequence + ahead}, which must be sent first",
            )
        return ahead

    def tail(self, topic: str, name: str, place: Place) -> QueueProgress:
        """Of an attempt that has stored something in the queue."""
        return self._writers[topic, name].lanes[place.lane].queues[place.queue]

    def note(self, topic: str, name: str, place: Place, *, count: int, offset: int, end: int, now: int) -> None:
        """Messages are in the log: `count` from `place` on, the first at `offset` of the queue, the last ends at `end`.

        Nothing happens if they are not the next ones of an attempt that is known.
        """
        writer = self._writers.get((topic, name))
        lane = writer.lanes.get(place.lane) if writer is not None and writer.run == place.run else None
        if writer is None or lane is None or lane.attempt != place.attempt:
            return
        tail = lane.queues.get(place.queue)
        if (tail.next if tail is not None else 0) != place.sequence:
            return
        if tail is None:
            tail = lane.queues[place.queue] = QueueProgress()
            self.tails += 1
        tail.note(place.sequence, count, offset, end)
        writer.origins.setdefault(place.queue, offset)
        writer.used = now
        self._make_room(writer)

    def close(self, topic: str, name: str) -> None:
        """The writer is done for good: whatever still comes from it is refused."""
        writer = self._writers.pop((topic, name), None)
        if writer is not None:
            self._topics[topic] -= 1
            if not self._topics[topic]:
                del self._topics[topic]
            self._count(writer, -1)

    def clear(self) -> None:
        """Forget all of them, but not the numbers of their runs."""
        for writer in list(self):
            self.close(writer.topic, writer.name)

    def check_close(self, topic: str, name: str, run: int) -> None:
        """Raises Refused when a later run has begun."""
        writer = self._writers.get((topic, name))
        if writer is not None and writer.run > run:
            raise _taken_over("run", run, writer.run, name)

    def expire(self, before: int) -> int:
        """Forget who was last heard of before a moment; returns how many."""
        silent = [writer for writer in self if writer.used < before]
        for writer in silent:
            self.close(writer.topic, writer.name)
        return len(silent)

    def restore(self, writers: Iterable[Writer]) -> None:
        """Take writers over as they were when they were written down, some of them in several pieces."""
        for writer in writers:
            known = self._writers.get((writer.topic, writer.name))
            if known is None:
                self._add(writer)
                self.latest = max(self.latest, writer.run)
                continue
            self._count(known, -1)
            for number, lane in writer.lanes.items():
                known.lanes.setdefault(number, Lane(lane.attempt)).queues.update(lane.queues)
            self._count(known, 1)

    def _add(self, writer: Writer) -> None:
        self._writers[writer.topic, writer.name] = writer
        self._topics[writer.topic] += 1
        self._count(writer, 1)

    def _count(self, writer: Writer, sign: int) -> None:
        self.lanes += sign * len(writer.lanes)
        self.tails += sign * sum(len(lane.queues) for lane in writer.lanes.values())

    def _current(self, topic: str, name: str, place: Place) -> Writer:
        writer = self._writers.get((topic, name))
        if writer is None:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"writer {name} of {topic} is not known here: it must begin a run first"
            )
        if writer.run > place.run:
            raise _taken_over("run", place.run, writer.run, name)
        if writer.run < place.run:
            raise Refused(ResponseCode.NO_PERMISSION, f"run {place.run} of {name} never began here")
        return writer

    @property
    def _is_full(self) -> bool:
        return len(self) > self._max_writers or max(self.lanes, self.tails) > self._max_lanes

    def _make_room(self, kept: Writer) -> bool:
        """Forget others until the table is within its bounds; False when `kept` had to go, too."""
        while self._is_full:
            silent = min((each for each in self if each is not kept), key=lambda each: each.used, default=kept)
            self.close(silent.topic, silent.name)
            self.evicted += 1
            if silent is kept:
                return False
        return True


def _taken_over(what: str, number: int, current: int, of: str) -> Refused:
    return Refused(
        ResponseCode.NO_PERMISSION, f"fenced off: {what} {current} of {of} took over from {number}, which must stop"
    )
