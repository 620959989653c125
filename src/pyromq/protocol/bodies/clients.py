"""Clients: what they tell brokers about themselves, and what brokers tell of who is connected."""

from typing import Annotated, ClassVar, Final, Self

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeResult, ConsumeType, ExpressionType, MessageModel
from pyromq.protocol.bounds import Bound, ClientName, ResourceName, declared
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.records.tags import java_hash

ALL_TAGS: Final = "*"
TAG_SEPARATOR: Final = "||"


class SubscriptionData(Body):
    """One topic a group subscribes to. For tags, `code_set` holds the hashes of `tags_set`; both are empty for `*`."""

    class_filter_mode: bool = False
    code_set: Annotated[list[Int], declared(bounds.TAGS)] = field(default_factory=list)
    expression_type: ExpressionType = ExpressionType.TAG
    sub_string: Annotated[str, declared(bounds.EXPRESSION)] = ""
    sub_version: Long = 0
    tags_set: Annotated[list[str], declared(bounds.TAGS)] = field(default_factory=list)
    topic: ResourceName = ""

    @classmethod
    def of_tags(cls, topic: str, expression: str | None, version: int = 0) -> Self:
        """What a tag expression stands for: `*` or empty for everything, `a || b` for either."""
        text = (expression or "").strip()
        if not text or text == ALL_TAGS:
            return cls(topic=topic, sub_string=ALL_TAGS, sub_version=version)
        tags = list(dict.fromkeys(tag for part in text.split(TAG_SEPARATOR) if (tag := part.strip())))
        return cls(
            topic=topic,
            sub_string=text,
            sub_version=version,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
        )


class ProducerData(Body):
    group_name: ResourceName = ""


class ConsumerData(Body):
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    group_name: ResourceName = ""
    message_model: MessageModel = MessageModel.CLUSTERING
    subscription_data_set: Annotated[list[SubscriptionData], declared(bounds.SUBSCRIPTIONS)] = field(
        default_factory=list
    )
    unit_mode: bool = False


class HeartbeatData(Body):
    """A heartbeat. A fingerprint other than 0 makes it one of the second kind, which may come without subscriptions."""

    size: ClassVar[Bound] = bounds.HEARTBEAT

    client_id: ClientName = field(default="", name="clientID")
    consumer_data_set: Annotated[list[ConsumerData], declared(bounds.GROUPS)] = field(default_factory=list)
    heartbeat_fingerprint: Int = 0
    producer_data_set: Annotated[list[ProducerData], declared(bounds.GROUPS)] = field(default_factory=list)
    without_sub: bool = False


class CheckClientBody(Body):
    """A consumer asks whether the broker can serve its subscription."""

    client_id: ClientName = ""
    group: ResourceName = ""
    namespace: str | None = None
    subscription_data: SubscriptionData = field(default_factory=SubscriptionData)


class ConsumerList(Body):
    """Client ids of the members of a group."""

    consumer_id_list: list[str] = field(default_factory=list)


class ConnectionInfo(Body):
    """One connected client; `language` is the name of its language code."""

    client_addr: str = ""
    client_id: str = ""
    language: str = ""
    version: Int = 0


class ConsumerConnection(Body):
    connection_set: list[ConnectionInfo] = field(default_factory=list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerConnection(Body):
    connection_set: list[ConnectionInfo] = field(default_factory=list)


class ProducerInfo(Body):
    client_id: str = ""
    language: str = ""
    last_update_timestamp: Long = 0
    remote_ip: str = field(default="", name="remoteIP")
    version: Int = 0


class ProducerTable(Body):
    """All producers of a broker, by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


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
