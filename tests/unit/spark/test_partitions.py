"""Ranges become tasks: packed, split, even, deterministic. # SP-03 # SP-08"""

from hypothesis import given
from hypothesis import strategies as st

from pyromq.spark.source.offsets import Range
from pyromq.spark.source.partitions import LARGE_TASK, WORTH_A_TASK, task_ranges, useful_tasks


@st.composite
def some_ranges(draw: st.DrawFn) -> list[Range]:
    keys = st.tuples(st.sampled_from("tu"), st.sampled_from("ab"), st.integers(0, 40))
    found = draw(st.dictionaries(keys, st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), max_size=20))
    return [Range(*key, start, start + count) for key, (start, count) in found.items()]


@given(
    some_ranges(),
    st.integers(1, 16),
    st.one_of(st.none(), st.integers(1, 30)),
    st.one_of(st.none(), st.integers(1000, 10**5)),
)
def test_every_message_once(
    wanted: list[Range], max_partitions: int, min_partitions: int | None, max_records: int | None
) -> None:
    tasks = task_ranges(wanted, max_partitions=max_partitions, min_partitions=min_partitions, max_records=max_records)
    assert tasks == task_ranges(
        wanted[::-1], max_partitions=max_partitions, min_partitions=min_partitions, max_records=max_records
    )
    pieces = sorted(piece for task in tasks for piece in task)
    joined: list[Range] = []
    for piece in pieces:
        assert piece.messages > 0
        if joined and joined[-1][:3] == piece[:3]:
            assert joined[-1].end == piece.start
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == sorted(each for each in wanted if each.messages)
    if min_partitions is None and max_records is None:
        assert len(tasks) <= max_partitions
    if max_records is not None:
        assert all(sum(piece.messages for piece in task) <= max_records for task in tasks)
    total = sum(each.messages for each in wanted)
    if min_partitions is not None:
        assert len(tasks) >= min(min_partitions, total)


def test_many_queues_in_two_even_tasks() -> None:  # SP-08
    wanted = [Range("t", f"b{queue % 2}", queue, 0, 1000) for queue in range(64)]
    tasks = task_ranges(wanted, max_partitions=2)
    assert [sum(piece.messages for piece in task) for task in tasks] == [32_000, 32_000]
    assert [{piece.broker for piece in task} for task in tasks] == [{"b0"}, {"b1"}]


def test_little_is_one_task() -> None:
    assert len(task_ranges([Range("t", "b", queue, 0, 9) for queue in range(8)], max_partitions=8)) == 1
    assert len(task_ranges([Range("t", "b", queue, 0, WORTH_A_TASK) for queue in range(8)], max_partitions=8)) == 8


def test_nothing_is_no_task() -> None:
    assert task_ranges([Range("t", "b", 0, 7, 7)], max_partitions=2) == []


def test_large_batches_get_a_task_a_queue() -> None:
    def wanted(messages: int) -> list[Range]:
        return [Range("t", "b", queue, 0, messages) for queue in range(64)]

    assert useful_tasks(wanted(10 * LARGE_TASK), 4) == 64  # on a cluster with more processors than the driver has
    assert useful_tasks(wanted(LARGE_TASK // 8), 4) == 8
    assert useful_tasks(wanted(100), 4) == 4
    assert useful_tasks([], 4) == 4
