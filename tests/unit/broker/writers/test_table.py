"""What is known about writers: who may write, what is stored already, who is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.errors import Refused
from pyromq.broker.writers.table import MAX_STRETCHES, Lane, QueueProgress, Writer, WriterTable
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.handles.writer import Place

TOPIC, NAME, NOW = "orders", "job", 1000


def begun(*, max_writers: int = 10, max_lanes: int = 10) -> WriterTable:
    """A table with run 1000 of one writer, whose lane 0 is open for attempt 5."""
    table = WriterTable(max_writers, max_lanes)
    begin(table)
    table.open(TOPIC, NAME, Place(NOW, 0, 5), NOW)
    return table


def begin(table: WriterTable, name: str = NAME, now: int = NOW, **ends: int) -> Writer:
    origins = table.origins(TOPIC, name, {int(queue[1:]): end for queue, end in ends.items()})
    return table.begin(TOPIC, name, table.next_run(now), origins, now)


def note(table: WriterTable, place: Place, count: int = 1, offset: int = 0, now: int = NOW, name: str = NAME) -> None:
    table.note(TOPIC, name, place, count=count, offset=offset, end=offset * 100, now=now)


def refusal(table: WriterTable, place: Place) -> Refused:
    with pytest.raises(Refused) as caught:
        table.stored(TOPIC, NAME, place)
    return caught.value


def test_messages_are_known_once_they_are_noted() -> None:
    table = begun()
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5, 1)) == 0
    note(table, Place(NOW, 0, 5, 1), count=3, offset=40)
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5, 1)) == 3
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5, 1, 2)) == 1
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5, 1, 3)) == 0
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5, 2)) == 0
    assert table.tail(TOPIC, NAME, Place(NOW, 0, 5, 1)).offset_of(2) == 42


def test_a_gap_is_named() -> None:
    table = begun()
    note(table, Place(NOW, 0, 5))
    refused = refusal(table, Place(NOW, 0, 5, 0, 4))
    assert refused.code == ResponseCode.OUT_OF_SEQUENCE
    assert "message 4 of job came before 1" in refused.remark


@pytest.mark.parametrize(
    ("place", "remark"),
    [
        (Place(NOW - 1, 0, 5), "run 1000 of job took over from 999"),
        (Place(NOW + 1, 0, 5), "run 1001 of job never began"),
        (Place(NOW, 0, 4), "attempt 5 of lane 0 of job took over from 4"),
        (Place(NOW, 0, 6), "attempt 6 has not opened lane 0"),
        (Place(NOW, 1, 5), "attempt 5 has not opened lane 1"),
    ],
)
def test_only_the_present_attempt_may_write(place: Place, remark: str) -> None:
    refused = refusal(begun(), place)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert remark in refused.remark


def test_attempts_take_lanes_over_but_never_back() -> None:
    table = begun()
    note(table, Place(NOW, 0, 5), count=2)
    table.open(TOPIC, NAME, Place(NOW, 0, 5), NOW)
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 5)) == 2, "opened again by the same attempt"
    table.open(TOPIC, NAME, Place(NOW, 0, 7), NOW)
    assert table.stored(TOPIC, NAME, Place(NOW, 0, 7)) == 0, "a new attempt begins at 0"
    with pytest.raises(Refused, match="attempt 7 of lane 0 of job took over from 5"):
        table.open(TOPIC, NAME, Place(NOW, 0, 5), NOW)
    assert (table.lanes, table.tails) == (1, 0)


def test_a_new_run_ends_the_one_before_and_keeps_the_origins() -> None:
    table = WriterTable(10, 10)
    begin(table, q0=5, q1=6)
    table.open(TOPIC, NAME, Place(NOW, 0, 1), NOW)
    writer = begin(table, q0=50, q1=60, q2=70)
    assert writer.run == NOW + 1, "the clock stood still"
    assert writer.origins == {0: 5, 1: 6, 2: 70}
    assert (table.lanes, table.tails) == (0, 0)
    assert "took over" in refusal(table, Place(NOW, 0, 1)).remark


def test_no_number_of_a_run_comes_twice() -> None:
    # The writer was forgotten and the clock went back: a message of the first run must not fit the second.
    table = begun()
    table.close(TOPIC, NAME)
    assert begin(table, now=NOW - 500).run == NOW + 1


def test_a_queue_that_came_later_has_its_origin_from_the_first_message() -> None:
    table = WriterTable(10, 10)
    writer = begin(table, q0=5)
    table.open(TOPIC, NAME, Place(NOW, 0, 1), NOW)
    note(table, Place(NOW, 0, 1, 9), offset=33)
    note(table, Place(NOW, 0, 1, 9, 1), offset=99)
    assert writer.origins == {0: 5, 9: 33}


def test_what_does_not_follow_is_not_noted() -> None:
    table = begun()
    for place in (
        Place(NOW, 0, 5, 0, 1),
        Place(NOW, 0, 4),
        Place(NOW, 0, 6),
        Place(NOW, 3, 5),
        Place(NOW - 1, 0, 5),
    ):
        note(table, place)
        assert table.tails == 0
    note(table, Place(NOW, 0, 5), name="nobody")
    assert len(table) == 1


def test_a_closed_writer_is_refused_until_it_begins_again() -> None:
    table = begun()
    note(table, Place(NOW, 0, 5))
    table.close(TOPIC, NAME)
    table.close(TOPIC, NAME)
    assert (len(table), table.lanes, table.tails, table.has_topic(TOPIC)) == (0, 0, 0, False)
    assert "must begin a run first" in refusal(table, Place(NOW, 0, 5)).remark


def test_only_the_present_run_may_close() -> None:
    table = begun()
    begin(table)
    with pytest.raises(Refused, match="run 1001 of job took over"):
        table.check_close(TOPIC, NAME, NOW)
    table.check_close(TOPIC, NAME, NOW + 1)
    table.check_close(TOPIC, "nobody", 1)


def test_numbers_of_runs_outlive_the_writers() -> None:
    table = begun()
    table.clear()
    assert (len(table), table.lanes, table.latest) == (0, 0, NOW)


def test_topics_are_known_as_long_as_a_writer_is() -> None:
    table = WriterTable(10, 10)
    begin(table, "a")
    begin(table, "b")
    begin(table, "b")
    table.close(TOPIC, "a")
    assert table.has_topic(TOPIC)
    table.close(TOPIC, "b")
    assert not table.has_topic(TOPIC)


def test_the_most_silent_writer_makes_room() -> None:
    table = WriterTable(2, 10)
    begin(table, "old", now=1)
    begin(table, "new", now=2)
    table.open(TOPIC, "old", Place(1, 0, 0), 3)
    begin(table, "newest", now=1)
    assert {writer.name for writer in table} == {"old", "newest"}
    assert table.evicted == 1


def test_lanes_are_bounded_over_all_writers() -> None:
    table = begun(max_lanes=3)
    other = begin(table, "other", now=NOW + 1)
    for lane in range(3):
        table.open(TOPIC, "other", Place(other.run, lane, 0), NOW + 2)
    assert [writer.name for writer in table] == ["other"]
    with pytest.raises(Refused, match="more than 3 lanes"):
        table.open(TOPIC, "other", Place(other.run, 3, 0), NOW + 2)
    assert (len(table), table.lanes, table.evicted) == (0, 0, 2)


def test_queues_of_lanes_are_bounded_too() -> None:
    table = begun(max_lanes=3)
    for queue in range(4):
        note(table, Place(NOW, 0, 5, queue))
    assert (len(table), table.lanes, table.tails, table.evicted) == (0, 0, 0, 1)


def test_the_silent_are_forgotten() -> None:
    table = WriterTable(10, 10)
    begin(table, "old", now=1)
    begin(table, "new", now=5)
    assert table.expire(5) == 1
    assert [writer.name for writer in table] == ["new"]


def test_pieces_of_a_writer_are_put_together() -> None:
    table = WriterTable(10, 10)
    table.restore(
        [
            Writer(TOPIC, "b", 9, 1),
            Writer(TOPIC, NAME, 7, 1, {0: 4}, {0: Lane(1, {0: QueueProgress(5)})}),
            Writer(TOPIC, NAME, 7, 1, {}, {0: Lane(1, {1: QueueProgress(6)}), 1: Lane(2)}),
        ]
    )
    writer = table.get(TOPIC, NAME)
    assert writer == Writer(
        TOPIC, NAME, 7, 1, {0: 4}, {0: Lane(1, {0: QueueProgress(5), 1: QueueProgress(6)}), 1: Lane(2)}
    )
    assert (len(table), table.lanes, table.tails, table.latest) == (2, 2, 2, 9)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=40))
def test_offsets_of_all_that_is_remembered_are_right(batches: list[tuple[int, int]]) -> None:
    tail, end = QueueProgress(), 0
    offsets: list[int] = []
    for count, foreign in batches:
        end += foreign  # messages of others between this one's
        tail.note(len(offsets), count, end, 0)
        offsets += range(end, end + count)
        end += count
    assert tail.next == len(offsets)
    found = [tail.offset_of(number) for number in range(len(offsets))]
    forgotten = found.count(-1)
    assert found == [-1] * forgotten + offsets[forgotten:]
    assert len(tail.stretches) <= MAX_STRETCHES
    if sum(1 for _, foreign in batches if foreign) < MAX_STRETCHES:
        assert not forgotten
