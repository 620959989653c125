"""Keyword arguments of consumers, for type checkers and editors: the options that `config.py` declares."""

from datetime import datetime
from pathlib import Path

from pyromq.client.consumer.damage import OnDamaged
from pyromq.client.consumer.offsets import OffsetStore
from pyromq.client.consumer.rebalance.allocation import AllocationStrategy
from pyromq.client.options import ClientOptions
from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel


class ConsumerOptions(ClientOptions, total=False):
    """Those of `ConsumerConfig`."""

    model: MessageModel | str
    consume_from: ConsumeFromWhere | str
    consume_timestamp: datetime | str | None
    allocation: AllocationStrategy
    offset_store: OffsetStore | None
    local_offset_dir: Path
    rebalance_interval: float
    rebalance_min_interval: float
    handover_timeout: float
    pull_max_idle: float
    max_span: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    close_timeout: float
    on_damaged: OnDamaged | str


class PushOptions(ConsumerOptions, total=False):
    """Those of `PushConfig`."""

    consume_thread_min: int
    consume_thread_max: int
    consume_batch_size: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    pull_interval: float
    first_pull_delay: float
    pull_batch_size: int
    pull_batch_bytes: int
    post_subscription: bool
    max_reconsume_times: int
    suspend_time: float
    consume_timeout: float
    client_rebalance: bool
    lock_interval: float
    lock_life: float
    unlock_delay: float
    pop_threshold_for_queue: int
    pop_invisible_time: float
    pop_batch_size: int
    local_retry_delay: float


class PullOptions(ConsumerOptions, total=False):
    """Those of `PullConfig`."""

    suspend_timeout: float
    suspend_call_timeout: float
    pull_timeout: float
    auto_commit: bool
    auto_commit_interval: float
    pull_batch_size: int
    pull_threshold_for_all: int
    poll_timeout: float
    topic_check_interval: float
    max_reconsume_times: int
    enable_rebalance: bool
    broker_id: int | None
