"""From the log to queues, index and whoever waits: in log order, each record once.

The append hands over what it already knows, so records are not parsed again. With SYNC_FLUSH a record waits here until
it is on disk, because nobody may see a message that a crash could still take back. Invariant: `position` is the end of
the last record dispatched; everything below it is in its queue, nothing above it is.
"""

import logging
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import groupby, takewhile

from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.tags import tags_code
from pyromq.store.arrival import Arrival, Listener, Run, code_of
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.table import ConsumeQueues

log = logging.getLogger(__name__)

_TRANSACTION = sysflag.TRANSACTION_MASK
_COMMIT = sysflag.COMMIT
_ROLLBACK = sysflag.ROLLBACK


class Dispatcher:
    """Feeds queues and `index` (None: no index). `listeners` may be added to at any time."""

    def __init__(
        self, queues: ConsumeQueues, index: Index | None, flags: RunningFlags, delays: Mapping[int, int]
    ) -> None:
        self._queues = queues
        self._index = index
        self._flags = flags
        self._delays = delays
        self.listeners: list[tuple[Listener, Container[str] | None]] = []
        """Each with the topics it wants to hear of, which may change; None: all."""
        self.waiting: deque[Arrival | Run] = deque()
        """Records that may not be seen yet, or could not be entered."""
        self._packed = 0  # how many more records than entries wait: a stretch is one entry
        self.position = 0
        self.last_timestamp = 0
        """Store time of the last record dispatched."""
        self.stuck = False
        """A queue could not be written, for want of disk space; `advance` tries again from there."""
        self._busy = False
        self._next: Callable[[], None] | None = None

    def turn(self, work: Callable[[], None]) -> None:
        """Dispatch by `work`, not nested: a listener may come back here, since a read settles what the disk has.

        Its work runs when the present one is through, else records would be dispatched twice, or never.
        """
        if self._busy:
            self._next = work
            return
        self._busy = True
        try:
            work()
            while self._next is not None:
                following, self._next = self._next, None
                following()
        finally:
            self._busy, self._next = False, None

    @property
    def backlog(self) -> int:
        """How many records wait."""
        return len(self.waiting) + self._packed

    def hold(self, stretch: Run) -> None:
        """Have the records of a stretch wait."""
        self.waiting.append(stretch)
        self._packed += len(stretch.offsets) - 1

    def add(self, record: Arrival) -> None:
        """Dispatch a record that may be seen at once, after those that wait."""
        if self.waiting or not self.feed(record):
            self.waiting.append(record)

    def add_many(self, records: Sequence[Arrival]) -> None:
        """`add` for each of several records, which lie in the log in this order."""
        if self.waiting or not self._enter_many(records):
            for record in records:
                self.add(record)

    def add_stretch(self, stretch: Run) -> None:
        """`add` for each record of a stretch."""
        if self.waiting or not self._enter_stretch(stretch):
            for record in stretch.records():
                self.add(record)

    def advance(self, confirmed: int) -> None:
        """Dispatch what waits, as far as records end at or below `confirmed`."""
        waiting = self.waiting
        ready = list(takewhile(lambda record: record.physical_offset + record.size <= confirmed, waiting))
        if self._enter_all(ready):
            return
        while waiting:
            record = waiting[0]
            if record.physical_offset + record.size > confirmed:
                return
            if isinstance(record, Run):
                waiting.popleft()
                waiting.extendleft(reversed(self._unpack(record)))
            elif self.feed(record):
                waiting.popleft()
            else:
                return

    def _enter_all(self, ready: Sequence[Arrival | Run]) -> bool:
        """Enter the first of those that wait, with as few steps as can be; False when the rest takes more."""
        waiting = self.waiting
        for kind, run in groupby(ready, type):
            if kind is Run:
                for stretch in run:
                    if not isinstance(stretch, Run) or not self._enter_stretch(stretch):
                        return False
                    waiting.popleft()
                    self._packed -= len(stretch.offsets) - 1
            else:
                records = [record for record in run if isinstance(record, Arrival)]
                if not self._enter_many(records):
                    return False
                for _ in records:
                    waiting.popleft()
        return True

    def _enter_stretch(self, stretch: Run) -> bool:
        """Enter records as one; False when they must be entered one by one, again if need be."""
        offsets, topic, index = stretch.offsets, stretch.topic, self._index
        if self.stuck:
            return False
        try:
            if not stretch.queue.extend(stretch.queue_offset, offsets, stretch.sizes, stretch.codes):
                return False
            if index is not None and not index.add_keys(stretch.keys, offsets[0], offsets[-1]):
                return False
        except (DiskFullError, OSError):
            return False
        self.position = stretch.physical_offset + stretch.size
        self.last_timestamp = stretch.store_timestamp
        if any(topics is None or topic in topics for _, topics in self.listeners):
            for record in stretch.records():
                for listener, topics in self.listeners:
                    if topics is None or topic in topics:  # asked again: hearing of one may change who wants the next
                        listener(record)
        return True

    def _unpack(self, stretch: Run) -> list[Arrival]:
        """The records of a stretch that no longer waits as one."""
        self._packed -= len(stretch.offsets) - 1
        return stretch.records()

    def _enter_many(self, records: Sequence[Arrival]) -> bool:
        """Enter records step by step for all of them; False when they must be entered one by one, again if need be."""
        index = self._index
        if not records or self.stuck or any(record.sys_flag & _TRANSACTION for record in records):
            return False
        try:
            for record in records:
                record.queue.append(record.queue_offset, record.physical_offset, record.size, record.tags_code)
            if index is not None:
                index.add_many(records)
        except (DiskFullError, OSError, StoreFormatError):
            return False
        last = records[-1]
        self.position = last.physical_offset + last.size
        self.last_timestamp = last.store_timestamp
        there = {record.topic for record in records}
        for listener, topics in self.listeners:
            if topics is None or any(topic in topics for topic in there):
                for record in records:
                    if topics is None or record.topic in topics:
                        listener(record)
        return True

    def follow(self, walker: Walker) -> None:
        """Dispatch records that came as raw bytes, which begin at `position`; stops where a queue cannot be written."""
        self.advance(walker.position)
        if self.stuck:
            return
        for record in walker:
            self.add(self._read(record))
            if self.stuck:
                return
        self.position = max(self.position, walker.position)

    def catch_up(self, walker: Walker) -> None:
        """Go on where recovery had to stop: dispatch records from `position` on, as far as queues can be written."""
        for record in walker:
            if not self.redo(record):
                return
        self.position = max(self.position, walker.position)

    def redo(self, record: LogRecord) -> bool:
        """Recovery: enter a record of the log unless it is there already. False when the disk is full."""
        try:
            if self.listeners or self.stuck:
                return self.feed(self._read(record))
            self._enter(record)
        except (DiskFullError, OSError):
            return self.feed(self._read(record))  # which fails as well, and says so
        except StoreFormatError as error:
            log.warning("the record at %d is left out of its queue: %s", record.offset, error)
        return True

    def _enter(self, record: LogRecord) -> None:
        """What `feed` does for a record that nobody listens for, without all in between: recovery has many to enter."""
        properties = record.properties()
        kind, timestamp = record.sys_flag & _TRANSACTION, record.store_timestamp
        topic, offset, size = record.topic, record.offset, record.size
        if not kind or kind == _COMMIT:
            tags = properties.get("TAGS")
            code = tags_code(tags) if topic != SCHEDULE_TOPIC else code_of(topic, properties, timestamp, self._delays)
            self._queues.get_or_create(topic, record.queue_id).append(record.queue_offset, offset, size, code)
        if self._index is not None and kind != _ROLLBACK:
            self._index.add(topic, properties.get("UNIQ_KEY"), properties.get("KEYS"), offset, timestamp)
        self.position = offset + size
        self.last_timestamp = timestamp

    def forget(self, offset: int) -> None:
        """The log was cut to `offset`."""
        waiting = self.waiting
        while waiting and waiting[-1].physical_offset + waiting[-1].size > offset:
            last = waiting.pop()
            if isinstance(last, Run):  # its first records may be left
                left = [record for record in self._unpack(last) if record.physical_offset < offset]
                waiting.extend(left)
        self.position = min(self.position, offset)

    def _read(self, record: LogRecord) -> Arrival:
        properties = record.properties()
        return Arrival(
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.offset,
            record.size,
            code_of(record.topic, properties, record.store_timestamp, self._delays),
            record.store_timestamp,
            record.sys_flag,
            properties,
            self._queues.get_or_create(record.topic, record.queue_id),
        )

    def feed(self, record: Arrival) -> bool:
        """Dispatch one record, out of turn if others wait. False when a queue cannot be written."""
        return self.enter(
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
            record.size,
            record.tags_code,
            record.store_timestamp,
            record.sys_flag,
            record.properties,
            record.queue,
        )

    def enter(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        offset: int,
        size: int,
        code: int,
        timestamp: int,
        sys_flag: int,
        properties: dict[str, str],
        queue: ConsumeQueue,
    ) -> bool:
        """The same with the fields of a `Arrival`, which is made only if somebody listens."""
        kind = sys_flag & _TRANSACTION
        queued = not kind or kind == _COMMIT
        try:
            if queued:
                queue.append(queue_offset, offset, size, code)
            if self._index is not None and kind != _ROLLBACK:
                find = properties.get
                self._index.add(topic, find("UNIQ_KEY"), find("KEYS"), offset, timestamp)
        except (DiskFullError, OSError) as error:
            return self._halt(topic, queue_id, queue_offset, error)
        except StoreFormatError:
            log.exception("the record at %d is left out of its queue", offset)
        self.position = offset + size
        self.last_timestamp = timestamp
        if self.stuck:
            self._resume()
        if queued:
            for listener, topics in self.listeners:
                if topics is None or topic in topics:
                    fields = (topic, queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties, queue)
                    listener(Arrival(*fields))
        return True

    def _resume(self) -> None:
        self.stuck = False
        self._flags.clear(Flag.LOGIC_DISK_FULL)
        log.info("consume queues can be written again, dispatching goes on at %d", self.position)

    def _halt(self, topic: str, queue_id: int, queue_offset: int, error: Exception) -> bool:
        if not self.stuck:
            self.stuck = True
            self._flags.set(Flag.LOGIC_DISK_FULL)
            log.error(
                "queue %d of topic %s or the index cannot take offset %d: %s; messages are refused until it can",
                queue_id,
                topic,
                queue_offset,
                error,
            )
        return False
