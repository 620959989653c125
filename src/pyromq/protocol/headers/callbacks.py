"""Headers of requests that a broker sends to its clients.

GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY are passed on with the header of the admin request, in `admin`.
"""

from pyromq.protocol.headers.base import Int, Long, RpcHeader, TopicHeader


class CheckTransactionStateHeader(RpcHeader, kw_only=True):
    """`bname` is the broker; `topic` is where the half message lies, not where it is to go."""

    topic: str | None = None
    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class NotifyConsumerIdsChangedHeader(RpcHeader, kw_only=True):
    consumer_group: str


class ResetConsumerClientOffsetHeader(TopicHeader, kw_only=True):
    group: str
    topic: str
    queue_id: Int | None = None
    offset: Long | None = None
    timestamp: Long
    is_force: bool


class GetConsumerStatusFromClientHeader(TopicHeader, kw_only=True):
    topic: str
    group: str
    client_addr: str | None = None


class PushReplyMessageToClientHeader(TopicHeader, kw_only=True):
    """Hosts are written `ip:port`."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Long
