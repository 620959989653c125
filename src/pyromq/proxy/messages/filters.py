"""Filters of consumers: what a broker is told, and what is looked at once more here, since brokers compare hashes."""

from typing import Any, NamedTuple

from pyromq.protocol.bodies.clients import ALL_TAGS, SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.message import ReceivedMessage
from pyromq.proxy.schema.enums import Code, FilterType
from pyromq.proxy.status import Refusal


class Filter(NamedTuple):
    """`tags` are those wanted; empty when all are, or SQL decides."""

    kind: str
    expression: str
    tags: frozenset[str] = frozenset()

    def wants(self, message: ReceivedMessage) -> bool:
        """Whether the tag is really one of those wanted."""
        return not self.tags or message.tags in self.tags


def filter_of(expression: Any) -> Filter:
    """The filter that a `FilterExpression` stands for. Raises Refusal."""
    text = expression.expression.strip()
    if expression.type == FilterType.SQL:
        if not text:
            raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, "the SQL filter is empty; give a condition, or a filter TAG")
        return Filter(ExpressionType.SQL92.value, text)
    if expression.type not in (FilterType.TAG, FilterType.FILTER_TYPE_UNSPECIFIED):
        raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, f"there is no filter of type {expression.type}, only TAG and SQL")
    subscription = SubscriptionData.of_tags("", text)
    if subscription.sub_string != ALL_TAGS and not subscription.tags_set:
        raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, f"{text[:80]!r} names no tag; write 'a || b'")
    return Filter(ExpressionType.TAG.value, subscription.sub_string, frozenset(subscription.tags_set))
