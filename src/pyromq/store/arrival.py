"""What a record is on its way from the log to queue, index and whoever waits: made where it is appended, or read back.

One message is an `Arrival`; the messages of a batch, which are worked on by columns, are a `Run`; sends that the native
core carried are `Sends`; what a walk found in the log is `Walked`. When and how they are entered is up to the
dispatcher, and whoever watches the store sees all that was entered as one as `Arrived`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from pyromq.protocol.headers.sendrun import Place, Placed, SendRun
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.protocol.records.record import RecordSummary, peek_record
from pyromq.protocol.records.tags import tags_code
from pyromq.store.index.index import Index
from pyromq.store.index.keyhash import Keys
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.span import Span
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

    @property
    def topics(self) -> Collection[str]:
        return (self.topic,)

    def ends(self) -> Iterable[tuple[Place, int]]:
        """Its queue, if it has an entry there, with the offset after it."""
        return (((self.topic, self.queue_id), self.queue_offset + 1),) if self.queued else ()

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

    def ends(self) -> Iterable[tuple[Place, int]]:
        """Their queue, with the offset after the last of them."""
        return (((self.topic, self.queue_id), self.queue_offset + self.count),)

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
    """Records of a run of plain sends or batches, which lie behind each other in a file of the log and belong to any
    queues. They are looked into only if somebody wants to hear of them one by one."""

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
    file: MappedFile

    @property
    def count(self) -> int:
        return self.run.messages

    @property
    def topics(self) -> Collection[str]:
        return self.run.topics

    def ends(self) -> Iterable[tuple[Place, int]]:
        """Each of their queues, with the offset after the last of them there."""
        run = self.run
        for place, number, count in zip(run.places, self.numbers, run.counts, strict=True):
            yield place, number + count

    def arrivals(self) -> Sequence[Arrival]:
        """Each record by itself."""
        queues = dict(zip(self.run.places, self.queues, strict=True))
        first = self.file.start
        view = self.file.view(0, self.physical_offset + self.size - first)
        records = (peek_record(view, offset - first) for offset in self.placed.offsets)
        return [_arrival(record, queues[record.topic, record.queue_id]) for record in records]

    def enter(self, index: Index | None) -> bool:
        """All as one; False when they do not simply follow what is there, and must be entered one by one.

        Raises DiskFullError and OSError; then, too, each may be entered again.
        """
        placed = self.placed
        for queue, number, (entries, first, end) in zip(self.queues, self.numbers, placed.entries, strict=True):
            if not queue.extend(number, entries, first, end):
                return False
        return index is None or index.add_hashed(placed.keys, self.physical_offset, placed.offsets[-1])


class Walked(msgspec.Struct, gc=False):
    """Plain records that a walk over the log found, and that are in their queues now; `find` knows those."""

    span: Span
    find: Callable[[str, int], ConsumeQueue | None]

    @property
    def topics(self) -> Collection[str]:
        return {topic for topic, *_ in self.span.lanes}

    def ends(self) -> Iterable[tuple[Place, int]]:
        """Each of their queues, once or more often, with the offset after one of the last of them there."""
        for topic, queue_id, number, _, _, entries in self.span.lanes:
            yield (topic, queue_id), number + len(entries) // ENTRY_SIZE

    def arrivals(self) -> Sequence[Arrival]:
        """Each record by itself; of delayed ones not when they are due."""
        span, found = self.span, list[Arrival]()
        at, end = span.begin - span.file.start, span.end - span.file.start
        view = span.file.view(0, end)
        while at < end:
            record = peek_record(view, at)
            if (queue := self.find(record.topic, record.queue_id)) is not None:
                found.append(_arrival(record, queue))
            at += record.size
        return found


def _arrival(record: RecordSummary, queue: ConsumeQueue) -> Arrival:
    properties = decode_properties(record.properties)
    return Arrival(
        record.topic, record.queue_id, record.queue_offset, record.physical_offset, record.size,
        tags_code(properties.get(Property.TAGS)), record.store_timestamp, record.sys_flag, properties, queue,
    )  # fmt: skip


Waiting = Arrival | Run | Sends


class Arrived(Protocol):
    """Records that have become visible in their queues together."""

    @property
    def topics(self) -> Collection[str]: ...

    def ends(self) -> Iterable[tuple[Place, int]]:
        """Each queue that they are in, with the offset after the last of them there."""

    def arrivals(self) -> Sequence[Arrival]:
        """Each record by itself, which costs as much as storing it did: only for who has to know."""


Listener = Callable[[Arrival], None]
"""Told about each record that has become visible in its queue. Must be quick and must not raise."""
Watcher = Callable[[Arrived], None]
"""The same, told once about all that have together."""


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
