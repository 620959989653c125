"""Headers of POP consumption: pop, peek, ack, invisible time, notification."""

from pyromq.protocol.bounds import Expression, Name, Text
from pyromq.protocol.headers.base import Header, Int, Long, TopicHeader


class PopMessageHeader(TopicHeader, kw_only=True):
    """`queue_id` -1 asks all queues; `init_mode` 0 starts a new group at the oldest message, 1 at the newest."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long = 0
    init_mode: Int
    exp_type: Name | None = None
    exp: Expression | None = None
    order: bool | None = None
    attempt_id: Text | None = None


class PopMessageResponseHeader(Header, kw_only=True):
    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PeekMessageHeader(TopicHeader, kw_only=True):
    topic: Name
    queue_id: Int
    max_msg_nums: Int
    consumer_group: Name


class AckMessageHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int
    extra_info: Text
    offset: Long


class ChangeMessageInvisibletimeHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int
    extra_info: Text
    offset: Long
    invisible_time: Long


class ChangeMessageInvisibletimeResponseHeader(Header, kw_only=True):
    pop_time: Long
    invisible_time: Long
    revive_qid: Int


class NotificationHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int
    poll_time: Long
    born_time: Long = 0
    order: bool | None = None
    attempt_id: Text | None = None


class NotificationResponseHeader(Header, kw_only=True):
    has_msg: bool
    polling_full: bool | None = None


class PollingInfoHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int


class PollingInfoResponseHeader(Header, kw_only=True):
    polling_num: Int
