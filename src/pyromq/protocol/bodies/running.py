"""What a consumer reports about itself, and the result of consuming one message on request."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.bodies.heartbeat import SubscriptionData
from pyromq.protocol.message import MessageQueue


class ProcessQueueInfo(Body):
    """Messages a consumer holds of one queue. `dropped` goes by its misspelled wire name."""

    cached_msg_count: Int = 0
    cached_msg_max_offset: Long = 0
    cached_msg_min_offset: Long = 0
    cached_msg_size_in_mib: Int = field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: Long = 0
    dropped: bool = field(default=False, name="droped")
    last_consume_timestamp: Long = 0
    last_lock_timestamp: Long = 0
    last_pull_timestamp: Long = 0
    locked: bool = False
    transaction_msg_count: Int = 0
    transaction_msg_max_offset: Long = 0
    transaction_msg_min_offset: Long = 0
    try_unlock_times: Long = 0


class PopProcessQueueInfo(Body):
    dropped: bool = field(default=False, name="droped")
    last_pop_timestamp: Long = 0
    wait_ack_count: Int = 0


class ConsumeStatus(Body):
    """Rates of one topic, per second and in milliseconds."""

    consume_failed_msgs: Long = 0
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")


class ConsumerRunningInfo(Body):
    """The state of one consumer; `jstack` holds a dump of its threads."""

    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    user_consumer_info: dict[str, str] = field(default_factory=dict)


class ConsumeDirectlyResult(Body):
    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Long = 0
