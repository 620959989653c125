"""The driver's side of a stream against a cluster made of tables. # SP-03"""

import itertools
import json
from typing import Any

import pytest

from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import ConnectError
from pyromq.spark.errors import DataLossError, OptionError, RouteError
from pyromq.spark.source.offsets import Offset, Range, losses, ranges
from tests.unit.spark.tables import Q0, Q1, Tables, positions


def test_the_beginning_is_resolved_once_and_pinned() -> None:  # SP-04
    tables = Tables()
    tables.known = {Q0: (0, 100), Q1: (0, 50)}
    begin = tables.tracker.initial()
    tables.known[Q0] = (0, 110)
    tables.now += 1
    assert tables.tracker.initial() is begin
    end = tables.tracker.latest(begin)
    assert tables.waits == 0  # batch 0 never waits
    assert Offset.parse(end).init == {Q0: 100, Q1: 50}
    again = Tables()
    again.known = {Q0: (0, 105), Q1: (0, 50)}
    assert ranges(Offset.parse(again.tracker.initial()), Offset.parse(end)) == [Range("t", "a", 0, 100, 110)]


def test_no_news_is_the_given_object() -> None:
    tables = Tables()
    end = tables.first()
    given = json.loads(json.dumps(end))
    assert tables.tracker.latest(given) is given
    assert tables.waits == 1  # for half a second, not in a busy loop
    tables.meanwhile = lambda: tables.known.update({Q1: (0, 3)})
    assert positions(tables.tracker.latest(given)) == {Q0: 0, Q1: 3}


def test_limits_are_shared_and_all_means_all() -> None:
    tables = Tables(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    tables.known = {Q0: (0, 900), Q1: (0, 100)}
    end = tables.tracker.latest(tables.tracker.initial(), max_rows=100)
    assert positions(end) == {Q0: 90, Q1: 10}
    assert positions(tables.tracker.latest(end, everything=True)) == {Q0: 900, Q1: 100}


def test_bytes_are_counted_by_sample() -> None:
    tables = Tables(startingOffsets="earliest", maxBytesPerTrigger="100000")
    tables.known = {Q0: (0, 10_000), Q1: (0, 0)}
    end = tables.tracker.latest(tables.tracker.initial(), max_bytes=100_000)
    assert 90 <= positions(end)[Q0] <= 110


def test_a_minimum_is_waited_for() -> None:
    tables = Tables(minOffsetsPerTrigger="10", maxTriggerDelay="2s")
    end = tables.first()
    tables.known[Q0] = (0, 9)
    begun = tables.now
    while (answer := tables.tracker.latest(end)) is end:
        assert tables.now - begun < 2.6
    assert positions(answer)[Q0] == 9
    assert tables.now - begun >= 2.0


def test_available_now_ends_where_it_began() -> None:
    tables = Tables(startingOffsets="earliest", maxOffsetsPerTrigger="60", group="g")
    tables.known = {Q0: (0, 100), Q1: (0, 20)}
    tables.tracker.freeze()
    tables.known = {Q0: (0, 500), Q1: (0, 20), MessageQueue("t", "a", 2): (0, 7)}
    tables.route = list(tables.known)
    tables.now += 60  # new queues are discovered, and left out
    ends = [tables.tracker.latest(tables.tracker.initial(), max_rows=60)]
    while (end := tables.tracker.latest(ends[-1], max_rows=60)) is not ends[-1]:
        ends.append(end)
    assert positions(ends[-1]) == {Q0: 100, Q1: 20}
    assert len(ends) == 2
    assert tables.group == {Q0: 100, Q1: 20}  # SP-06: told at once, though the last commit was a moment ago


def test_the_group_is_told_what_is_done_and_not_more() -> None:  # SP-06
    tables = Tables(group="g")
    tables.known = {Q0: (0, 10), Q1: (0, 0)}
    end = tables.tracker.latest(Offset({Q0: 4, Q1: 0}).render())
    assert tables.group == {Q0: 4, Q1: 0}
    assert positions(end)[Q0] == 10
    tables.now += 2
    tables.tracker.latest(end)
    assert tables.group[Q0] == 10
    tables.fault = ConnectError("away")
    tables.now += 2
    tables.tracker.commit(Offset({Q0: 11}).render())  # never raises


def test_beginnings() -> None:
    assert positions(_begun(startingOffsets="earliest")) == {Q0: 5, Q1: 0}
    assert positions(_begun()) == {Q0: 100, Q1: 50}
    assert positions(_begun(group="g")) == {Q0: 42, Q1: 0}
    assert positions(_begun(group="g", groupFallback="latest")) == {Q0: 42, Q1: 50}
    assert positions(_begun(startingTimestamp="2026-01-01T00:00:00Z")) == {Q0: 77, Q1: 50}
    assert positions(_begun(startingTimestamp="1", timestampFallback="earliest")) == {Q0: 77, Q1: 0}
    assert positions(_begun(startingOffsets='{"t":{"a":{"0":-2}}}')) == {Q0: 5, Q1: 0}
    given = {"startingOffsets": '{"t":{"a":{"0":-1,"1":7}}}'}
    assert positions(_begun(**given)) == {Q0: 100, Q1: 7}
    by_time = {"startingOffsetsByTimestamp": '{"t":{"a":{"0":1}}}'}
    assert positions(_begun(**given, **by_time)) == {Q0: 77, Q1: 7}
    with pytest.raises(OptionError, match="queue 9"):
        _begun(startingOffsets='{"t":{"a":{"9":1}}}')


def _begun(**options: str) -> dict[str, Any]:
    tables = Tables(**options)
    tables.known = {Q0: (5, 100), Q1: (0, 50)}
    tables.group = {Q0: 42}
    tables.times = {Q0: 77, Q1: 50}
    return tables.tracker.initial()


@pytest.mark.parametrize(
    ("bounds", "reason", "lost", "then"),
    [((20, 30), "expired", (10, 20), 20), ((0, 4), "truncated", (0, 10), 0)],
)
def test_lost_messages(bounds: tuple[int, int], reason: str, lost: tuple[int, int], then: int) -> None:  # SP-09
    start = Offset({Q0: 10, Q1: 0})
    strict = Tables()
    strict.known[Q0] = bounds
    with pytest.raises(DataLossError, match=reason) as raised:
        strict.tracker.latest(start.render())
    assert [(each.start, each.end) for each in raised.value.ranges] == [lost]
    for policy in ("false", "record"):
        lenient = Tables(failOnDataLoss=policy)
        lenient.known[Q0] = bounds
        end = Offset.parse(lenient.tracker.latest(start.render()))
        assert ranges(start, end) == [Range("t", "a", 0, then, bounds[1])]
        assert [(each.start, each.end, each.reason) for each in losses(start, end)] == [(*lost, reason)]


def test_a_deleted_topic_is_a_loss_if_something_was_unread() -> None:  # SP-09
    tables = Tables(maxOffsetsPerTrigger="5", startingOffsets="earliest")
    tables.known[Q0] = (0, 9)
    end = tables.tracker.latest(tables.tracker.initial(), max_rows=5)
    tables.route, tables.known = [Q1], {Q1: (0, 0)}
    tables.now += 60
    with pytest.raises(DataLossError, match="deleted"):
        tables.tracker.latest(end)


def test_what_a_deleted_topic_held_is_noted_once_and_its_place_is_kept() -> None:  # SP-09
    tables = Tables(maxOffsetsPerTrigger="5", startingOffsets="earliest", failOnDataLoss="record")
    tables.known[Q0] = (0, 9)
    first = tables.tracker.latest(tables.tracker.initial(), max_rows=5)
    tables.route, tables.known = [Q1], {Q1: (0, 3)}
    tables.now += 60
    second = tables.tracker.latest(first)
    lost = losses(Offset.parse(first), Offset.parse(second))
    assert [(each.queue, each.start, each.end, each.reason) for each in lost] == [(0, 5, 9, "deleted")]
    tables.known[Q1] = (0, 4)
    tables.now += 60
    third = tables.tracker.latest(second)
    assert losses(Offset.parse(second), Offset.parse(third)) == []
    tables.route, tables.known = [Q0, Q1], {Q0: (0, 9), Q1: (0, 4)}  # it was only out of sight
    tables.now += 60
    assert ranges(Offset.parse(third), Offset.parse(tables.tracker.latest(third))) == [Range("t", "a", 0, 5, 9)]


def deleted(**options: str) -> tuple[Tables, dict[str, Any]]:
    """Queue 0 is gone with offsets 5 to 9 unread; the end of the batch before."""
    tables = Tables(startingOffsets="earliest", **options)
    tables.known[Q0] = (0, 9)
    first = tables.tracker.latest(tables.tracker.initial(), max_rows=5)
    tables.route, tables.known = [Q1], {Q1: (0, 0)}
    tables.now += 60
    return tables, first


def test_a_loss_with_nothing_else_to_read_is_recorded_all_the_same() -> None:  # SP-09
    tables, first = deleted(failOnDataLoss="record")
    second = tables.tracker.latest(first)
    assert [each.reason for each in losses(Offset.parse(first), Offset.parse(second))] == ["deleted"]
    assert ranges(Offset.parse(first), Offset.parse(second)) == []
    assert tables.tracker.latest(second) is second  # once
    expired = Tables(failOnDataLoss="record")
    expired.known[Q0] = (30, 30)
    start = Offset({Q0: 10, Q1: 0})
    end = Offset.parse(expired.tracker.latest(start.render()))
    assert [(each.start, each.end) for each in losses(start, end)] == [(10, 30)]
    ignoring, first = deleted(failOnDataLoss="false")
    assert ignoring.tracker.latest(first) is first


def test_a_queue_that_looks_empty_all_at_once_may_be_deleted() -> None:  # SP-09
    tables = Tables(startingOffsets="earliest", failOnDataLoss="record")
    tables.known[Q0] = (0, 9)
    first = tables.tracker.latest(tables.tracker.initial(), max_rows=5)
    tables.route, tables.known[Q0] = [Q1], (0, 0)  # brokers answer so about topics that they do not have
    tables.now += 2  # not yet the time to look for queues
    second = tables.tracker.latest(first)
    lost = losses(Offset.parse(first), Offset.parse(second))
    assert [(each.start, each.end, each.reason) for each in lost] == [(5, 9, "deleted")]
    assert positions(second)[Q0] == 5


def test_a_loss_is_noted_once_across_outages_and_runs() -> None:  # SP-09
    tables, first = deleted(failOnDataLoss="record")
    second = tables.tracker.latest(first)
    late = MessageQueue("t", "b", 0)
    tables.route, tables.known, tables.living = [late], {late: (0, 1)}, {"b"}  # its broker is away as a whole
    tables.now += 60
    third = tables.tracker.latest(second)
    tables.route, tables.known, tables.living = [Q1, late], {Q1: (0, 1), late: (0, 1)}, {"a", "b"}
    tables.now += 60
    fourth = tables.tracker.latest(third)
    following = Tables(failOnDataLoss="record")  # another run, which never saw the queue
    following.route, following.known = [Q1, late], {Q1: (0, 2), late: (0, 1)}
    ends = [Offset.parse(each) for each in (second, third, fourth, following.tracker.latest(fourth))]
    assert [losses(start, end) for start, end in itertools.pairwise(ends)] == [[], [], []]
    assert [end.gone for end in ends] == [{Q0: 9}] * 4


@pytest.mark.parametrize("high", [3, 7])
def test_a_deleted_topic_that_is_made_anew_begins_with_its_first_message(high: int) -> None:  # SP-09
    tables, first = deleted(failOnDataLoss="record")
    second = tables.tracker.latest(first)
    tables.route, tables.known = [Q0, Q1], {Q0: (0, high), Q1: (0, 0)}  # shorter than it was: not the same
    tables.now += 60
    start, end = Offset.parse(second), Offset.parse(tables.tracker.latest(second))
    assert ranges(start, end) == [Range("t", "a", 0, 0, high)]
    assert losses(start, end) == []  # what was unread is noted already, the rest was read
    assert end.gone == {}


def test_a_broker_that_is_away_is_waited_for() -> None:  # SP-10
    tables = Tables(maxOffsetsPerTrigger="5", startingOffsets="earliest")
    tables.known[Q0] = (0, 9)
    end = tables.tracker.latest(tables.tracker.initial(), max_rows=5)
    tables.route, tables.known, tables.living = [], {}, set()
    tables.now += 60
    assert tables.tracker.latest(end) is end
    tables.fault = ConnectError("away")
    tables.now += 60
    assert tables.tracker.latest(end) is end
    tables.fault, tables.route, tables.known, tables.living = None, [Q0, Q1], {Q0: (0, 9), Q1: (0, 0)}, {"a"}
    assert positions(tables.tracker.latest(end)) == {Q0: 9, Q1: 0}


def test_new_queues_are_found() -> None:
    tables = Tables()
    end = tables.first()
    late = MessageQueue("t", "a", 2)
    tables.route.append(late)
    tables.known[late] = (3, 8)
    tables.now += 60
    following = tables.tracker.latest(end)
    assert ranges(Offset.parse(end), Offset.parse(following)) == [Range("t", "a", 2, 3, 8)]
    assert losses(Offset.parse(end), Offset.parse(following)) == []


def test_a_missing_topic() -> None:
    absent = Tables()
    absent.route = []
    with pytest.raises(RouteError, match="waitForTopic"):
        absent.tracker.initial()
    patient = Tables(waitForTopic="true")
    patient.route = []
    end = patient.first()
    assert positions(end) == {}
    patient.route, patient.known = [Q0], {Q0: (0, 2)}
    patient.now += 60
    assert positions(patient.tracker.latest(end)) == {Q0: 2}


def test_lag_can_be_reported() -> None:
    tables = Tables()
    assert tables.tracker.report() is None
    tables.known[Q0] = (0, 9)
    tables.first()
    assert tables.tracker.report() == {"v": 1, "q": {"t": {"a": {"0": 9, "1": 0}}}}
    tables.route, tables.known = [Q1], {Q1: (0, 2)}
    tables.now += 60
    tables.tracker.latest(Offset({Q0: 9, Q1: 0}).render())
    told = {"v": 1, "q": {"t": {"a": {"1": 2}}}, "gone": {"t": {"a": {"0": 9}}}}
    assert tables.tracker.report() == told  # nobody is behind what is deleted
