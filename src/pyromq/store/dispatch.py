"""From the log to queues, index and whoever waits: in log order, each record once.

The append hands over what it already knows, so records are not parsed again. With SYNC_FLUSH a record waits here until
it is on disk, because nobody may see a message that a crash could still take back. Invariant: `position` is the end of
the last record dispatched; everything below it is in its queue, nothing above it is.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from pyromq.protocol import sysflag
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import Property
from pyromq.protocol.tags import tags_code
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index import Index
from pyromq.store.queuetable import ConsumeQueues
from pyromq.store.walk import LogRecord, Walker

log = logging.getLogger(__name__)

_TRANSACTION = sysflag.TRANSACTION_MASK
_PREPARED = sysflag.PREPARED
_ROLLBACK = sysflag.ROLLBACK


class Dispatch(msgspec.Struct, gc=False):
    """One record on its way to queue, index and listeners."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    sys_flag: int
    properties: dict[str, str]

    @property
    def queued(self) -> bool:
        """Whether consumers of the topic see it: half messages and rollbacks have no queue entry."""
        return self.sys_flag & _TRANSACTION not in (_PREPARED, _ROLLBACK)


Listener = Callable[[Dispatch], None]
"""Told about each record that has become visible in its queue. Must be quick and must not raise."""


def code_of(topic: str, properties: Mapping[str, str], store_timestamp: int, delays: Mapping[int, int]) -> int:
    """What the queue entry says besides the place: the hash of the tags, or when a delayed message is due."""
    if topic == SCHEDULE_TOPIC and (level := _level(properties.get(Property.DELAY))) > 0:
        return store_timestamp + delays.get(min(level, max(delays, default=0)), 1_000)
    return tags_code(properties.get(Property.TAGS))


def dispatch_of(record: LogRecord, delays: Mapping[int, int]) -> Dispatch:
    """A record read from the log, ready to be dispatched."""
    properties = record.properties()
    return Dispatch(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.offset,
        record.size,
        code_of(record.topic, properties, record.store_timestamp, delays),
        record.store_timestamp,
        record.sys_flag,
        properties,
    )


def _level(text: str | None) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        return 0


class Dispatcher:
    """Feeds `queues` and `index` (None: no index). `listeners` may be added to at any time."""

    def __init__(self, queues: ConsumeQueues, index: Index | None, flags: RunningFlags) -> None:
        self._queues = queues
        self._index = index
        self._flags = flags
        self._waiting: deque[Dispatch] = deque()
        self.listeners: list[Listener] = []
        self.position = 0
        self.last_timestamp = 0
        """Store time of the last record dispatched."""
        self.stuck = False
        """A queue could not be written, for want of disk space; `advance` tries again from there."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def hold(self, record: Dispatch) -> None:
        """Take a record that may not be seen yet."""
        self._waiting.append(record)

    def add(self, record: Dispatch) -> None:
        """Take a record that may be seen at once, after those that wait."""
        if self._waiting or not self._feed(record):
            self._waiting.append(record)

    def advance(self, confirmed: int) -> None:
        """Dispatch what waits, as far as records end at or below `confirmed`."""
        waiting = self._waiting
        while waiting:
            record = waiting[0]
            if record.physical_offset + record.size > confirmed or not self._feed(record):
                return
            waiting.popleft()

    def follow(self, walker: Walker, delays: Mapping[int, int]) -> None:
        """Dispatch records that came as raw bytes, which begin at `position`; stops where a queue cannot be written."""
        self.advance(walker.position)
        if self.stuck:
            return
        for record in walker:
            self.add(dispatch_of(record, delays))
            if self.stuck:
                return
        self.position = max(self.position, walker.position)

    def redo(self, record: Dispatch) -> bool:
        """Recovery: enter a record read from the log unless it is there already. False when the disk is full."""
        return self._feed(record, fresh=False)

    def forget(self, offset: int) -> None:
        """The log was cut to `offset`."""
        waiting = self._waiting
        while waiting and waiting[-1].physical_offset >= offset:
            waiting.pop()
        self.position = min(self.position, offset)

    def discard(self, topic: str) -> None:
        """Forget what waits for a topic that is being deleted."""
        self._waiting = deque(record for record in self._waiting if record.topic != topic)

    def _feed(self, record: Dispatch, *, fresh: bool = True) -> bool:
        kind = record.sys_flag & _TRANSACTION
        queued = kind not in (_PREPARED, _ROLLBACK)
        try:
            if queued:
                queue = self._queues.get_or_create(record.topic, record.queue_id)
                if not queue.append(record.queue_offset, record.physical_offset, record.size, record.tags_code):
                    return self._halt(record, "the entry was refused")
            if self._index is not None and kind != _ROLLBACK:
                properties = record.properties
                self._index.add(
                    record.topic,
                    properties.get("UNIQ_KEY"),
                    properties.get("KEYS"),
                    record.physical_offset,
                    record.store_timestamp,
                )
        except (DiskFullError, OSError) as error:
            return self._halt(record, str(error))
        except StoreFormatError:
            log.exception("the record at %d is left out of its queue", record.physical_offset)
            queued = False
        self.position = record.physical_offset + record.size
        self.last_timestamp = record.store_timestamp
        if self.stuck:
            self.stuck = False
            self._flags.clear(Flag.LOGIC_DISK_FULL)
            log.info("consume queues can be written again, dispatching goes on at %d", self.position)
        if fresh and queued:
            for listener in self.listeners:
                listener(record)
        return True

    def _halt(self, record: Dispatch, why: str) -> bool:
        if not self.stuck:
            self.stuck = True
            self._flags.set(Flag.LOGIC_DISK_FULL)
            log.error(
                "queue %d of topic %s or the index cannot take offset %d: %s; messages are refused until it can",
                record.queue_id,
                record.topic,
                record.queue_offset,
                why,
            )
        return False
