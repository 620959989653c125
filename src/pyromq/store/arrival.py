"""What a record is on its way from the log to queue, index and whoever waits: made where it is appended, or read back.

One message is an `Arrival`; the messages of a batch, which are worked on by columns, are a `Run`; sends that the native
core carried are `Sends`. When and how they are entered is up to the dispatcher.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

import msgspec

from pyromq.protocol.headers.sendrun import Placed, SendRun
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.protocol.records.record import peek_record
from pyromq.protocol.records.tags import tags_code
from pyromq.store.index.index import Index
from pyromq.store.index.keyhash import Keys
from pyromq.store.queue.consumequeue import ConsumeQueue

_TRANSACTION = sysflag.TRANSACTION_MASK
_COMMIT = sysflag.COMMIT


class Arrival(msgspec.Struct, gc=False):
    """One record, for its queue, the index and listeners."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    sys_flag: int
    properties: dict[str, str]
    queue: ConsumeQueue

    count: ClassVar[int] = 1

    @property
    def queued(self) -> bool:
        """Whether consumers get it: half messages and rollbacks have no place in a queue."""
        return not self.sys_flag & _TRANSACTION or self.sys_flag & _TRANSACTION == _COMMIT

    def end_of(self, topic: str, queue_id: int) -> int | None:
        """The offset after it in a queue; None if it has no entry there."""
        there = self.topic == topic and self.queue_id == queue_id and self.queued
        return self.queue_offset + 1 if there else None

    def arrivals(self) -> Sequence["Arrival"]:
        """Each record by itself."""
        return (self,)


class Run(msgspec.Struct, gc=False):
    """Records of one queue that lie behind each other in the log, those of a batch: what they are entered with.

    `entries` are those of the queue, `records` what is in the log, looked into only if somebody wants to hear of the
    records one by one.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp: int
    sys_flag: int
    queue: ConsumeQueue
    entries: bytes
    keys: Keys
    records: memoryview

    @property
    def count(self) -> int:
        return len(self.entries) // ENTRY_SIZE

    @property
    def topics(self) -> Collection[str]:
        return (self.topic,)

    def end_of(self, topic: str, queue_id: int) -> int | None:
        """The offset after the last of them in a queue; None if they have no entries there."""
        there = self.topic == topic and self.queue_id == queue_id
        return self.queue_offset + self.count if there else None

    def arrivals(self) -> Sequence[Arrival]:
        """Each record by itself."""
        first, records = self.physical_offset, self.records
        return [
            Arrival(
                self.topic, self.queue_id, number, offset, size, code, self.store_timestamp, self.sys_flag,
                decode_properties(peek_record(records, offset - first).properties), self.queue,
            )
            for number, (offset, size, code) in enumerate(ENTRY.iter_unpack(self.entries), self.queue_offset)
        ]  # fmt: skip

    def schedule(self, delays: Mapping[int, int]) -> None:
        """Have the queue entries say when the messages are due."""
        self.entries = due_entries(self.entries, self.records, self.physical_offset, delays)

    def enter(self, index: Index | None) -> bool:
        """All as one; False when they do not simply follow what is there, and must be entered one by one.

        Raises DiskFullError and OSError; then, too, each may be entered again.
        """
        entries, first, keys = self.entries, self.physical_offset, self.keys
        if not self.queue.extend(self.queue_offset, entries, first, first + self.size):
            return False
        if index is None:
            return True
        last: int = ENTRY.unpack_from(entries, len(entries) - ENTRY_SIZE)[0]
        if isinstance(keys, bytes):
            return index.add_hashed(keys, first, last)
        return index.add_keys(keys, first, last)


class Sends(msgspec.Struct, gc=False):
    """Records of a run of plain sends or batches, which lie behind each other in the log and belong to any queues.

    `records` is what is in the log, looked into only if somebody wants to hear of the records one by one.
    """

    run: SendRun
    placed: Placed
    queues: Sequence[ConsumeQueue]
    """One for each place of the run."""
    numbers: Sequence[int]
    """The first queue offset of each."""
    physical_offset: int
    size: int
    store_timestamp: int
    store_host: bytes
    records: memoryview

    @property
    def count(self) -> int:
        return self.run.messages

    @property
    def topics(self) -> Collection[str]:
        return {topic for topic, _ in self.run.places}

    def end_of(self, topic: str, queue_id: int) -> int | None:
        """The offset after the last of them in a queue; None if they have no entries there."""
        places, run = list(self.run.places), self.run
        if (topic, queue_id) not in places:
            return None
        place = places.index((topic, queue_id))
        return self.numbers[place] + run.counts[place]

    def arrivals(self) -> Sequence[Arrival]:
        """Each record by itself."""
        queues = dict(zip(self.run.places, self.queues, strict=True))
        arrivals: list[Arrival] = []
        for offset in self.placed.offsets:
            record = peek_record(self.records, offset - self.physical_offset)
            properties = decode_properties(record.properties)
            arrivals.append(
                Arrival(
                    record.topic, record.queue_id, record.queue_offset, offset, record.size,
                    tags_code(properties.get(Property.TAGS)), self.store_timestamp, record.sys_flag, properties,
                    queues[record.topic, record.queue_id],
                )
            )  # fmt: skip
        return arrivals

    def enter(self, index: Index | None) -> bool:
        """All as one; False when they do not simply follow what is there, and must be entered one by one.

        Raises DiskFullError and OSError; then, too, each may be entered again.
        """
        placed = self.placed
        for queue, number, (entries, first, end) in zip(self.queues, self.numbers, placed.entries, strict=True):
            if not queue.extend(number, entries, first, end):
                return False
        return index is None or index.add_hashed(placed.keys, self.physical_offset, placed.offsets[-1])


Waiting = Arrival | Run | Sends

Listener = Callable[[Arrival], None]
"""Told about each record that has become visible in its queue. Must be quick and must not raise."""


def code_of(topic: str, properties: Mapping[str, str], store_timestamp: int, delays: Mapping[int, int]) -> int:
    """What the queue entry says besides the place: the hash of the tags, or when a delayed message is due."""
    if topic == SCHEDULE_TOPIC and (level := _level(properties.get(Property.DELAY))) > 0:
        return store_timestamp + delays.get(min(level, max(delays, default=0)), 1_000)
    return tags_code(properties.get(Property.TAGS))


def due_entries(entries: bytes, records: memoryview, start: int, delays: Mapping[int, int]) -> bytes:
    """Queue entries of delayed messages, which say when those are due. `records` is the log from `start` on."""
    made: list[bytes] = []
    for offset, size, _ in ENTRY.iter_unpack(entries):
        record = peek_record(records, offset - start)
        code = code_of(SCHEDULE_TOPIC, decode_properties(record.properties), record.store_timestamp, delays)
        made.append(ENTRY.pack(offset, size, code))
    return b"".join(made)


def _level(text: str | None) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
