"""Headers of consuming: pull with its flags, offsets, group membership."""

from typing import Final

from msgspec import field

from pyromq import native
from pyromq.protocol.bounds import ClientId, Expression, Name
from pyromq.protocol.command import RESPONSE_FLAG, Command, Serialization, encode_head
from pyromq.protocol.headers.base import Header, Int, Long, RpcHeader, TopicHeader

# Bits of a pull's `sys_flag`.
COMMIT_OFFSET: Final = 1
"""`commit_offset` is to be stored on the way."""
SUSPEND: Final = 2
"""The broker may hold the request until a message arrives."""
SUBSCRIPTION: Final = 4
"""The request brings its own filter; else that of the last heartbeat counts."""
CLASS_FILTER: Final = 8
LITE: Final = 16

STREAM: Final = 0
"""The `request_type` of a pull that reads much at a time and says how many bytes it can take."""


class PullMessageHeader(TopicHeader, kw_only=True):
    """PULL_MESSAGE and LITE_PULL_MESSAGE."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_millis: Long
    subscription: Expression | None = None
    sub_version: Long
    expression_type: Name | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    # The wire name carries a slip of the pen that has become part of the protocol.
    proxy_forward_client_id: ClientId | None = field(default=None, name="proxyFrowardClientId")
    request_type: Int | None = field(default=None, name="ReqT")
    """STREAM or nothing."""


class PullMessageResponseHeader(Header, kw_only=True):
    """The first four must be there whenever a client continues from `next_begin_offset`: codes 0, 19, 20 and 21."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None
    damaged_offsets: str | None = None
    """Ours: queue offsets, joined by commas, whose records were left out because no client could read past them."""

    def to_json(self) -> str:
        plain = self.offset_delta is self.topic_sys_flag is self.group_sys_flag is self.forbidden_type is None
        if not plain or self.damaged_offsets is not None:
            return super().to_json()
        return (
            f'{{"suggestWhichBrokerId":"{self.suggest_which_broker_id}","nextBeginOffset":"{self.next_begin_offset}",'
            f'"minOffset":"{self.min_offset}","maxOffset":"{self.max_offset}"}}'
        )

    def left_out(self) -> list[int]:
        """The damaged offsets as numbers; what is none is ignored."""
        pieces = (self.damaged_offsets or "").split(",")
        return [int(piece) for piece in pieces if piece.isascii() and piece.isdigit() and len(piece) < 20]


@native.twin
def pull_head(
    binary: bool, code: int, opaque: int, version: int, remark: str, numbers: tuple[int, int, int, int], size: int, /
) -> bytes:
    """The frame of an answer with messages of `size` bytes, up to them.

    The remark is a plain word; the numbers are the first four of a `PullMessageResponseHeader`.
    """
    suggested, following, low, high = numbers
    header = PullMessageResponseHeader(
        suggest_which_broker_id=suggested, next_begin_offset=following, min_offset=low, max_offset=high
    )
    serialization = Serialization.ROCKETMQ if binary else Serialization.JSON
    reply = Command(code, RESPONSE_FLAG, opaque, header, remark=remark, version=version, serialization=serialization)
    return encode_head(reply, size)


class QueryConsumerOffsetHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, kw_only=True):
    offset: Long


class UpdateConsumerOffsetHeader(TopicHeader, kw_only=True):
    consumer_group: Name
    topic: Name
    queue_id: Int
    commit_offset: Long


class SearchOffsetByTimestampHeader(TopicHeader, kw_only=True):
    """`boundary_type` is LOWER or UPPER: which of several messages with that time is meant."""

    topic: Name
    queue_id: Int
    timestamp: Long
    boundary_type: Name | None = None


class SearchOffsetByTimestampResponseHeader(Header, kw_only=True):
    offset: Long


class GetMaxOffsetHeader(TopicHeader, kw_only=True):
    topic: Name
    queue_id: Int
    committed: bool | None = None


class GetMaxOffsetResponseHeader(Header, kw_only=True):
    """One past the last message."""

    offset: Long


class LookAtQueuesHeader(Header, kw_only=True):
    """LOOK_AT_QUEUES, PyroMQ's own: bounds of many queues at once, or to wait until one of them has more.

    With `hold_millis` the answer has no body: SUCCESS when one has, PULL_NOT_FOUND when the time is over.
    """

    hold_millis: Long | None = None


class GetMinOffsetHeader(TopicHeader, kw_only=True):
    topic: Name
    queue_id: Int


class GetMinOffsetResponseHeader(Header, kw_only=True):
    offset: Long


class GetEarliestMsgStoretimeHeader(TopicHeader, kw_only=True):
    topic: Name
    queue_id: Int


class GetEarliestMsgStoretimeResponseHeader(Header, kw_only=True):
    timestamp: Long


class HeartBeatResponseHeader(Header, kw_only=True):
    supports_heart_beat_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientHeader(RpcHeader, kw_only=True):
    client_id: ClientId = field(name="clientID")
    producer_group: Name | None = None
    consumer_group: Name | None = None


class GetConsumerListByGroupHeader(RpcHeader, kw_only=True):
    consumer_group: Name


class LockBatchMqHeader(RpcHeader, kw_only=True):
    """The queues stand in the body. `ends_with_connection` is ours, Apache's servers pass over it: this client begins
    nothing under a lock whose connection was lost, so others may have the queues soon after."""

    ends_with_connection: bool | None = None
