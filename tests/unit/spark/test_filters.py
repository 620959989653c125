"""What filters of Spark come to: never less than what they let pass."""

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pyromq.spark.source.filters import Narrowing
from pyromq.spark.source.offsets import Range

COMPARED: dict[type[Any], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_sets_meet() -> None:
    found = Narrowing.of([IsNotNull(("queueId",)), In(("queueId",), (1, 2, 3)), In(("QUEUEID",), (2, 3, 9))])
    assert found == Narrowing(queues=frozenset({2, 3}))
    assert found.lets(Range("T", "b", 2, 0, 9))
    assert not found.lets(Range("T", "b", 1, 0, 9))
    assert not Narrowing.of([EqualTo(("topic",), "U")]).lets(Range("T", "b", 2, 0, 9))
    assert not Narrowing.of([EqualTo(("brokerName",), "a")]).lets(Range("T", "b", 2, 0, 9))


def test_what_is_not_understood_narrows_nothing() -> None:
    filters: list[Filter] = [
        Not(EqualTo(("queueId",), 1)),
        StringStartsWith(("topic",), "T"),
        EqualTo(("keys",), "k"),
        EqualTo(("properties", "tags"), "k"),
        GreaterThan(("queueId",), 1),
        GreaterThan(("queueOffset",), "7"),
        GreaterThan(("storeTimestamp",), 7),
        Not(GreaterThan(("queueOffset",), 7)),
    ]
    assert Narrowing.of(filters) == Narrowing()


def test_tags_for_a_broker() -> None:
    two = Narrowing.of([In(("tags",), ("b", "a"))])
    assert two.tag_expression(None) == "a || b"
    assert two.tag_expression(frozenset({"b", "c"})) == "b"
    assert two.tag_expression(frozenset({"c"})) == ""
    assert Narrowing().tag_expression(None) is None
    for odd in ("*", "", " a", "a|b", None):
        assert Narrowing.of([EqualTo(("tags",), odd)]).tag_expression(None) is None


@given(st.sampled_from(list(COMPARED)), st.integers(0, 20), st.integers(0, 20))
def test_offsets_that_pass_are_read(kind: type[Any], value: int, offset: int) -> None:
    part = Narrowing.of([kind(("queueOffset",), value)]).clipped(Range("T", "b", 0, 0, 100))
    assert not COMPARED[kind](offset, value) or part.start <= offset < part.end


@given(st.sampled_from(list(COMPARED)), st.integers(-5_000, 5_000), st.integers(-5, 5))
def test_times_that_pass_are_read(kind: type[Any], micros: int, stored: int) -> None:
    found = Narrowing.of([kind(("storeTimestamp",), EPOCH + timedelta(microseconds=micros))])
    passes = COMPARED[kind](stored * 1000, micros)
    inside = (found.since is None or stored >= found.since) and (found.until is None or stored < found.until)
    assert inside or not passes
