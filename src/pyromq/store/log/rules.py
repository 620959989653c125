"""Which messages a store takes: RocketMQ's checks in RocketMQ's order, each with its status and a reason in words."""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from pyromq.protocol.names import MAX_RETRY_TOPIC, MAX_TOPIC, RETRY_PREFIX
from pyromq.protocol.properties import MAX_PROPERTIES, Property, decode_properties
from pyromq.protocol.records import sysflag
from pyromq.store.config import BrokerRole, StoreConfig
from pyromq.store.errors import DiskFullError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

log = logging.getLogger(__name__)

RECORD_SLACK = 64 << 10
"""Bytes that a record may have beyond `max_message_size`, for topic and properties."""

_TIMED = frozenset({Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_MS, Property.TIMER_DELAY_SEC})

INNER_BATCH_REFUSED = PutResult(
    PutStatus.MESSAGE_ILLEGAL, reason="inner batches need a topic with batch queues, which are not supported"
)

Hook = Callable[[PutMessage], PutResult | None]
"""Sees a message, whose `property_map` is there, before it is stored and may rewrite it; a result refuses it."""


class Queued(Protocol):
    """What waits for the disk."""

    @property
    def backlog(self) -> int: ...


class PutRules:
    """The rules of one store. `accepting` is False before it is open and after it was closed."""

    def __init__(self, config: StoreConfig, flags: RunningFlags, waiting: Queued, largest_record: int) -> None:
        self._flags = flags
        self._waiting = waiting
        self._largest_record = largest_record
        self.use(config)
        self.hooks: list[tuple[Hook, frozenset[str]]] = []
        self.marks: frozenset[str] = frozenset({"INNER_NUM", Property.DELAY, *_TIMED})
        """Properties that make a message more than one to be appended."""
        self.asks_always = False
        """Whether a hook wants to see every message."""
        self.role = config.broker_role
        self.accepting = False

    def use(self, config: StoreConfig) -> None:
        """Go by these settings from the next message on."""
        self.max_waiting = config.max_flush_waiters
        """Messages that may wait for the disk."""
        self._max_body = config.max_message_size
        self._max_record = min(config.max_message_size + RECORD_SLACK, self._largest_record)
        self.surely_small = min(MAX_PROPERTIES, self._max_body, self._max_record)
        """A record of at most this size cannot be too large in any respect."""
        self.max_batch = min(self._max_body, self._largest_record)

    def add_hook(self, hook: Hook, marks: Iterable[str]) -> None:
        """Have `hook` see the messages with a property out of `marks`; all of them when that is empty."""
        own = frozenset(marks)
        self.hooks.append((hook, own))
        self.marks |= own
        self.asks_always |= not own

    def check(self, message: PutMessage) -> PutResult | None:
        """Why the message is not taken, None when it is; hooks may have rewritten it."""
        refusal = self._refusal(message)
        for hook, marks in self.hooks:
            if refusal is None and not (marks and marks.isdisjoint(message.property_map or ())):
                refusal = hook(message) or self._refusal(message)
        return refusal

    def _refusal(self, message: PutMessage) -> PutResult | None:
        """Whether the store, or the place the message is for, rules it out."""
        if not self.accepting:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the store is not open")
        if self.role is BrokerRole.SLAVE:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="this broker is a slave: send to its master")
        if self._waiting.backlog < self.max_waiting:
            self._flags.clear(Flag.BUSY)
        if not self._flags.writeable:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self._flags.reason())
        if (why := illegal_topic(message.topic)) is not None:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=why)
        if not 0 <= message.queue_id <= 0x7FFFFFFF:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"there is no queue {message.queue_id}")
        if (backlog := self._waiting.backlog) >= self.max_waiting:
            return PutResult(
                PutStatus.OS_PAGE_CACHE_BUSY,
                reason=f"{backlog} messages wait for the disk, which is maxFlushWaiters; try again shortly",
            )
        return None

    def check_batch(self, message: PutMessage) -> PutResult | None:
        """What rules out a batch besides."""
        if message.sys_flag & sysflag.TRANSACTION_MASK:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a batch cannot be transactional")
        properties = message.property_map or decode_properties(message.properties)
        if properties.get(Property.DELAY, "0") != "0" or not _TIMED.isdisjoint(properties):
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a batch cannot be delayed")
        return None

    def check_batch_size(self, total: int) -> PutResult | None:
        if total <= self.max_batch:
            return None
        reason = f"the batch takes {total} bytes in the log, more than maxMessageSize {self._max_body} allows"
        return PutResult(PutStatus.UNKNOWN_ERROR, reason=reason)

    def check_size(self, text: int, body: int, size: int) -> PutResult | None:
        """Whether properties, body or the whole record have too many bytes."""
        if text > MAX_PROPERTIES:
            reason = f"properties take {text} bytes, more than {MAX_PROPERTIES}"
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=reason)
        if body > self._max_body or size > self._max_record:
            reason = f"a body of {body} bytes (record {size}) is larger than maxMessageSize {self._max_body} allows"
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=reason)
        return None

    def no_room(self, error: Exception) -> PutResult:
        """The log has no place for a record."""
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
    if length > MAX_RETRY_TOPIC or (length > MAX_TOPIC and not topic.startswith(RETRY_PREFIX)):
        return f"topic {topic[:MAX_RETRY_TOPIC]!r} takes {length} bytes, more than {MAX_TOPIC}"
    return None
