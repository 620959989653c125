"""The requests that every party asks, each with the reader of its answer: offsets, commits, routes, pulls.

Sans I/O: who sends the command, how long it waits and what a refusal becomes is the caller's. A `Request` says which
response codes are answers; any other is a refusal, which each party reports in its own error family with the code and
the remark of the response. Topics and groups are given by their names on the wire.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyromq.protocol.bodies.route import ClusterInfo, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    STREAM,
    SUBSCRIPTION,
    SUSPEND,
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetHeader,
    GetMinOffsetResponseHeader,
    LookAtQueuesHeader,
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetByTimestampHeader,
    SearchOffsetByTimestampResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader

T = TypeVar("T")

NOTHING_PULLED: Final = frozenset(
    {ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED}
)
"""Answers to a pull that carry no message but, as a successful one, its header: where to continue, and the bounds."""
PASSING: Final = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY}
)
"""Refusals of what may be asked twice, after which asking again can help."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A command and how its answer is read. `absent` is the code of "there is none", which is an answer, too.

    >>> request = max_offset("orders", 0)
    >>> response = send_somehow(request.command)
    >>> if request.is_answer(response):
    ...     print(request.read(response))
    """

    command: Command
    read: Callable[[Command], T]
    """The answer as a value. Raises HeaderError or BodyError for what is none."""
    absent: int | None = None

    def is_answer(self, response: Command) -> bool:
        """Whether the response can be read; otherwise it is a refusal, told by its code and remark."""
        return response.code in (ResponseCode.SUCCESS, self.absent)


def max_offset(topic: str, queue_id: int, *, committed: bool | None = None) -> Request[int]:
    """One past the last message; with `committed=False` whether readers see it yet or not."""
    header = GetMaxOffsetHeader(topic=topic, queue_id=queue_id, committed=committed)
    return Request(
        Command.request(RequestCode.GET_MAX_OFFSET, header),
        lambda response: response.header(GetMaxOffsetResponseHeader).offset,
    )


def min_offset(topic: str, queue_id: int) -> Request[int]:
    """The first offset that the queue still has; of empty queues -1 has been seen."""
    header = GetMinOffsetHeader(topic=topic, queue_id=queue_id)
    return Request(
        Command.request(RequestCode.GET_MIN_OFFSET, header),
        lambda response: response.header(GetMinOffsetResponseHeader).offset,
    )


def look_at_queues(body: bytes) -> Request[bytes]:
    """Bounds of many queues, of brokers that are PyroMQ's: an encoded `QueueLook` for an encoded `QueueBounds`."""
    return Request(
        Command.request(RequestCode.LOOK_AT_QUEUES, LookAtQueuesHeader(), body=body),
        lambda response: bytes(response.body),
    )


def wait_for_queues(body: bytes, hold_ms: int) -> Command:
    """Wait until one of many queues has more than the `ends` of a `QueueLook` say; `PULL_NOT_FOUND` when none had."""
    return Command.request(RequestCode.LOOK_AT_QUEUES, LookAtQueuesHeader(hold_millis=hold_ms), body=body)


def search_offset(topic: str, queue_id: int, timestamp_ms: int, *, boundary: str | None = None) -> Request[int]:
    """The offset of the first message stored at or after a time; see the header for the boundary."""
    header = SearchOffsetByTimestampHeader(
        topic=topic, queue_id=queue_id, timestamp=timestamp_ms, boundary_type=boundary
    )
    return Request(
        Command.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header),
        lambda response: response.header(SearchOffsetByTimestampResponseHeader).offset,
    )


def earliest_store_time(topic: str, queue_id: int) -> Request[int]:
    """When the first message that the queue still has was stored, in Unix ms."""
    header = GetEarliestMsgStoretimeHeader(topic=topic, queue_id=queue_id)
    return Request(
        Command.request(RequestCode.GET_EARLIEST_MSG_STORETIME, header),
        lambda response: response.header(GetEarliestMsgStoretimeResponseHeader).timestamp,
    )


def consumer_offset(
    group: str, topic: str, queue_id: int, *, zero_if_absent: bool | None = None, broker: str | None = None
) -> Request[int | None]:
    """What a group has committed for a queue; None when nothing.

    With `zero_if_absent=False` the broker says so; else it answers 0 for a queue that still has its first message.
    """
    header = QueryConsumerOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=zero_if_absent, bname=broker
    )

    def read(response: Command) -> int | None:
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = response.header(QueryConsumerOffsetResponseHeader).offset
        return offset if offset >= 0 else None

    return Request(
        Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header), read, absent=ResponseCode.QUERY_NOT_FOUND
    )


def commit_offset(group: str, topic: str, queue_id: int, offset: int, *, broker: str | None = None) -> Request[None]:
    """Store the offset that a group continues from."""
    header = UpdateConsumerOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset, bname=broker
    )
    return Request(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header), lambda _response: None)


def pull_messages(
    group: str,
    topic: str,
    queue_id: int,
    offset: int,
    count: int,
    *,
    hold_ms: int = 0,
    max_bytes: int | None = None,
    stream: bool = False,
    subscription: str = "*",
    expression_type: str = "TAG",
) -> Command:
    """A pull of what a subscription lets through, from an offset on; the broker may hold it for `hold_ms` while there
    is nothing.

    Its answers are SUCCESS and `NOTHING_PULLED`; both have a `PullMessageResponseHeader`. A stream gets up to
    `max_bytes`, which others cannot raise above the broker's own bound.
    """
    header = PullMessageHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        max_msg_bytes=max_bytes,
        request_type=STREAM if stream else None,
        sys_flag=SUBSCRIPTION | (SUSPEND if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription=subscription,
        sub_version=0,
        expression_type=expression_type,
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)


def topic_route(topic: str) -> Request[TopicRouteData | None]:
    """Where a topic lives; None when the name server does not know it."""
    header = GetRouteInfoByTopicHeader(topic=topic, accept_standard_json_only=True)

    def read(response: Command) -> TopicRouteData | None:
        return None if response.code == ResponseCode.TOPIC_NOT_EXIST else TopicRouteData.decode(response.body)

    return Request(
        Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), read, absent=ResponseCode.TOPIC_NOT_EXIST
    )


def cluster_info() -> Request[ClusterInfo]:
    """All brokers and the clusters that they belong to."""
    return Request(
        Command.request(RequestCode.GET_BROKER_CLUSTER_INFO), lambda response: ClusterInfo.decode(response.body)
    )
