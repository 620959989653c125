"""Headers of broker administration. Offsets and membership that consumers also ask for are in `consume`."""

from msgspec import field

from pyromq.protocol.headers.base import Header, Int, Long, RpcHeader, TopicHeader


class UpdateAndCreateTopicHeader(TopicHeader, kw_only=True):
    """Also UPDATE_AND_CREATE_STATIC_TOPIC."""

    topic: str
    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str
    topic_sys_flag: Int | None = None
    order: bool
    attributes: str | None = None
    force: bool | None = None


class UpdateAndCreateTopicListHeader(RpcHeader, kw_only=True):
    """Only the common fields; the topics stand in the body."""


class GetAllTopicConfigHeader(Header, kw_only=True):
    """Paging, sent by releases after 5.3.3; older ones send nothing and want everything."""

    topic_seq: Int | None = None
    data_version: str | None = None
    max_topic_num: Int | None = None


class GetAllTopicConfigResponseHeader(Header, kw_only=True):
    total_topic_num: Int | None = None


class GetBrokerConfigResponseHeader(Header, kw_only=True):
    """`version` is a data version as JSON text."""

    version: str


class GetAllSubscriptiongroupConfigHeader(Header, kw_only=True):
    """Paging, as for topics."""

    group_seq: Int | None = None
    data_version: str | None = None
    max_group_num: Int | None = None


class GetAllSubscriptiongroupConfigResponseHeader(Header, kw_only=True):
    total_group_num: Int | None = None


class GetTopicStatsInfoHeader(TopicHeader, kw_only=True):
    topic: str


class GetConsumerConnectionListHeader(RpcHeader, kw_only=True):
    consumer_group: str


class GetProducerConnectionListHeader(RpcHeader, kw_only=True):
    producer_group: str


class DeleteSubscriptiongroupHeader(RpcHeader, kw_only=True):
    group_name: str
    clean_offset: bool | None = None


class GetConsumeStatsHeader(TopicHeader, kw_only=True):
    """`topic_list` holds names separated by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class DeleteTopicInBrokerHeader(TopicHeader, kw_only=True):
    topic: str


class InvokeBrokerToResetOffsetHeader(TopicHeader, kw_only=True):
    """`queue_id` -1 or none: all queues; `offset` -1 or none: by `timestamp`, of which -1 means the end."""

    group: str
    topic: str
    queue_id: Int | None = None
    offset: Long | None = None
    timestamp: Long
    is_force: bool


class InvokeBrokerToGetConsumerStatusHeader(TopicHeader, kw_only=True):
    """`client_addr` is compared with client ids, in spite of its name."""

    topic: str
    group: str
    client_addr: str | None = None


class QueryTopicConsumeByWhoHeader(TopicHeader, kw_only=True):
    topic: str


class QueryConsumeTimeSpanHeader(TopicHeader, kw_only=True):
    topic: str
    group: str


class GetConsumerRunningInfoHeader(RpcHeader, kw_only=True):
    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


class QueryCorrectionOffsetHeader(TopicHeader, kw_only=True):
    """`filter_groups` holds names separated by commas."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class ConsumeMessageDirectlyHeader(TopicHeader, kw_only=True):
    """`msg_id` is an offset id."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


class CloneGroupOffsetHeader(RpcHeader, kw_only=True):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class ViewBrokerStatsDataHeader(Header, kw_only=True):
    stats_name: str
    stats_key: str


class GetBrokerConsumeStatsHeader(Header, kw_only=True):
    is_order: bool


class QueryConsumeQueueHeader(TopicHeader, kw_only=True):
    topic: str | None = None
    queue_id: Int | None = None
    index: Long | None = None
    count: Int | None = None
    consumer_group: str | None = None


class ResumeCheckHalfMessageHeader(Header, kw_only=True):
    topic: str | None = None
    msg_id: str | None = None


class QueryTopicsByConsumerHeader(RpcHeader, kw_only=True):
    group: str


class QuerySubscriptionByConsumerHeader(TopicHeader, kw_only=True):
    group: str
    topic: str | None = None


class GetTopicConfigHeader(TopicHeader, kw_only=True):
    topic: str


class GetSubscriptiongroupConfigHeader(RpcHeader, kw_only=True):
    group: str


class UpdateAndGetGroupForbiddenHeader(TopicHeader, kw_only=True):
    group: str
    topic: str
    readable: bool | None = None


class CheckRocksdbCqWriteProgressHeader(Header, kw_only=True):
    topic: str
    check_store_time: Long | None = None


class ExportRocksdbConfigToJsonHeader(Header, kw_only=True):
    """`config_type` joins topics, subscriptionGroups and consumerOffsets with semicolons."""

    config_type: str


class SetCommitlogReadModeHeader(Header, kw_only=True):
    read_ahead_mode: Int | None = field(default=None, name="READ_AHEAD_MODE")
