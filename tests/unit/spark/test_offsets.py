"""Offsets: their JSON form, ranges, losses, shares. # SP-03"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import OptionError
from pyromq.spark.source.offsets import Mark, Offset, Range, advanced, capped, losses, ranges, share, standing
from pyromq.spark.source.queuetable import flatten, nest

A0, A1, B0 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("t", "b", 0)
QUEUES = st.builds(MessageQueue, st.sampled_from(["t", "u"]), st.sampled_from(["a", "b"]), st.integers(0, 11))
POSITIONS = st.dictionaries(QUEUES, st.integers(0, 2**62), max_size=8)


@given(st.builds(Offset, POSITIONS, init=POSITIONS, skip=POSITIONS, gone=POSITIONS, fresh=st.booleans()))
def test_json_keeps_everything(offset: Offset) -> None:
    text = json.dumps(offset.render())
    assert Offset.parse(json.loads(text)) == offset
    assert json.dumps(json.loads(text)) == text  # Spark compares texts


def test_queues_are_sorted_by_number() -> None:
    shape = nest({MessageQueue("t", "a", number): number for number in (10, 9, 2)})
    assert list(shape["t"]["a"]) == ["2", "9", "10"]


@pytest.mark.parametrize(
    "shape", [{"v": 2, "q": {}}, {}, {"v": 1, "q": {"t": {"a": {"0": 1.5}}}}, {"v": 1, "q": {"t": []}}]
)
def test_foreign_offsets_are_refused(shape: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Offset.parse(shape)
    with pytest.raises(OptionError):
        flatten([1])


def test_the_first_batch_begins_where_its_end_says() -> None:  # SP-04
    moved = Offset({A0: 105}, fresh=True)  # what a second look at "latest" would answer
    end = Offset({A0: 110}, init={A0: 100})
    assert ranges(moved, end) == [Range("t", "a", 0, 100, 110)]


def test_skips_beat_the_start_and_can_be_told_as_losses() -> None:  # SP-09
    start, end = Offset({A0: 5, A1: 500}), Offset({A0: 110, A1: 7, B0: 3}, skip={A0: 100, A1: 0, B0: 1})
    assert ranges(start, end) == [Range("t", "a", 0, 100, 110), Range("t", "a", 1, 0, 7), Range("t", "b", 0, 1, 3)]
    assert [(lost.queue, lost.start, lost.end, lost.reason) for lost in losses(start, end)] == [
        (0, 5, 100, "expired"),
        (1, 0, 500, "truncated"),
    ]


def test_where_a_stream_stands() -> None:
    stand = standing({A0: 50, A1: 5, B0: 7}, {A0: (0, 60), A1: (9, 20)})
    assert stand.begin == {A0: 50, A1: 9, B0: 7}  # a queue nobody knows keeps its place
    assert stand.skip == {A1: 9}
    assert stand.available == {A0: 10, A1: 11}


def test_new_queues_begin_with_their_first_message() -> None:
    stand = standing({A0: 1}, {A0: (0, 1), B0: (4, 6)})
    assert (stand.begin[B0], stand.skip, stand.available) == (4, {B0: 4}, {B0: 2})


def test_a_target_is_not_passed() -> None:
    assert capped({A0: (0, 60), A1: (0, 9), B0: (0, 1)}, {A0: 50, A1: 9}) == {A0: (0, 50), A1: (0, 9)}


@given(st.dictionaries(QUEUES, st.integers(1, 10**6), min_size=1, max_size=12), st.integers(1, 10**6))
def test_shares(available: dict[MessageQueue, int], budget: int) -> None:
    taken = share(available, budget)
    assert taken.keys() == available.keys()
    assert all(1 <= taken[queue] <= available[queue] for queue in taken)
    assert sum(taken.values()) == min(sum(available.values()), max(budget, len(available)))


def test_shares_are_proportional() -> None:
    assert share({A0: 900, A1: 100}, 100) == {A0: 90, A1: 10}
    assert share({A0: 10**6, A1: 1}, 10) == {A0: 9, A1: 1}


def test_an_end_advances_what_was_taken() -> None:
    stand = standing({A0: 5, A1: 5}, {A0: (0, 60), A1: (0, 9)})
    assert advanced(stand, {A0: 10}) == Offset({A0: 15, A1: 5})


def test_a_batch_without_data_reads_nothing_again() -> None:
    queue = MessageQueue("t", "b", 0)
    first = Offset({queue: 7}, init={queue: 3})
    assert [(each.start, each.end) for each in ranges(Offset({queue: 3}, fresh=True), first)] == [(3, 7)]
    assert ranges(first, first) == []


@pytest.mark.parametrize("missing", [None, 0, 40, 99])
def test_many_queues_without_a_gap_are_a_list(missing: int | None) -> None:
    positions = {MessageQueue("t", "a", number): number * 7 for number in range(100) if number != missing}
    text = json.dumps(Offset(positions | {B0: 3}, skip=positions).render())
    assert Offset.parse(json.loads(text)) == Offset(positions | {B0: 3}, skip=positions)
    shape = json.loads(text)["q"]["t"]
    assert isinstance(shape["a"], list) == (missing in (None, 99))
    assert shape["b"] == {"0": 3}


def test_marks_are_read_as_they_were_written() -> None:
    offset = Offset({A0: 5}, marks={A0: Mark(4, 1_700_000_000_000)}, anew={A1: 9})
    shape = json.loads(json.dumps(offset.render()))
    assert shape["marks"] == {"t": {"a": {"0": [4, 1_700_000_000_000]}}}
    assert Offset.parse(shape) == offset
    for wrong in ([4], [4, "x"], 4, {"4": 1}):
        with pytest.raises(OptionError):
            Offset.parse({"v": 1, "q": {}, "marks": {"t": {"a": {"0": wrong}}}})
