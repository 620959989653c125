"""What a client tells a broker about itself: its groups and subscriptions."""

from typing import Annotated, ClassVar

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, ExpressionType, MessageModel
from pyromq.protocol.bounds import Bound, ClientName, ResourceName, declared


class SubscriptionData(Body):
    """One topic a group subscribes to. For tags, `code_set` holds the hashes of `tags_set`; both are empty for `*`."""

    class_filter_mode: bool = False
    code_set: Annotated[list[Int], declared(bounds.TAGS)] = field(default_factory=list)
    expression_type: ExpressionType = ExpressionType.TAG
    sub_string: Annotated[str, declared(bounds.EXPRESSION)] = ""
    sub_version: Long = 0
    tags_set: Annotated[list[str], declared(bounds.TAGS)] = field(default_factory=list)
    topic: ResourceName = ""


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
