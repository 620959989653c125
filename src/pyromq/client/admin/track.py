"""What each consumer group did with one message, judged by what brokers know. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from pyromq.protocol.bodies.clients import ConsumerConnection, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeType, ExpressionType, MessageModel
from pyromq.protocol.bodies.stats import OffsetWrapper
from pyromq.protocol.message import ReceivedMessage


class TrackType(StrEnum):
    """How far a group is with a message."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """One group and one message; `reason` says why nothing better than UNKNOWN is known."""

    group: str
    track_type: TrackType
    reason: str | None = None


def judge(message: ReceivedMessage, connection: ConsumerConnection, seen: OffsetWrapper | None) -> TrackType:
    """The state of a message in a group that is online; `seen` is the group's progress in the queue of the message.

    A pull consumer keeps its own counsel, a broadcasting one keeps its offsets to itself; of a push consumer the
    stored offset tells whether it is past the message.
    """
    if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return TrackType.PULL
    if connection.message_model is MessageModel.BROADCASTING:
        return TrackType.CONSUME_BROADCASTING
    if connection.consume_type is not ConsumeType.CONSUME_PASSIVELY:
        return TrackType.UNKNOWN
    if seen is None:
        return TrackType.UNKNOWN
    if seen.consumer_offset <= message.queue_offset:
        return TrackType.NOT_CONSUME_YET
    subscription = connection.subscription_table.get(message.topic)
    wanted = subscription is None or _wants(subscription, message.tags)
    return TrackType.CONSUMED if wanted else TrackType.CONSUMED_BUT_FILTERED


def _wants(subscription: SubscriptionData, tags: str | None) -> bool:
    """By tag; what an SQL condition lets pass cannot be told here."""
    if subscription.expression_type is not ExpressionType.TAG or not subscription.tags_set:
        return True
    return tags in subscription.tags_set
