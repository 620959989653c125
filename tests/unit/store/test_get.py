"""S-15: reading by queue offset: statuses, limits, filters, slices."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.records.tags import tags_code
from pyromq.store.config import BrokerRole
from pyromq.store.errors import StoreClosedError
from pyromq.store.queue import files, read
from pyromq.store.queue.read import GetStatus, Reader
from pyromq.store.queue.scan import TagCodes
from tests.unit.store.storage import open_store, put


def test_statuses_outside_of_the_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.get("nothing", 0, 5, 1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    store.queues.get_or_create("empty", 0)
    assert store.get("empty", 0, 5, 1).status is GetStatus.NO_MESSAGE_IN_QUEUE
    for _ in range(3):
        put(store)
    end = store.get("orders", 0, 3, 1)
    assert (end.status, end.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 3)
    beyond = store.get("orders", 0, 9, 1)
    assert (beyond.status, beyond.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3)
    before = store.get("orders", 0, -1, 1)
    assert (before.status, before.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 0)
    assert (before.min_offset, before.max_offset) == (0, 3)
    store.close()
    with pytest.raises(StoreClosedError):
        store.get("orders", 0, 0, 1)


def test_a_slave_does_not_correct_offsets(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    store.close()
    slave = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert slave.get("orders", 0, 9, 1).next_offset == 9
    assert slave.get("orders", 0, 0, 1).count == 1
    slave.close()


def test_neighbours_are_one_slice(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for n in range(3):
        put(store, body=b"%d" % n)
    put(store, "other")
    put(store, body=b"3")
    result = store.get("orders", 0, 0, 32)
    assert (result.status, result.count, result.next_offset) == (GetStatus.FOUND, 4, 4)
    assert [len(list(m)) > 0 for m in result.records()] == [True] * 4
    assert len(result.chunks) == 2
    assert sum(map(len, result.chunks)) == result.size
    assert [m.body for m in result.messages()] == [b"0", b"1", b"2", b"3"]
    store.close()


def test_slices_end_at_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sizes = [put(store, body=b"x" * 900).size for _ in range(9)]
    result = store.get("orders", 0, 0, 32)
    assert result.count == 9
    assert [len(chunk) for chunk in result.chunks] == [4 * sizes[0], 4 * sizes[0], sizes[0]]
    store.close()


def test_limits_of_count_and_bytes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    size = put(store).size
    for _ in range(49):
        put(store)
    assert store.get("orders", 0, 0, 5).count == 5
    assert store.get("orders", 0, 0, 100).count == 32
    assert store.get("orders", 0, 0, 32, max_bytes=3 * size).count == 3
    assert store.get("orders", 0, 0, 32, max_bytes=3 * size - 1).count == 2
    assert store.get("orders", 0, 0, 32, max_bytes=1).count == 1, "the first is always given"
    store.close()


def test_limits_of_bytes_in_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_transfer_bytes_on_message_in_memory=1000)
    for _ in range(5):
        put(store, body=b"x" * 350)
    assert store.get("orders", 0, 0, 32).count == 2
    store.close()


def test_messages_on_disk_have_smaller_limits(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(50):
        put(store)
    old = Reader(store.config, store.commit_log, store.queues, store.damage, memory=1000)
    result = old.get("orders", 0, 0, 32)
    assert result.count == 8
    assert result.suggest_slave
    new = old.get("orders", 0, 48, 32)
    assert new.count == 2
    assert not new.suggest_slave
    store.close()


def test_tag_filter_looks_at_the_entry_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for n in range(10):
        put(store, body=b"%d" % n, properties={"TAGS": "ab"[n % 2]})
    wanted = tags_code("b")
    result = store.get("orders", 0, 0, 3, tag_filter=lambda code: code == wanted)
    assert [m.body for m in result.messages()] == [b"1", b"3", b"5"]
    assert result.queue_offsets == [1, 3, 5]
    assert result.next_offset == 6
    nothing = store.get("orders", 0, 0, 3, tag_filter=lambda _: False)
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)
    store.close()


def test_record_filter_sees_whole_records(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for n in range(4):
        put(store, body=b"number %d" % n)
    result = store.get("orders", 0, 0, 9, record_filter=lambda record: b"number 2" in bytes(record))
    assert [m.body for m in result.messages()] == [b"number 2"]
    store.close()


def test_a_call_examines_a_bounded_number_of_entries(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_filter_message_size=200)
    for _ in range(40):
        put(store)
    assert store.get("orders", 0, 0, 1, tag_filter=lambda _: False).next_offset == 10
    assert store.get("orders", 0, 0, 25, tag_filter=lambda _: False).next_offset == 25
    store.close()


def test_however_many_messages_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_EXAMINED", 30)
    store = open_store(tmp_path)
    for _ in range(40):
        put(store)
    everything = 2**31 - 1
    assert store.get("orders", 0, 0, everything, max_bytes=everything).count == 30
    assert store.get("orders", 0, 0, everything, tag_filter=lambda _: False).next_offset == 30
    store.close()


def test_messages_that_left_the_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for n in range(9):
        put(store, body=b"%d" % n + b"x" * 900)
    held = store.get("orders", 0, 0, 1)
    store.commit_log.files.drop_first()
    result = store.get("orders", 0, 0, 2)
    assert result.status is GetStatus.FOUND
    assert [m.body[:1] for m in result.messages()] == [b"4", b"5"]
    assert store.get("orders", 0, 0, 1, max_bytes=100).next_offset == 5
    assert held.messages()[0].body[:1] == b"0", "a slice in flight outlives its file"
    queue = store.queues.get_or_create("orders", 0)
    queue.correct_min(store.min_physical_offset)
    late = store.get("orders", 0, 0, 1)
    assert (late.status, late.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 4)
    store.close()


@given(
    sizes=st.lists(st.sampled_from([0, 10, 900]), min_size=1, max_size=40).map(lambda sizes: sizes * 4),
    queues=st.integers(1, 3),
    start=st.integers(0, 12),
    count=st.integers(1, 160),
    max_bytes=st.sampled_from([None, 1, 1500, 100_000]),
)
@settings(max_examples=100, deadline=None)
def test_reading_without_a_filter_finds_what_one_that_lets_everything_pass_finds(
    sizes: list[int], queues: int, start: int, count: int, max_bytes: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        for number, size in enumerate(sizes):
            put(store, queue_id=number % queues, body=b"x" * size, properties={"TAGS": "ab"[number % 3 == 0]})
        plain = store.get("orders", 0, start, count, max_bytes=max_bytes)
        filtered = store.get("orders", 0, start, count, max_bytes=max_bytes, tag_filter=lambda _: True)
        assert plain == filtered
        by_code = store.get("orders", 0, start, count, max_bytes=max_bytes, tag_filter=TagCodes([tags_code("a")]))
        closely = store.get(
            "orders", 0, start, count, max_bytes=max_bytes, tag_filter=lambda code: code == tags_code("a")
        )
        assert by_code == closely
        unsliced = store.get("orders", 0, start, count, max_bytes=max_bytes, sliced=False)
        if unsliced.count:
            frame = store.framed(b"head", unsliced)
            joined = frame if isinstance(frame, bytes) else b"".join(frame)
            assert joined == b"".join([b"head", *plain.chunks])
        store.close()


def test_entries_that_were_read_ahead_are_not_used_when_the_queue_is_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(600):
        put(store)
    queue = store.queues.get("orders", 0)
    assert queue is not None
    assert store.get("orders", 0, 10, 5).queue_offsets == [10, 11, 12, 13, 14]
    queue.cut_to(12)
    assert store.get("orders", 0, 10, 5).queue_offsets == [10, 11]
    queue.reserve_to(14)
    assert store.get("orders", 0, 10, 5).queue_offsets == [10, 11]
    store.close()


def test_few_queues_keep_what_they_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_READING", 2)
    store = open_store(tmp_path)
    for queue_id in range(4):
        for _ in range(300):
            put(store, queue_id=queue_id)
    for _ in range(2):
        for queue_id in range(4):
            assert store.get("orders", queue_id, 3, 2).queue_offsets == [3, 4]
    kept = [queue for number in range(4) if (queue := store.queues.get("orders", number)) and queue._files.ahead]
    assert len(kept) == 2
    store.close()


def test_an_entry_for_what_lies_in_two_files_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=4096)
    for _ in range(40):
        put(store)
    queue = store.queues.get("orders", 0)
    assert queue is not None
    queue.append(40, store.commit_log.max_offset - 4096, 200, 0)
    queue.append(41, store.commit_log.max_offset - 300, 4000, 0)
    for chosen in (None, lambda _: True):
        result = store.get("orders", 0, 38, 8, tag_filter=chosen)
        assert sum(map(len, result.chunks)) == result.size
    store.close()
