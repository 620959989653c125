"""Statistics: topics, consumer progress, time spans, broker counters, dumps of queue entries, message counts."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.lenient import dumps
from pyromq.protocol.message import MessageQueue


class TopicOffset(Body):
    """What one queue holds."""

    last_update_timestamp: Long = 0
    max_offset: Long = 0
    min_offset: Long = 0


class TopicStatsTable(Body):
    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


class OffsetWrapper(Body):
    """How far a group is in one queue."""

    broker_offset: Long = 0
    consumer_offset: Long = 0
    last_timestamp: Long = 0
    pull_offset: Long = 0


class ConsumeStats(Body):
    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)


class ConsumeStatsList(Body):
    """Progress of all groups of a broker."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: Long = 0
    total_inflight_diff: Long = 0


class QueueTimeSpan(Body):
    """Store times of the first, the last and the next message of a queue. The texts repeat the numbers."""

    message_queue: MessageQueue
    consume_time_stamp: Long = 0
    consume_time_stamp_str: str | None = None
    delay_time: Long = 0
    max_time_stamp: Long = 0
    max_time_stamp_str: str | None = None
    min_time_stamp: Long = 0
    min_time_stamp_str: str | None = None


class ConsumeTimeSpans(Body):
    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class BrokerStatsItem(Body):
    """`avgpt` is the sum per call."""

    avgpt: float = 0.0
    sum: Long = 0
    tps: float = 0.0


class BrokerStatsData(Body):
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)


class ConsumeQueueEntry(Body):
    """One entry of a consume queue, and whether the filter of the group lets it pass."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Long = 0
    physic_size: Int = 0
    tags_code: Long = 0


class ConsumeQueuePage(Body):
    filter_data: str | None = None
    max_queue_index: Long = 0
    min_queue_index: Long = 0
    queue_data: list[ConsumeQueueEntry] = field(default_factory=list)
    subscription_data: SubscriptionData | None = None


class MessageCount(Body):
    count: Long = 0
    time_stamp: Long = 0


class TimerMetrics(Body):
    """Timed messages that wait, by topic: answer of 61 and file `timermetrics`."""

    data_version: DataVersion = field(default_factory=DataVersion)
    timing_count: dict[str, MessageCount] = field(default_factory=dict)

    def encode(self) -> bytes:
        return dumps(self, strict=True)
