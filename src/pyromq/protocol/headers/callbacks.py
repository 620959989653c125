"""Headers of requests that a broker sends to its clients.

GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY are passed on with the header of the admin request, in `admin`.
"""

from pyromq.protocol.bounds import ClientId, Name, PropertyText, Text
from pyromq.protocol.headers.base import Int, Long, RpcHeader, TopicHeader


class CheckTransactionStateHeader(RpcHeader, kw_only=True):
    """`bname` is the broker; `topic` is where the half message lies, not where it is to go."""

    topic: Name | None = None
    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: Text | None = None
    transaction_id: Text | None = None
    offset_msg_id: Text | None = None


class NotifyConsumerIdsChangedHeader(RpcHeader, kw_only=True):
    consumer_group: Name


class ResetConsumerClientOffsetHeader(TopicHeader, kw_only=True):
    group: Name
    topic: Name
    queue_id: Int | None = None
    offset: Long | None = None
    timestamp: Long
    is_force: bool


class GetConsumerStatusFromClientHeader(TopicHeader, kw_only=True):
    topic: Name
    group: Name
    client_addr: ClientId | None = None


class PushReplyMessageToClientHeader(TopicHeader, kw_only=True):
    """Hosts are written `ip:port`."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: PropertyText | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    born_host: Text
    store_host: Text
    store_timestamp: Long
