"""What Spark's filters say about which messages can pass: fewer queues, shorter ranges, tags for the broker. Pure.

Filters only narrow what is read. Spark applies all of them again to the rows, so one that is not understood here, or
only about, costs time and not truth.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pyromq.spark.source.offsets import Range

MAX_OFFSET: Final = 2**63 - 1

Values = frozenset[Any]


@dataclass(frozen=True)
class Narrowing:
    """What a message must have; None lets all pass. Offsets and times (Unix ms) are in [low, high)."""

    topics: Values | None = None
    brokers: Values | None = None
    queues: Values | None = None
    tags: Values | None = None
    low: int = 0
    high: int = MAX_OFFSET
    since: int | None = None
    until: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> "Narrowing":
        """By filters that all have to hold."""
        found = cls()
        for each in filters:
            found = found.under(each)
        return found

    def under(self, condition: Filter) -> "Narrowing":
        """With one filter more, as far as it is understood."""
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        name = ".".join(attribute).lower()
        if name in _SETS and isinstance(condition, EqualTo | EqualNullSafe | In):
            values: Values = frozenset(condition.value if isinstance(condition, In) else (condition.value,))
            before: Values | None = getattr(self, _SETS[name])
            narrowed: dict[str, Any] = {_SETS[name]: values if before is None else before & values}
            return replace(self, **narrowed)
        if name == "queueoffset":
            low, high = _bounds(condition, _whole)
            return replace(self, low=max(self.low, low or 0), high=min(self.high, MAX_OFFSET if high is None else high))
        if name == "storetimestamp":
            since, until = _bounds(condition, _millis)
            return replace(
                self,
                since=max((each for each in (self.since, since) if each is not None), default=None),
                until=min((each for each in (self.until, until) if each is not None), default=None),
            )
        return self

    def lets(self, wanted: Range) -> bool:
        """Whether messages of a queue can pass."""
        pairs = ((self.topics, wanted.topic), (self.brokers, wanted.broker), (self.queues, wanted.queue))
        return all(values is None or value in values for values, value in pairs)

    def clipped(self, wanted: Range) -> Range:
        """The part of a range whose offsets can pass."""
        return wanted._replace(start=max(wanted.start, self.low), end=min(wanted.end, self.high))

    def tag_expression(self, tags: frozenset[str] | None) -> str | None:
        """What a broker is to filter by beside the tags that are wanted anyway; None when it cannot be told."""
        if self.tags is None or None in self.tags:
            return None
        both = self.tags if tags is None else self.tags & tags
        plain = all(tag and tag == tag.strip() and "|" not in tag and tag != "*" for tag in both)
        return " || ".join(sorted(both)) if plain else None


_SETS: Final = {"topic": "topics", "brokername": "brokers", "queueid": "queues", "tags": "tags"}


def _bounds(condition: Filter, number: Callable[[Any], float | None]) -> tuple[int | None, int | None]:
    """What whole numbers must be to pass: at least, and less than."""
    value = number(getattr(condition, "value", None))
    if value is None:
        return None, None
    match condition:
        case EqualTo() | EqualNullSafe():
            return math.floor(value), math.floor(value) + 1
        case GreaterThan() | GreaterThanOrEqual():
            return math.floor(value), None
        case LessThan() | LessThanOrEqual():
            return None, math.floor(value) + 1
    return None, None


def _whole(value: Any) -> float | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _millis(value: Any) -> float | None:
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000
