"""The put path: checks in RocketMQ's order, queue offset, append, dispatch. One thread, so the whole of a put is one
critical section: offsets of a queue follow the order of the log.

Invariant: a message that is refused leaves no trace; a batch is in the log as a whole, in one file, or not at all.
"""

import logging
from collections.abc import Callable

from pyromq.protocol import sysflag
from pyromq.protocol.batch import iter_batch
from pyromq.protocol.errors import MessageError
from pyromq.protocol.host import V4_SIZE
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.properties import MAX_PROPERTIES, Property, decode_properties
from pyromq.protocol.record import pack_record
from pyromq.store.commitlog import CommitLog
from pyromq.store.config import BrokerRole, StoreConfig
from pyromq.store.dispatch import Dispatch, Dispatcher, code_of
from pyromq.store.errors import DiskFullError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.flush import Flusher
from pyromq.store.putting import PutMessage, PutResult, PutStatus
from pyromq.store.queuetable import ConsumeQueues
from pyromq.store.stats import StoreStats

log = logging.getLogger(__name__)

FIXED_SIZE = 91
"""Bytes of a record besides body, topic and properties, with IPv4 hosts and a topic of at most 127 bytes."""
RECORD_SLACK = 64 << 10
MAX_TOPIC = 127
MAX_TOPIC_V2 = 255

Hook = Callable[[PutMessage], PutResult | None]
"""Sees a message before it is stored and may rewrite it; a result refuses it."""


class Tail:
    """The end of one queue as the append path sees it, ahead of the queue file by what is not dispatched yet."""

    __slots__ = ("next_offset", "topic")

    def __init__(self, topic: bytes, next_offset: int) -> None:
        self.topic = topic
        self.next_offset = next_offset


class Appender:
    """Stores messages. `accepting` is False before `open` and after `close`."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Callable[[], int],
        commit_log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        flusher: Flusher,
        flags: RunningFlags,
        stats: StoreStats,
    ) -> None:
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._flags = flags
        self._stats = stats
        self._sync = config.sync_flush
        self._delays = config.delays
        self._max_body = config.max_message_size
        self._max_record = min(config.max_message_size + RECORD_SLACK, commit_log.largest_record)
        self._max_waiting = config.max_flush_waiters
        self._tails: dict[tuple[str, int], Tail] = {}
        self.role = config.broker_role
        self.accepting = False
        self.store_host = b""
        self.hooks: list[Hook] = []
        self.last_timestamp = 0

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets."""
        tail = self._tails.get((topic, queue_id))
        if tail is not None:
            return tail.next_offset
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def forget(self, topic: str | None = None) -> None:
        """Numbering of a topic (all without one) is taken from its queues again."""
        if topic is None:
            self._tails.clear()
        else:
            for key in [key for key in self._tails if key[0] == topic]:
                del self._tails[key]

    def put(self, message: PutMessage) -> PutResult:
        """Append one message. Never raises for what the message is; see `PutResult.status` and `reason`."""
        tail = self._tails.get((message.topic, message.queue_id))
        if self._flags.bits or tail is None or not self.accepting or self._dispatcher.waiting >= self._max_waiting:
            refusal = self._refusal(message)
            if refusal is not None:
                return self._refuse(refusal)
        properties = message.property_map
        if properties is None:
            properties = decode_properties(message.properties)
        if self.hooks or "INNER_NUM" in properties or message.sys_flag & sysflag.INNER_BATCH:
            refusal = self._inner_batch(message, properties) or self._hooked(message)
            if refusal is not None:
                return self._refuse(refusal)
            properties = message.property_map or decode_properties(message.properties)
            tail = None
        if tail is None:
            tail = self._tail(message.topic, message.queue_id)

        body, text, topic = message.body, message.properties, tail.topic
        born_host, store_host = message.born_host, message.store_host or self.store_host
        size = FIXED_SIZE + len(body) + len(topic) + len(text)
        sys_flag = message.sys_flag & ~sysflag.HOSTS_MASK
        if len(topic) > MAX_TOPIC:
            size += 1
        if len(born_host) != V4_SIZE:
            size += 12
            sys_flag |= sysflag.BORN_V6
        if len(store_host) != V4_SIZE:
            size += 12
            sys_flag |= sysflag.STORE_V6
        if len(text) > MAX_PROPERTIES or len(body) > self._max_body or size > self._max_record:
            return self._refuse(self._oversize(len(text), len(body), size))

        try:
            file = self._log.room(size)
        except (DiskFullError, OSError) as error:
            return self._refuse(self._no_room(error))
        kind = sys_flag & sysflag.TRANSACTION_MASK
        counted = kind in (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)
        queue_offset = tail.next_offset if counted else 0
        offset = file.start + file.position
        timestamp = self.last_timestamp = self._clock()
        record = pack_record(
            topic,
            body,
            text,
            message.queue_id,
            queue_offset,
            offset,
            timestamp,
            store_host,
            message.born_timestamp,
            born_host,
            sys_flag,
            message.flag,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
        file.append(record)
        if counted:
            tail.next_offset = queue_offset + 1
        code = code_of(message.topic, properties, timestamp, self._delays)
        entry = Dispatch(
            message.topic, message.queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties
        )
        if self._sync:
            self._dispatcher.hold(entry)
            self._flusher.wake()
        else:
            self._dispatcher.add(entry)
        self._stats.put_count += 1
        self._stats.put_bytes += size
        return PutResult(PutStatus.PUT_OK, offset, size, queue_offset, timestamp, store_host)

    def put_batch(self, message: PutMessage) -> PutResult:
        """Expand a producer's batch into records with consecutive offsets and append them as one."""
        refusal = self._refusal(message) or self._batch_refusal(message) or self._hooked(message)
        if refusal is not None:
            return self._refuse(refusal)
        tail = self._tail(message.topic, message.queue_id)
        topic, born_host, store_host = tail.topic, message.born_host, message.store_host or self.store_host
        sys_flag = sysflag.with_hosts(
            message.sys_flag, born_v6=len(born_host) != V4_SIZE, store_v6=len(store_host) != V4_SIZE
        )
        fixed = FIXED_SIZE + len(topic) + (len(topic) > MAX_TOPIC)
        fixed += len(born_host) + len(store_host) - 2 * V4_SIZE
        try:
            items = [(item.flag, item.body, bytes(item.properties)) for item in iter_batch(message.body)]
        except MessageError as error:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error)))
        if not items:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason="the batch is empty"))
        total = sum(fixed + len(body) + len(text) for _, body, text in items)
        if total > min(self._max_body, self._log.largest_record):
            reason = f"the batch takes {total} bytes in the log, more than maxMessageSize {self._max_body}"
            return self._refuse(PutResult(PutStatus.UNKNOWN_ERROR, reason=reason))

        try:
            file = self._log.room(total)
        except (DiskFullError, OSError) as error:
            return self._refuse(self._no_room(error))
        timestamp = self.last_timestamp = self._clock()
        first, begin = tail.next_offset, file.start + file.position
        offset, records, entries = begin, [], []
        for number, (flag, body, text) in enumerate(items, first):
            records.append(
                pack_record(
                    topic,
                    body,
                    text,
                    message.queue_id,
                    number,
                    offset,
                    timestamp,
                    store_host,
                    message.born_timestamp,
                    born_host,
                    sys_flag,
                    flag,
                    message.reconsume_times,
                )
            )
            properties = decode_properties(text)
            code = code_of(message.topic, properties, timestamp, self._delays)
            size = fixed + len(body) + len(text)
            entries.append(
                Dispatch(message.topic, message.queue_id, number, offset, size, code, timestamp, sys_flag, properties)
            )
            offset += size
        file.append(b"".join(records))
        tail.next_offset = first + len(items)
        give = self._dispatcher.hold if self._sync else self._dispatcher.add
        for entry in entries:
            give(entry)
        if self._sync:
            self._flusher.wake()
        self._stats.put_count += len(items)
        self._stats.put_bytes += total
        offsets = tuple(entry.physical_offset for entry in entries)
        return PutResult(PutStatus.PUT_OK, begin, total, first, timestamp, store_host, len(items), offsets)

    def _tail(self, topic: str, queue_id: int) -> Tail:
        key = (topic, queue_id)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = Tail(topic.encode(), self.next_offset(topic, queue_id))
        return tail

    def _refuse(self, result: PutResult) -> PutResult:
        self._stats.put_failed += 1
        return result

    def _refusal(self, message: PutMessage) -> PutResult | None:
        """Whether the store, or the place the message is for, rules it out."""
        if not self.accepting:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the store is not open")
        if self.role is BrokerRole.SLAVE:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="this broker is a slave: send to its master")
        if not self._flags.writeable:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self._flags.reason())
        if (why := illegal_topic(message.topic)) is not None:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=why)
        if not 0 <= message.queue_id <= 0x7FFFFFFF:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"there is no queue {message.queue_id}")
        if self._dispatcher.waiting >= self._max_waiting:
            return PutResult(
                PutStatus.OS_PAGE_CACHE_BUSY,
                reason=f"{self._dispatcher.waiting} messages wait for the disk, which is the limit; try again later",
            )
        return None

    @staticmethod
    def _inner_batch(message: PutMessage, properties: dict[str, str]) -> PutResult | None:
        inner = message.sys_flag & sysflag.INNER_BATCH
        if inner or Property.INNER_NUM in properties:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="inner batches need a topic with batch queues")
        return None

    def _hooked(self, message: PutMessage) -> PutResult | None:
        for hook in self.hooks:
            refusal = hook(message)
            if refusal is not None:
                return refusal
        return None

    @staticmethod
    def _batch_refusal(message: PutMessage) -> PutResult | None:
        if message.sys_flag & sysflag.TRANSACTION_MASK:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a batch cannot be transactional")
        properties = message.property_map or decode_properties(message.properties)
        if properties.get(Property.DELAY, "0") != "0":
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a batch cannot be delayed")
        return None

    def _oversize(self, text: int, body: int, size: int) -> PutResult:
        if text > MAX_PROPERTIES:
            reason = f"properties take {text} bytes, more than {MAX_PROPERTIES}"
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=reason)
        reason = f"a body of {body} bytes (record {size}) is larger than maxMessageSize {self._max_body} allows"
        return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=reason)

    def _no_room(self, error: Exception) -> PutResult:
        if isinstance(error, DiskFullError):
            if self._flags.set(Flag.NO_SPACE):
                log.error("messages are refused until there is disk space again: %s", error)
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=str(error))
        log.error("the next commit-log file cannot be created: %s", error)
        return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, reason=str(error))


def illegal_topic(topic: str) -> str | None:
    """Why a topic cannot be stored, or None. Its name becomes that of a directory, so it must be one plain name."""
    if not topic or topic in {".", ".."} or "/" in topic or "\0" in topic:
        return f"{topic!r} cannot be the name of a topic"
    try:
        length = len(topic.encode())
    except UnicodeEncodeError:
        return f"{topic!r} is not valid Unicode text"
    if length > MAX_TOPIC_V2 or (length > MAX_TOPIC and not topic.startswith(RETRY_PREFIX)):
        return f"topic {topic[:MAX_TOPIC_V2]!r} takes {length} bytes, more than {MAX_TOPIC}"
    return None
