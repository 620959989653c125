"""What a subscription lets through: by tag hash on queue entries, by expression on the properties of records.

A filter is built once per subscription and then only called. Tag hashes may collide, so clients compare the text again.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.protocol.bodies import ExpressionType, SubscriptionData
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.tags import java_hash

SUB_ALL = "*"
TAG_SEPARATOR = "||"
_LOW_32 = 0xFFFFFFFF


class Filter(Protocol):
    """`entry` decides by the tag code of a queue entry, `record` by the stored record; None lets everything pass."""

    @property
    def entry(self) -> Callable[[int], bool] | None: ...

    @property
    def record(self) -> Callable[[memoryview], bool] | None: ...

    def arrival(self, tags_code: int, properties: Mapping[str, str], /) -> bool:
        """Whether a message that just arrived is worth waking a waiting consumer for."""


class PassAll:
    """No filter at all."""

    entry = None
    record = None

    def arrival(self, _tags_code: int, _properties: Mapping[str, str], /) -> bool:
        return True


class TagFilter:
    """Lets entries pass whose tag code is one of the subscription's hashes."""

    record = None

    def __init__(self, codes: frozenset[int]) -> None:
        self._codes = codes

    def entry(self, tags_code: int) -> bool:
        """Only the low half counts: the upper one is the sign."""
        low = tags_code & _LOW_32
        return (low - (1 << 32) if low >= 1 << 31 else low) in self._codes

    def arrival(self, tags_code: int, _properties: Mapping[str, str], /) -> bool:
        return self.entry(tags_code)


PASS_ALL = PassAll()


class Filters:
    """Builds filters and keeps them while their subscription lasts."""

    def __init__(self, config: BrokerConfig, *, inline_cache: int = 4096) -> None:
        self._config = config
        self._of_group: dict[tuple[str, str], tuple[SubscriptionData, Filter]] = {}
        self._inline: dict[tuple[str, str, str], Filter] = {}
        self._inline_cache = inline_cache

    def of_group(self, group: str, subscription: SubscriptionData) -> Filter:
        """The filter of a subscription that a heartbeat brought. Raises Refused when it cannot be had."""
        key = (group, subscription.topic)
        known = self._of_group.get(key)
        if known is not None and known[0] is subscription:
            return known[1]
        built = self._build(subscription)
        self._of_group[key] = (subscription, built)
        return built

    def inline(self, topic: str, expression: str | None, expression_type: str | None) -> Filter:
        """The filter of a subscription that a pull brings along. Raises Refused."""
        key = (topic, expression or "", expression_type or "")
        known = self._inline.get(key)
        if known is None:
            subscription = parse_tags(topic, expression)
            subscription.expression_type = ExpressionType(expression_type or "")
            known = self._build(subscription)
            if len(self._inline) >= self._inline_cache:
                self._inline.pop(next(iter(self._inline)))
            self._inline[key] = known
        return known

    def check(self, subscription: SubscriptionData) -> None:
        """Raise Refused for a subscription that cannot be served."""
        self._build(subscription)

    def forget_group(self, group: str) -> None:
        """Drop the filters of a group that has no members any more."""
        for key in [key for key in self._of_group if key[0] == group]:
            del self._of_group[key]

    def _build(self, subscription: SubscriptionData) -> Filter:
        if subscription.expression_type is not ExpressionType.TAG:
            raise Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {subscription.expression_type} is not served",
            )
        return tag_filter(subscription)


def parse_tags(topic: str, expression: str | None, version: int = 0) -> SubscriptionData:
    """The subscription that a tag expression stands for: `*` or empty for everything, `a || b` for either."""
    text = (expression or "").strip()
    if not text or text == SUB_ALL:
        return SubscriptionData(topic=topic, sub_string=SUB_ALL, sub_version=version)
    tags = [tag for part in text.split(TAG_SEPARATOR) if (tag := part.strip())]
    return SubscriptionData(
        topic=topic,
        sub_string=text,
        sub_version=version,
        tags_set=tags,
        code_set=[java_hash(tag) for tag in tags],
    )


def is_tag_subscription(subscription: SubscriptionData) -> bool:
    """Whether tags alone decide."""
    return subscription.expression_type is ExpressionType.TAG


def tag_filter(subscription: SubscriptionData) -> Filter:
    """The filter of a tag subscription."""
    if subscription.sub_string == SUB_ALL or subscription.class_filter_mode or not subscription.code_set:
        return PASS_ALL
    return TagFilter(frozenset(subscription.code_set))
