"""Finding messages other than by queue offset: by place in the log, by key, by time. Reads only."""

from struct import Struct
from typing import NamedTuple

from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.record import decode_record, peek_record
from pyromq.protocol.records.sysflag import BORN_V6
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.queue.offsettime import Boundary, offset_by_time
from pyromq.store.queue.table import ConsumeQueues

_MIN_RECORD = 91
_SIZE = Struct(">i")
_SYS_FLAG = Struct(">36xi")
_STORE_TIME = Struct(">56xq")
_STORE_TIME_V6 = Struct(">68xq")
_ATTEMPTS = 3


class QueryResult(NamedTuple):
    """Records found by key, in the order of the log, and how far the index reaches."""

    records: list[memoryview]
    index_last_timestamp: int
    index_last_offset: int

    def messages(self) -> list[ReceivedMessage]:
        return [decode_record(record) for record in self.records]


class Lookup:
    """Looks into log, queues and index of one store."""

    def __init__(self, commit_log: CommitLog, queues: ConsumeQueues, index: Index | None) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index

    def record_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The record that begins at an offset; None when none does. `size` saves looking for it when known."""
        if size is None:
            head = self._log.read(physical_offset, _MIN_RECORD)
            if head is None:
                return None
            (size,) = _SIZE.unpack_from(head)
        if not _MIN_RECORD <= size <= self._log.file_size:
            return None
        record = self._log.read(physical_offset, size)
        if record is None:
            return None
        try:
            return record if peek_record(record, 0).physical_offset == physical_offset else None
        except MessageError:
            return None

    def message_at(self, physical_offset: int) -> ReceivedMessage | None:
        """The same, decoded."""
        record = self.record_at(physical_offset)
        return decode_record(record) if record is not None else None

    def by_key(self, topic: str, key: str, max_count: int, begin: int, end: int) -> QueryResult:
        """Newest records, at most `max_count`, of a topic with a key or unique key, stored within [begin, end] ms.

        The index knows hashes and seconds only, so the text of the key and the time are compared here.
        """
        if self._index is None:
            return QueryResult([], 0, 0)
        hits = self._index.query(topic, key, max_count, begin, end)
        records: list[memoryview] = []
        for offset in hits.offsets:
            record = self.record_at(offset) if begin <= self.store_time_at(offset) <= end else None
            if record is not None and _has_key(record, topic, key):
                records.append(record)
        return QueryResult(records, hits.last_timestamp, hits.last_offset)

    def store_time_at(self, physical_offset: int, size: int = _MIN_RECORD) -> int:
        """When the record at an offset was stored; -1 when it cannot be read."""
        head = self._log.read(physical_offset, max(min(size, _MIN_RECORD), 76))
        if head is None:
            return -1
        (sys_flag,) = _SYS_FLAG.unpack_from(head)
        where = _STORE_TIME_V6 if sys_flag & BORN_V6 else _STORE_TIME
        return int(where.unpack_from(head)[0])

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When the message at a queue offset was stored; -1 when there is none."""
        queue = self._queues.get(topic, queue_id)
        entry = queue.entry(queue_offset) if queue is not None else None
        return self.store_time_at(entry[0], entry[1]) if entry is not None else -1

    def earliest_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """When the oldest message kept, of a queue or of all, was stored; -1 without any."""
        if topic is None:
            return self.store_time_at(self._log.min_offset)
        queue = self._queues.get(topic, queue_id)
        return self.store_time(topic, queue_id, queue.min_offset) if queue is not None else -1

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """S-11: the queue offset for a store time, see `Boundary`; 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(queue, timestamp, boundary, self.store_time_at, removed_below=self._log.min_offset)


def _has_key(record: memoryview, topic: str, key: str) -> bool:
    summary = peek_record(record, 0)
    if summary.topic != topic:
        return False
    properties = decode_properties(summary.properties)
    return properties.get(Property.UNIQ_KEY) == key or key in properties.get(Property.KEYS, "").split(" ")
