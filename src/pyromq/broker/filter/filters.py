"""What a subscription lets through: by tag hash on queue entries, by expression on the properties of records.

A filter is built once per subscription and then only called. Tag hashes may collide, so clients compare the text again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.filter.filterdata import FilterTable
from pyromq.broker.filter.sql import Predicate, SqlSyntaxError, compile_sql
from pyromq.protocol import names
from pyromq.protocol.bodies.clients import ALL_TAGS, SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.record import peek_record
from pyromq.store.queue.scan import TagCodes

_TAG = ExpressionType.TAG.value


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


def wanted_arrivals(filter_: Filter) -> Callable[[int, Mapping[str, str]], bool] | None:
    """Which arrivals are worth waking a waiting consumer for; None: all are."""
    return None if isinstance(filter_, PassAll) else filter_.arrival


class TagFilter:
    """Lets entries pass whose tag code is one of the subscription's hashes."""

    record = None

    def __init__(self, codes: frozenset[int]) -> None:
        self.entry = TagCodes(codes)

    def arrival(self, tags_code: int, _properties: Mapping[str, str], /) -> bool:
        return self.entry(tags_code)


class PropertyFilter:
    """Lets records pass whose properties match; what cannot be read does not."""

    entry = None

    def __init__(self, matches: Predicate) -> None:
        self._matches = matches

    def record(self, record: memoryview) -> bool:
        """Decides on a record of the log."""
        try:
            return self._matches(decode_properties(peek_record(record, 0).properties))
        except MessageError:
            return False

    def arrival(self, _tags_code: int, properties: Mapping[str, str], /) -> bool:
        return self._matches(properties)


PASS_ALL = PassAll()


class Filters:
    """Builds filters and keeps them while their subscription lasts."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], *, inline_cache: int = 4096) -> None:
        self._config = config
        self._tags: dict[str, dict[str, tuple[SubscriptionData, Filter]]] = {}
        self._inline: dict[tuple[str, str, str], Filter] = {}
        self._inline_cache = inline_cache
        self.registered = FilterTable(
            config.config_dir / "consumerFilter.json", clock, config.filter_data_clean_time_span
        )

    def subscribe(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """A heartbeat says what a group wants now; those filters are what its pulls get."""
        self.registered.register(group, subscriptions)

    def of_group(self, group: str, subscription: SubscriptionData, version: int = 0) -> Filter:
        """The filter of a subscription that a heartbeat brought, of this version at least. Raises Refused."""
        if subscription.expression_type is not ExpressionType.TAG:
            return self._registered_filter(group, subscription, version)
        of_group = self._tags.setdefault(group, {})
        known = of_group.get(subscription.topic)
        if known is not None and known[0] is subscription:
            return known[1]
        built = tag_filter(subscription)
        if self._config.filter_support_retry and names.is_retry_topic(subscription.topic):
            built = PropertyFilter(self._match_like_origin(group))
        of_group[subscription.topic] = (subscription, built)
        return built

    def inline(self, topic: str, expression: str | None, expression_type: str | None) -> Filter:
        """The filter of a subscription that a pull brings along. Raises Refused."""
        if expression_type == _TAG and (quick := self._inline.get((topic, expression or "", _TAG))) is not None:
            return quick
        kind = ExpressionType(expression_type or "")
        key = (topic, expression or "", kind.value)
        known = self._inline.get(key)
        if kind is not ExpressionType.TAG:
            self._check_served(kind)
        if known is None:
            known = self._build(topic, expression, kind)
            if len(self._inline) >= self._inline_cache:
                self._inline.pop(next(iter(self._inline)))
            self._inline[key] = known
        return known

    def check(self, subscription: SubscriptionData) -> None:
        """Raise Refused for a subscription that cannot be served."""
        self._build(subscription.topic, subscription.sub_string, subscription.expression_type)

    def forget_group(self, group: str) -> None:
        """Drop the filters of a group that has no members any more; those by expression stay for a day."""
        self._tags.pop(group, None)
        self.registered.unregister(group)

    def _build(self, topic: str, expression: str | None, kind: ExpressionType) -> Filter:
        if kind is ExpressionType.TAG:
            return tag_filter(SubscriptionData.of_tags(topic, expression))
        self._check_served(kind)
        try:
            return PropertyFilter(compile_sql(expression or ""))
        except SqlSyntaxError as error:
            raise Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
            ) from error

    def _check_served(self, kind: ExpressionType) -> None:
        if kind is not ExpressionType.SQL92:
            raise Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {kind} is no kind of filter known here, use TAG or SQL92",
            )
        if not self._config.enable_property_filter:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}: set enablePropertyFilter=true",
            )

    def _registered_filter(self, group: str, subscription: SubscriptionData, version: int) -> Filter:
        known = self.registered.get(group, subscription.topic)
        if known is None:
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist! The heartbeat of {group} brought no filter for "
                f"{subscription.topic} that compiles, or none yet",
            )
        if known.data.client_version < version:
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"The broker's consumer filter data is not latest: {group} pulls {subscription.topic} with version "
                f"{version}, its filter has {known.data.client_version}",
            )
        self._check_served(subscription.expression_type)
        return PropertyFilter(known.matches)

    def _match_like_origin(self, group: str) -> Predicate:
        """Retries pass the filter of the topic they come from, if there is one."""

        def matches(properties: Mapping[str, str]) -> bool:
            known = self.registered.get(group, properties.get(Property.RETRY_TOPIC, ""))
            return known is None or known.matches(properties)

        return matches


def tag_filter(subscription: SubscriptionData) -> Filter:
    """The filter of a tag subscription."""
    if subscription.sub_string == ALL_TAGS or subscription.class_filter_mode or not subscription.code_set:
        return PASS_ALL
    return TagFilter(frozenset(subscription.code_set))
