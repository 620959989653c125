"""Settings of consumers, with RocketMQ's defaults. Durations are seconds, sizes bytes."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pyromq.client.config import KIB, MIB, ClientConfig
from pyromq.client.consumer.damage import OnDamaged
from pyromq.client.consumer.offsets import OffsetStore
from pyromq.client.consumer.process_queue import QueueLimits, TopicLimits
from pyromq.client.consumer.rebalance.allocation import AllocationStrategy, Average
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What push and pull consumers have in common."""

    model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: members of the group share the queues. BROADCASTING: each gets everything."""
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group begins in a queue it has no offset for."""
    consume_timestamp: datetime | str | None = None
    """For CONSUME_FROM_TIMESTAMP: a datetime or local time as yyyyMMddHHmmss; half an hour ago by default."""
    allocation: AllocationStrategy = field(default_factory=Average)
    offset_store: OffsetStore | None = None
    """A store of the user's own instead of the broker (clustering) or the local file (broadcasting)."""
    local_offset_dir: Path = field(default_factory=lambda: Path.home() / ".rocketmq_offsets")
    rebalance_interval: float = 20.0
    rebalance_min_interval: float = 1.0
    """After a round that could not settle, and at least between two rounds, unless a broker reports a change."""
    handover_timeout: float = 5.0
    """How long a queue that moves to another member is kept for messages in work, and waited for by its next owner."""
    pull_max_idle: float = 120.0
    """A queue not pulled for so long is given up and taken again."""
    close_timeout: float = 5.0
    """How long closing waits for what is being consumed."""
    on_damaged: OnDamaged | str = OnDamaged.DEAD_LETTER
    """What becomes of a record that cannot be read as it was sent: `dead-letter`, `deliver` or `skip`."""

    def check(self) -> None:
        ClientConfig.check(self)
        for name in ("rebalance_interval", "rebalance_min_interval", "pull_max_idle"):
            if getattr(self, name) <= 0:
                raise ClientError(f"{name} is {getattr(self, name)}, but must be above 0")
        if self.model not in (MessageModel.CLUSTERING, MessageModel.BROADCASTING):
            raise ClientError(f"model {self.model!r} is neither CLUSTERING nor BROADCASTING")
        if self.consume_from not in list(ConsumeFromWhere) or self.consume_from == ConsumeFromWhere.UNKNOWN:
            raise ClientError(f"consume_from {self.consume_from!r} is none of {', '.join(ConsumeFromWhere)}")

        if self.on_damaged not in list(OnDamaged):
            raise ClientError(f"on_damaged {self.on_damaged!r} is none of {', '.join(OnDamaged)}")

    @property
    def clustering(self) -> bool:
        return self.model == MessageModel.CLUSTERING


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig(ConsumerConfig):
    """What push consumers add."""

    consume_thread_min: int = 20
    consume_thread_max: int = 20
    """Listener calls at a time, on as many threads (plain listeners) or tasks (coroutine functions)."""
    consume_batch_size: int = 1
    max_span: int = 2000
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100 * MIB
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    pull_interval: float = 0.0
    first_pull_delay: float = 0.5
    """Before a queue just taken over is pulled: time for its last owner to finish."""
    pull_batch_size: int = 32
    pull_batch_bytes: int = 256 * KIB
    post_subscription: bool = False
    """Send the subscription with every pull instead of relying on heartbeats."""
    max_reconsume_times: int = -1
    """Failed deliveries before a message becomes a dead letter; -1: 16 for concurrent listeners, no end for ordered."""
    suspend_time: float = 1.0
    """Before an ordered queue is tried again, from 0.01 to 30."""
    consume_timeout: float = 15 * 60.0
    """A message that a listener holds longer than this is sent back."""
    client_rebalance: bool = True
    """False: the broker divides the queues."""
    lock_interval: float = 20.0
    lock_life: float = 30.0
    unlock_delay: float = 20.0
    pop_threshold_for_queue: int = 96
    pop_invisible_time: float = 60.0
    pop_batch_size: int = 32
    local_retry_delay: float = 5.0
    """Before a message is consumed again that could neither be consumed nor sent back."""

    def check(self) -> None:
        ConsumerConfig.check(self)
        for name, low, high in _PUSH_RANGES:
            _check_range(name, getattr(self, name), low, high)
        for name, high in (("pull_threshold_for_topic", 6_553_500), ("pull_threshold_size_for_topic", 102_400 * MIB)):
            if getattr(self, name) != -1:
                _check_range(name, getattr(self, name), 1, high)
        if self.consume_thread_min > self.consume_thread_max:
            raise ClientError(
                f"consume_thread_min {self.consume_thread_min} is above consume_thread_max {self.consume_thread_max}"
            )

    @property
    def queue_limits(self) -> QueueLimits:
        return QueueLimits(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, self.max_span)

    @property
    def topic_limits(self) -> TopicLimits:
        return TopicLimits(self.pull_threshold_for_topic, self.pull_threshold_size_for_topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig(ConsumerConfig):
    """What pull consumers add."""

    suspend_timeout: float = 20.0
    """How long a broker may hold a pull that finds nothing."""
    suspend_call_timeout: float = 30.0
    """How long to wait for such a pull; not less than the above."""
    pull_timeout: float = 10.0
    """How long to wait for a pull that the broker answers at once."""
    auto_commit: bool = True
    auto_commit_interval: float = 5.0
    pull_batch_size: int = 10
    pull_threshold_for_all: int = 10_000
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100 * MIB
    max_span: int = 2000
    poll_timeout: float = 5.0
    topic_check_interval: float = 30.0
    max_reconsume_times: int = 16
    enable_rebalance: bool = True
    broker_id: int | None = None
    """Read from this broker of each set, whatever the brokers suggest."""

    def check(self) -> None:
        ConsumerConfig.check(self)
        if self.suspend_call_timeout < self.suspend_timeout:
            raise ClientError(
                f"suspend_call_timeout {self.suspend_call_timeout} is below suspend_timeout {self.suspend_timeout}"
            )
        for name, low, high in _PULL_RANGES:
            _check_range(name, getattr(self, name), low, high)

    @property
    def queue_limits(self) -> QueueLimits:
        return QueueLimits(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, self.max_span)


Ranges = tuple[tuple[str, float, float], ...]

_COMMON_RANGES: Ranges = (
    ("max_span", 1, 65535),
    ("pull_threshold_for_queue", 1, 65535),
    ("pull_threshold_size_for_queue", MIB, 1024 * MIB),
    ("pull_batch_size", 1, 1024),
)
_PUSH_RANGES: Ranges = (
    *_COMMON_RANGES,
    ("consume_thread_min", 1, 1000),
    ("consume_thread_max", 1, 1000),
    ("pull_interval", 0, 65.535),
    ("consume_batch_size", 1, 1024),
    ("pull_batch_bytes", 1, 2**31 - 1),
    ("pop_invisible_time", 5.0, 300.0),
    ("pop_batch_size", 1, 32),
    ("lock_interval", 0.001, 60.0),
    ("consume_timeout", 0.001, 2**31 - 1),
)
_PULL_RANGES: Ranges = (
    *_COMMON_RANGES,
    ("auto_commit_interval", 0.001, 2**31 - 1),
    ("pull_threshold_for_all", 1, 2**31 - 1),
    ("topic_check_interval", 0.001, 2**31 - 1),
)


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ClientError(f"{name} is {value}, outside {low}..{high}")
