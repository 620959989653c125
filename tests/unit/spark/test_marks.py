"""A topic that was deleted and made again is known by its messages. # SP-09"""

from typing import Any

import pytest

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import DataLossError
from pyromq.spark.source.marks import KEPT, Verdict, look_at, renewed
from pyromq.spark.source.offsets import Mark, Marks, Offset, Range, losses, ranges
from tests.unit.spark.tables import Q0, Q1, Tables, positions

OTHER = MessageQueue("t", "b", 0)


def read(**options: str) -> tuple[Tables, dict[str, Any]]:
    """A stream that has read ten messages of each queue, and its end."""
    tables = Tables(startingOffsets="earliest", **options)
    tables.known = {Q0: (0, 10), Q1: (0, 10)}
    return tables, tables.first()


def remake(tables: Tables, high: int) -> None:
    """The topic is deleted and made again, with so many messages in each queue."""
    tables.known = {Q0: (0, high), Q1: (0, high)}
    tables.messages |= {(queue, offset): 2_000_000 + offset for queue in (Q0, Q1) for offset in range(high)}
    tables.now += 1


def restarted(tables: Tables, **options: str) -> Tables:
    """Another run over the same brokers."""
    other = Tables(startingOffsets="earliest", **options)
    other.known, other.messages = tables.known, tables.messages
    return other


@pytest.mark.parametrize(("running", "high"), [(True, 15), (True, 1000), (False, 10), (False, 15), (False, 1000)])
def test_a_longer_topic_of_the_same_name_is_another(running: bool, high: int) -> None:
    for policy in ("true", "false", "record"):
        tables, end = read(failOnDataLoss=policy)
        remake(tables, high)
        following = tables if running else restarted(tables, failOnDataLoss=policy)
        if policy == "true":
            with pytest.raises(DataLossError, match="t on a queue 0: from 10 on, recreated"):
                following.tracker.latest(end)
            continue
        start, again = Offset.parse(end), Offset.parse(following.tracker.latest(end))
        assert ranges(start, again) == [Range("t", "a", 0, 0, high), Range("t", "a", 1, 0, high)]
        assert [(each.queue, each.start, each.end, each.reason) for each in losses(start, again)] == [
            (0, 10, 10, "recreated"),
            (1, 10, 10, "recreated"),
        ]
        assert again.marks == {queue: Mark(high - 1, 2_000_000 + high - 1) for queue in (Q0, Q1)}
        tables.now += 60
        rendered = again.render()
        assert following.tracker.latest(rendered) is rendered  # known from now on


def test_what_was_seen_and_not_read_counts() -> None:
    tables = Tables(startingOffsets="earliest", failOnDataLoss="record")
    tables.known = {Q0: (0, 10), Q1: (0, 0)}
    first = tables.tracker.latest(tables.tracker.initial(), max_rows=4)
    remake(tables, 20)
    second = tables.tracker.latest(first)
    lost = losses(Offset.parse(first), Offset.parse(second))
    assert [(each.queue, each.start, each.end, each.reason) for each in lost] == [(0, 4, 10, "recreated")]


def test_marks_come_with_the_next_batch_of_a_checkpoint_without() -> None:
    tables, _ = read()
    tables.known[Q0] = (0, 12)
    end = tables.tracker.latest(Offset({Q0: 10, Q1: 10}).render())
    assert Offset.parse(end).marks == {Q0: Mark(11, 1_000_011), Q1: Mark(9, 1_000_009)}


def test_a_stream_that_begins_with_news_knows_its_topic_too() -> None:
    tables = Tables(failOnDataLoss="false")
    tables.known = {Q0: (0, 10), Q1: (0, 0)}
    end = tables.first()
    assert positions(end) == {Q0: 10, Q1: 0}
    remake(tables, 12)
    assert positions(tables.tracker.latest(end)) == {Q0: 12, Q1: 12}
    assert [each.start for each in ranges(Offset.parse(end), Offset.parse(tables.tracker.latest(end)))] == [0, 0]


def test_retention_is_no_recreation() -> None:
    tables, end = read()
    tables.known = {Q0: (10, 30), Q1: (10, 10)}  # what was read is gone
    assert ranges(Offset.parse(end), Offset.parse(tables.tracker.latest(end))) == [Range("t", "a", 0, 10, 30)]
    following = restarted(tables)
    assert ranges(Offset.parse(end), Offset.parse(following.tracker.latest(end))) == [Range("t", "a", 0, 10, 30)]


def test_nothing_is_read_of_a_topic_that_cannot_be_known_again_yet() -> None:
    for policy in ("true", "false"):
        tables, end = read(failOnDataLoss=policy)
        tables.known[Q0] = (0, 15)
        tables.now += 1
        tables.mute = {Q0, Q1}
        assert tables.tracker.latest(end) is end
        tables.mute = set()
        assert positions(tables.tracker.latest(end)) == {Q0: 15, Q1: 10}


def test_a_broker_that_answers_by_half_is_asked_again() -> None:
    tables, end = read(failOnDataLoss="false")
    remake(tables, 20)
    tables.mute = {Q1}
    assert tables.tracker.latest(end) is end
    tables.mute = set()
    assert ranges(Offset.parse(end), Offset.parse(tables.tracker.latest(end)))[0] == Range("t", "a", 0, 0, 20)


def test_an_idle_stream_asks_nothing() -> None:
    tables, end = read()
    tables.now += 1
    tables.tracker.latest(end)  # once, at the start
    asked = len(tables.asked)
    for _ in range(5):
        tables.now += 1
        assert tables.tracker.latest(end) is end
    assert len(tables.asked) == asked


def test_one_message_that_is_what_it_was_vouches_for_its_topic() -> None:
    tables, _ = read()
    marks = {Q0: Mark(9, 1_000_009), Q1: Mark(9, 1_000_009), OTHER: Mark(9, 1_000_009)}
    bounds = {Q0: (0, 10), Q1: (0, 10), OTHER: (0, 10)}
    tables.known = bounds
    tables.messages = {(Q1, 9): 5}
    assert look_at(tables, marks, bounds) == Verdict(frozenset({Q1}))
    tables.messages = {(Q1, 9): 5, (Q0, 9): 6}
    more = MessageQueue("t", "a", 2)
    assert look_at(tables, marks, bounds | {more: (0, 3)}) == Verdict(frozenset({Q0, Q1, more}))
    assert look_at(tables, marks, bounds, {("t", "b")}) == Verdict()
    tables.mute = {OTHER}
    assert look_at(tables, marks, bounds, {("t", "b")}) == Verdict(unsure=frozenset({("t", "b")}))


def test_few_marks_are_kept_for_many_queues() -> None:
    tables = Tables()
    queues = [MessageQueue("t", broker, number) for broker in "ab" for number in range(100)]
    tables.known = {queue: (0, 1 + queue.queue_id) for queue in queues}
    end = {queue: high for queue, (_, high) in tables.known.items()}
    made = renewed(tables, {}, end, tables.known, queues)
    assert {(queue.broker_name, mark.offset) for queue, mark in made.items()} == {
        (broker, 99 - place) for broker in "ab" for place in range(KEPT)
    }
    again: Marks = renewed(tables, made, end | {queues[3]: 4}, tables.known, [queues[3]])
    assert len(again) == 2 * KEPT
