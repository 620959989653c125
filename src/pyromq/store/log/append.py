"""The put path: admission, queue offset, append, dispatch. One thread, so the whole of a put is one
critical section: offsets of a queue follow the order of the log.

Invariant: a message that is refused leaves no trace. Several messages at once are in `grouping`, batches in `batching`.
"""

from collections.abc import Callable, Iterable
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from zlib import crc32

from pyromq.protocol.errors import MessageError
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.record import MAGIC_V1, MAGIC_V2, pack_record
from pyromq.protocol.records.tags import tags_code
from pyromq.store.arrival import Arrival, code_of
from pyromq.store.config import BrokerRole, StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import DiskFullError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.log.admission import INNER_BATCH_REFUSED, Admission, Hook
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.flush import Flusher
from pyromq.store.log.plainrecord import MAX_TOPIC, MIN_SIZE, PREFIX, PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.stats import StoreStats

_INNER_BATCH = sysflag.INNER_BATCH
_TRANSACTION = sysflag.TRANSACTION_MASK
_NO_V6 = ~sysflag.HOSTS_MASK
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack
_QUEUED = (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)
_MAX_REMEMBERED_TAGS = 256
_PUT_OK = PutStatus.PUT_OK


class Tail:
    """The end of one queue as the append path sees it, ahead of the queue by what is not dispatched yet."""

    __slots__ = ("fixed_size", "magic", "next_offset", "plain", "queue", "scheduled", "short", "topic", "topic_field")

    def __init__(self, topic: str, queue: ConsumeQueue, next_offset: int) -> None:
        self.topic = topic.encode()
        self.queue = queue
        self.next_offset = next_offset
        self.fixed_size = MIN_SIZE + len(self.topic) + (len(self.topic) > MAX_TOPIC) - 2 * V4_SIZE
        """Bytes of a record besides body, properties and hosts."""
        self.short = len(self.topic) <= MAX_TOPIC
        self.magic = MAGIC_V1 if self.short else MAGIC_V2
        self.topic_field = len(self.topic).to_bytes(1 if self.short else 2) + self.topic
        self.scheduled = topic == SCHEDULE_TOPIC
        self.plain = self.short and not self.scheduled


class Appender:
    """Stores messages, between `start` and `stop`."""

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
        self._waiting = dispatcher.waiting
        self._enter = dispatcher.enter
        self._flusher = flusher
        self._flags = flags
        self._stats = stats
        self._sync = config.sync_flush
        self._delays = config.delays
        self._admission = Admission(config, flags, dispatcher, commit_log.largest_record)
        self._hooks = self._admission.hooks
        self.use(config)
        # Where messages may go without asking again. Empty whenever the store as a whole takes none.
        self._tails: dict[tuple[str, int], Tail] = {}
        self._codes: dict[str, int] = {}
        self.store_host = b""

    def use(self, config: StoreConfig) -> None:
        """Go by the bounds in these settings from the next message on."""
        self._admission.use(config)
        self._surely_small = self._admission.surely_small
        self._max_waiting = config.max_flush_waiters

    @property
    def accepting(self) -> bool:
        return self._admission.accepting

    def add_hook(self, hook: Hook, marks: Iterable[str]) -> None:
        self._admission.add_hook(hook, marks)

    def start(self) -> None:
        self._admission.accepting = True

    def stop(self) -> None:
        self._admission.accepting = False
        self._tails.clear()

    @property
    def role(self) -> BrokerRole:
        return self._admission.role

    @role.setter
    def role(self, role: BrokerRole) -> None:
        self._admission.role = role
        self._tails.clear()

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets."""
        tail = self._tails.get((topic, queue_id))
        if tail is not None:
            return tail.next_offset
        for entry in reversed(self._waiting):
            if entry.topic == topic and entry.queue_id == queue_id and entry.sys_flag & _TRANSACTION in _QUEUED:
                return entry.next_offset
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def forget(self, topic: str | None = None) -> None:
        """Numbering of a topic (all without one) is taken from its queues again."""
        if topic is None:
            self._tails.clear()
        else:
            for key in [key for key in self._tails if key[0] == topic]:
                del self._tails[key]

    def put(self, message: PutMessage) -> PutResult:  # noqa: C901 - the hot path: a call costs as much as a check
        """Append one message. Never raises for what the message is; see `PutResult.status` and `reason`."""
        properties = message.property_map
        if properties is None:
            properties = message.property_map = decode_properties(message.properties)
        topic, queue_id = message.topic, message.queue_id
        tail = self._tails.get((topic, queue_id))
        if tail is None or self._flags.bits or (self._hooks and self._admission.asks(properties)):
            admitted = self._admit(message)
            if isinstance(admitted, PutResult):
                return self._refuse(admitted)
            tail, topic, queue_id = admitted, message.topic, message.queue_id
            properties = message.property_map or decode_properties(message.properties)
        sys_flag, counted = message.sys_flag, True
        if sys_flag:
            counted = sys_flag & _TRANSACTION in _QUEUED
            if sys_flag & _INNER_BATCH:
                return self._refuse(INNER_BATCH_REFUSED)
        if "INNER_NUM" in properties:
            return self._refuse(INNER_BATCH_REFUSED)
        body, text, born_host = message.body, message.properties, message.born_host
        store_host = message.store_host or self.store_host
        size = tail.fixed_size + len(body) + len(text) + len(born_host) + len(store_host)
        if (
            size > self._surely_small
            and (refusal := self._admission.check_size(len(text), len(body), size)) is not None
        ):
            return self._refuse(refusal)

        commit_log = self._log
        file = commit_log.last
        if file is None or file.position + size > commit_log.limit:
            try:
                file = commit_log.room(size)
            except (DiskFullError, OSError) as error:
                return self._refuse(self._admission.no_room(error))
        queue_offset = tail.next_offset if counted else 0
        position = file.position
        offset = file.start + position
        timestamp = self._clock()
        try:
            if len(born_host) == 8 == len(store_host) and tail.short:
                record = b"".join(
                    (
                        _pack_prefix(
                            size,
                            MAGIC_V1,
                            crc32(body) & 0x7FFFFFFF,
                            queue_id,
                            message.flag,
                            queue_offset,
                            offset,
                            sys_flag & _NO_V6,
                            message.born_timestamp,
                            born_host,
                            timestamp,
                            store_host,
                            message.reconsume_times,
                            message.prepared_transaction_offset,
                            len(body),
                        ),
                        body,
                        tail.topic_field,
                        _pack_length(len(text)),
                        text,
                    )
                )
            else:
                record = pack_record(
                    tail.topic,
                    body,
                    text,
                    queue_id,
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
        except (MessageError, StructError) as error:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a number does not fit: {error}"))
        file.raw[position : position + size] = record
        file.position = position + size  # last: the flush thread believes it
        if counted:
            tail.next_offset = queue_offset + 1
        if tail.scheduled:
            code = code_of(topic, properties, timestamp, self._delays)
        else:
            tags = properties.get("TAGS")
            code = self._codes.get(tags) or self._code(tags) if tags else 0
        queue = tail.queue
        if self._sync:
            self._hold(
                Arrival(topic, queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties, queue)
            )
        elif self._waiting or not self._enter(
            topic, queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties, queue
        ):
            self._waiting.append(
                Arrival(topic, queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties, queue)
            )
        stats = self._stats
        stats.put_count += 1
        stats.put_bytes += size
        return PutResult(_PUT_OK, offset, size, queue_offset, timestamp, store_host)

    def _admit(self, message: PutMessage) -> Tail | PutResult:
        """The queue that a message goes to, or why it does not."""
        refusal = self._admission.check(message)
        if refusal is not None:
            return refusal
        key = message.topic, message.queue_id
        tail = self._tails.get(key)
        if tail is None:
            tail = Tail(message.topic, self._queues.get_or_create(*key), self.next_offset(*key))
            self._tails[key] = tail
        return tail

    def _code(self, tags: str) -> int:
        """The hash of tags, remembered if they are short and not too many."""
        code = tags_code(tags)
        if len(tags) <= _MAX_REMEMBERED_TAGS and len(self._codes) < _MAX_REMEMBERED_TAGS:
            self._codes[tags] = code
        return code

    def _hold(self, entry: Arrival) -> None:
        """Nobody may see the message before it is on disk."""
        self._waiting.append(entry)
        self._held()

    def _held(self) -> None:
        self._flusher.wake()
        if self._dispatcher.backlog >= self._max_waiting:
            self._flags.set(Flag.BUSY)

    def _refuse(self, result: PutResult) -> PutResult:
        self._stats.put_failed += 1
        return result
