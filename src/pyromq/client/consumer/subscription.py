"""Subscriptions: expressions as users write them, as brokers get them, and the exact tag check of the client."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.clients import ALL_TAGS, SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.headers.filtersrv import class_crc
from pyromq.protocol.message import MessageQueue, ReceivedMessage

MAX_SOURCE: Final = 256 * 1024


@dataclass(frozen=True)
class FilterClass:
    """Raises ClientError for a name or a text that no filter server would take."""

    name: str
    source: str
    body: bytes = field(init=False, repr=False)
    crc: int = field(init=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise ClientError(f"filter class {self.name!r} is no name of a class")
        try:
            body = self.source.encode()
        except UnicodeEncodeError as error:
            raise ClientError(f"the source of filter class {self.name} is not valid Unicode: {error}") from error
        if not 0 < len(body) <= MAX_SOURCE:
            raise ClientError(f"the source of filter class {self.name} has {len(body)} bytes, not 1 to {MAX_SOURCE}")
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "crc", class_crc(body))


def tag_subscription(topic: str, expression: str | None, version: int) -> SubscriptionData:
    """`*`, nothing, or tags joined by `||`. Raises ClientError when no tag is left.

    >>> tag_subscription("orders", "paid || shipped", 1).tags_set
    ['paid', 'shipped']
    """
    subscription = SubscriptionData.of_tags(topic, expression, version)
    if subscription.sub_string != ALL_TAGS and not subscription.tags_set:
        raise ClientError(f"subscription {expression!r} of topic {topic!r} names no tag; write it as 'a || b'")
    return subscription


def sql_subscription(topic: str, expression: str, version: int) -> SubscriptionData:
    """An SQL92 condition over message properties. Raises ClientError for an empty one."""
    if not expression.strip():
        raise ClientError(f"the SQL subscription of topic {topic!r} is empty")
    return SubscriptionData(
        topic=topic, sub_string=expression, expression_type=ExpressionType.SQL92, sub_version=version
    )


def class_subscription(topic: str, filter_class: FilterClass, version: int) -> SubscriptionData:
    """What a filter class lets through, which filter servers hold; the broker only knows its name."""
    return SubscriptionData(topic=topic, sub_string=filter_class.name, class_filter_mode=True, sub_version=version)


def build_subscription(topic: str, tags: str | None, sql: str | None, version: int) -> SubscriptionData:
    """By tags or by SQL, not both. Raises ClientError."""
    _check_text("tags", tags, topic, "; several are written 'a || b'")
    _check_text("sql", sql, topic)
    if sql is None:
        return tag_subscription(topic, tags, version)
    if tags not in (None, ALL_TAGS):
        raise ClientError(f"topic {topic!r} is subscribed by tags or by sql, not by both")
    return sql_subscription(topic, sql, version)


def _check_text(what: str, value: object, topic: str, hint: str = "") -> None:
    if value is not None and not isinstance(value, str):
        raise ClientError(f"{what} of topic {topic!r} must be text, not {type(value).__name__}: {value!r:.80}{hint}")


def is_tag_filter(subscription: SubscriptionData) -> bool:
    return subscription.expression_type == ExpressionType.TAG


def keep_wanted(subscription: SubscriptionData, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """Messages whose tag is really one of those wanted: the broker compares only hashes."""
    wanted = subscription.tags_set
    if not wanted or subscription.class_filter_mode:
        return list(messages)
    return [message for message in messages if message.tags in wanted or (message.damaged and not _tag_holds(message))]


def _tag_holds(message: ReceivedMessage) -> bool:
    """Whether what a damaged message says of its tag can be believed; if not, the broker's hash of it counts."""
    return message.tags is not None and "\ufffd" not in message.tags


class Subscriptions:
    """Subscriptions of one consumer by topic (names on the wire), and the readable queues of each."""

    def __init__(self) -> None:
        self.by_topic: dict[str, SubscriptionData] = {}
        self.queues: dict[str, list[MessageQueue]] = {}
        self.filter_classes: dict[str, FilterClass] = {}
        self._told: dict[str, int] = {}

    def add(self, subscription: SubscriptionData, filter_class: FilterClass | None = None) -> None:
        self.by_topic[subscription.topic] = subscription
        if filter_class is None:
            self.filter_classes.pop(subscription.topic, None)
        else:
            self.filter_classes[subscription.topic] = filter_class

    def remove(self, topic: str) -> None:
        self.by_topic.pop(topic, None)
        self.queues.pop(topic, None)
        self.filter_classes.pop(topic, None)
        self._told.pop(topic, None)

    def needs_route(self, topic: str) -> bool:
        return topic in self.by_topic and topic not in self.queues

    def touch(self, topic: str, version: int) -> None:
        """A new version, so that brokers take it for the latest."""
        if topic in self.by_topic:
            self.by_topic[topic].sub_version = version

    def tell(self) -> list[SubscriptionData]:
        """What a heartbeat says; from now on pulls may rely on the broker knowing it."""
        self._told = {topic: subscription.sub_version for topic, subscription in self.by_topic.items()}
        return list(self.by_topic.values())

    def told_version(self, topic: str) -> int:
        """The version of the last heartbeat: a broker refuses pulls that claim a newer one than it knows."""
        return self._told.get(topic, 0)
