"""Queues that come after a stream began, whatever the trigger: all of them are read, from their first message on."""

import itertools
from typing import Any

import pytest

from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import ConnectError
from pyromq.spark.errors import RouteError
from pyromq.spark.source.offsets import Offset, Range, losses, ranges
from tests.unit.spark.tables import Q0, Q1, Tables, positions

LATE = {
    "queue": MessageQueue("t", "a", 2),
    "broker": MessageQueue("t", "b", 0),
    "topic": MessageQueue("u", "a", 0),
    "pattern": MessageQueue("u", "a", 0),
}
SELECTED = {"topic": {"topics": "t,u"}, "pattern": {"topicsPattern": "[tu]"}}


def run(kind: str, state: Tables | None = None, **options: str) -> Tables:
    """A run of a query, over what there was in another; `topics` may name more than it did."""
    tables = Tables(startingOffsets="earliest", **(SELECTED.get(kind, {}) | options))
    tables.known[Q0] = (0, 4)
    if state is not None:
        tables.known, tables.route, tables.living = dict(state.known), list(state.route), set(state.living)
    return tables


def grow(tables: Tables, kind: str) -> None:
    late = LATE[kind]
    tables.known |= {Q0: (0, 6), late: (2, 9)}
    tables.route.append(late)
    tables.living.add(late.broker_name)
    tables.now += 60


def drained(tables: Tables, trigger: str, start: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The ends of the batches of a run that has nothing more to do; a bounded trigger takes 3 rows at a time."""
    if trigger == "available":
        tables.tracker.freeze()
    ends = [start if start is not None else tables.tracker.initial()]
    while True:
        everything = trigger == "once"
        end = tables.tracker.latest(ends[-1], max_rows=None if everything else 3, everything=everything)
        if end is ends[-1]:
            return ends
        ends.append(end)
        if everything:
            return ends


def covered(ends: list[dict[str, Any]]) -> dict[MessageQueue, list[int]]:
    """The offsets that the batches read, in their order."""
    found: dict[MessageQueue, list[int]] = {}
    for start, end in itertools.pairwise(ends):
        for each in ranges(Offset.parse(start), Offset.parse(end)):
            found.setdefault(MessageQueue(*each[:3]), []).extend(range(each.start, each.end))
        assert losses(Offset.parse(start), Offset.parse(end)) == []
    return found


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.parametrize("trigger", ["processing", "once", "available"])
def test_queues_that_came_while_the_query_was_stopped(trigger: str, kind: str) -> None:
    first = run(kind)
    done = drained(first, trigger, None)
    grow(first, kind)
    following = drained(run(kind, first), trigger, done[-1])
    assert covered(following) == {Q0: [4, 5], LATE[kind]: list(range(2, 9))}
    assert positions(following[-1]) == {Q0: 6, Q1: 0, LATE[kind]: 9}


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.parametrize("trigger", ["processing", "once"])
def test_queues_that_come_while_the_query_runs(trigger: str, kind: str) -> None:
    tables = run(kind)
    done = drained(tables, trigger, None)
    grow(tables, kind)
    following = drained(tables, trigger, done[-1])
    assert covered(following) == {Q0: [4, 5], LATE[kind]: list(range(2, 9))}


@pytest.mark.parametrize("kind", LATE)
def test_queues_that_come_after_the_end_was_fixed_are_for_the_next_run(kind: str) -> None:
    tables = run(kind)
    tables.tracker.freeze()
    grow(tables, kind)
    ends = [tables.tracker.initial()]
    while (end := tables.tracker.latest(ends[-1], max_rows=3)) is not ends[-1]:
        ends.append(end)
        tables.now += 60
    assert covered(ends) == {Q0: [0, 1, 2, 3]}
    following = drained(run(kind, tables), "available", ends[-1])
    assert covered(following) == {Q0: [4, 5], LATE[kind]: list(range(2, 9))}


@pytest.mark.parametrize("kind", LATE)
def test_a_batch_with_such_a_queue_that_was_planned_and_not_done_is_repeated_as_it_was(kind: str) -> None:
    first = run(kind)
    done = drained(first, "available", None)[-1]
    grow(first, kind)
    planned = drained(run(kind, first), "available", done)[1]
    first.known |= {Q0: (0, 8), LATE[kind]: (2, 12)}
    again = run(kind, first)
    again.tracker.freeze()
    ends = [done, planned]
    while (end := again.tracker.latest(ends[-1], max_rows=3)) is not ends[-1]:
        ends.append(end)
    assert covered(ends) == {Q0: [4, 5, 6, 7], LATE[kind]: list(range(2, 12))}


def test_a_topic_that_was_waited_for() -> None:
    nothing = run("queue", waitForTopic="true")
    nothing.known, nothing.route = {}, []
    done = drained(nothing, "available", None)
    assert positions(done[-1]) == {}
    there = drained(run("queue", waitForTopic="true"), "available", done[-1])
    assert covered(there) == {Q0: [0, 1, 2, 3]}


def test_a_broker_that_falls_silent_does_not_end_what_reads_all_there_is() -> None:
    tables = run("queue")
    tables.tracker.freeze()
    begin = tables.tracker.initial()
    tables.now += 1
    known, tables.known = tables.known, {}
    tables.meanwhile = lambda: setattr(tables, "known", known if tables.now > 1010 else {})
    first = tables.tracker.latest(begin)  # batch 0 never waits
    end = tables.tracker.latest(first)
    assert ranges(Offset.parse(first), Offset.parse(end)) == [Range("t", "a", 0, 0, 4)]
    assert tables.tracker.latest(end) is end


def test_a_broker_that_stays_silent_is_said_to_be() -> None:
    tables = run("queue")
    tables.tracker.freeze()
    end = tables.tracker.latest(tables.tracker.initial(), max_rows=3)
    tables.fault = ConnectError("away")
    tables.now += 1
    with pytest.raises(RouteError, match="no answer about offsets from a"):
        tables.tracker.latest(end)
    assert tables.now > 1000 + 30  # not before `offsetTimeoutMs`


def test_a_queue_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    tables = run("queue", failOnDataLoss="false")
    tables.tracker.freeze()
    end = tables.tracker.latest(tables.tracker.initial(), max_rows=3)
    tables.route, tables.known = [Q1], {Q1: (0, 0)}
    tables.now += 1
    assert tables.tracker.latest(end) is end
