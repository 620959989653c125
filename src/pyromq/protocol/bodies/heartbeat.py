"""What a client tells a broker about itself: its groups and subscriptions."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, ExpressionType, MessageModel


class SubscriptionData(Body):
    """One topic a group subscribes to. For tags, `code_set` holds the hashes of `tags_set`; both are empty for `*`."""

    class_filter_mode: bool = False
    code_set: list[Int] = field(default_factory=list)
    expression_type: ExpressionType = ExpressionType.TAG
    sub_string: str = ""
    sub_version: Long = 0
    tags_set: list[str] = field(default_factory=list)
    topic: str = ""


class ProducerData(Body):
    group_name: str = ""


class ConsumerData(Body):
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    group_name: str = ""
    message_model: MessageModel = MessageModel.CLUSTERING
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class HeartbeatData(Body):
    """A heartbeat. A fingerprint other than 0 makes it one of the second kind, which may come without subscriptions."""

    client_id: str = field(default="", name="clientID")
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int = 0
    producer_data_set: list[ProducerData] = field(default_factory=list)
    without_sub: bool = False


class CheckClientBody(Body):
    """A consumer asks whether the broker can serve its subscription."""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData = field(default_factory=SubscriptionData)
