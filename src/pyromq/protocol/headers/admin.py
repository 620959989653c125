"""Headers of broker administration. Offsets and membership that consumers also ask for are in `consume`."""

from msgspec import field

from pyromq.protocol.bounds import ClientId, Name, Names, Text
from pyromq.protocol.headers.base import Header, Int, Long, RpcHeader, TopicHeader


class UpdateAndCreateTopicHeader(TopicHeader, kw_only=True):
    """Also UPDATE_AND_CREATE_STATIC_TOPIC."""

    topic: Name
    default_topic: Name
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: Name
    topic_sys_flag: Int | None = None
    order: bool
    attributes: Text | None = None
    force: bool | None = None


class GetAllTopicConfigHeader(Header, kw_only=True):
    """Paging, sent by releases after 5.3.3; older ones send nothing and want everything."""

    topic_seq: Int | None = None
    data_version: Text | None = None
    max_topic_num: Int | None = None


class GetAllTopicConfigResponseHeader(Header, kw_only=True):
    total_topic_num: Int | None = None


class GetBrokerConfigResponseHeader(Header, kw_only=True):
    """`version` is a data version as JSON text."""

    version: str


class GetAllSubscriptiongroupConfigHeader(Header, kw_only=True):
    """Paging, as for topics."""

    group_seq: Int | None = None
    data_version: Text | None = None
    max_group_num: Int | None = None


class GetAllSubscriptiongroupConfigResponseHeader(Header, kw_only=True):
    total_group_num: Int | None = None


class GetTopicStatsInfoHeader(TopicHeader, kw_only=True):
    topic: Name


class GetConsumerConnectionListHeader(RpcHeader, kw_only=True):
    consumer_group: Name


class GetProducerConnectionListHeader(RpcHeader, kw_only=True):
    producer_group: Name


class DeleteSubscriptiongroupHeader(RpcHeader, kw_only=True):
    group_name: Name
    clean_offset: bool | None = None


class GetConsumeStatsHeader(TopicHeader, kw_only=True):
    """`topic_list` holds names separated by semicolons."""

    consumer_group: Name
    topic: Name | None = None
    topic_list: Names | None = None


class DeleteTopicInBrokerHeader(TopicHeader, kw_only=True):
    topic: Name


class InvokeBrokerToResetOffsetHeader(TopicHeader, kw_only=True):
    """`queue_id` -1 or none: all queues; `offset` -1 or none: by `timestamp`, of which -1 means the end."""

    group: Name
    topic: Name
    queue_id: Int | None = None
    offset: Long | None = None
    timestamp: Long
    is_force: bool


class InvokeBrokerToGetConsumerStatusHeader(TopicHeader, kw_only=True):
    """`client_addr` is compared with client ids, in spite of its name."""

    topic: Name
    group: Name
    client_addr: ClientId | None = None


class QueryTopicConsumeByWhoHeader(TopicHeader, kw_only=True):
    topic: Name


class QueryConsumeTimeSpanHeader(TopicHeader, kw_only=True):
    topic: Name
    group: Name


class GetConsumerRunningInfoHeader(RpcHeader, kw_only=True):
    consumer_group: Name
    client_id: ClientId
    jstack_enable: bool | None = None


class QueryCorrectionOffsetHeader(TopicHeader, kw_only=True):
    """`filter_groups` holds names separated by commas."""

    filter_groups: Names | None = None
    compare_group: Name
    topic: Name


class ConsumeMessageDirectlyHeader(TopicHeader, kw_only=True):
    """`msg_id` is an offset id."""

    consumer_group: Name
    client_id: ClientId | None = None
    msg_id: Text | None = None
    broker_name: Name | None = None
    topic: Name | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


class CloneGroupOffsetHeader(RpcHeader, kw_only=True):
    src_group: Name
    dest_group: Name
    topic: Name | None = None
    offline: bool | None = None


class ViewBrokerStatsDataHeader(Header, kw_only=True):
    stats_name: Text
    stats_key: Text


class GetBrokerConsumeStatsHeader(Header, kw_only=True):
    is_order: bool


class QueryConsumeQueueHeader(TopicHeader, kw_only=True):
    topic: Name | None = None
    queue_id: Int | None = None
    index: Long | None = None
    count: Int | None = None
    consumer_group: Name | None = None


class ResumeCheckHalfMessageHeader(Header, kw_only=True):
    topic: Name | None = None
    msg_id: Text | None = None


class QueryTopicsByConsumerHeader(RpcHeader, kw_only=True):
    group: Name


class QuerySubscriptionByConsumerHeader(TopicHeader, kw_only=True):
    group: Name
    topic: Name | None = None


class GetTopicConfigHeader(TopicHeader, kw_only=True):
    topic: Name


class GetSubscriptiongroupConfigHeader(RpcHeader, kw_only=True):
    group: Name


class UpdateAndGetGroupForbiddenHeader(TopicHeader, kw_only=True):
    group: Name
    topic: Name
    readable: bool | None = None


class SetCommitlogReadModeHeader(Header, kw_only=True):
    read_ahead_mode: Int | None = field(default=None, name="READ_AHEAD_MODE")
