"""All queues of a store together: finding, flushing, few open files, names that are no directories."""

from pathlib import Path

import pytest

from pyromq import disk
from pyromq.store.config import StoreConfig
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.queue import files as queuefiles
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.space import write_at


def make(path: Path, *, open_files: int = 8) -> ConsumeQueues:
    config = StoreConfig(store_path_root_dir=path, mapped_file_size_consume_queue=200, max_open_queue_files=open_files)
    return ConsumeQueues(config.consume_queue_dir, config)


def reopen(path: Path) -> ConsumeQueues:
    queues = make(path)
    queues.load()
    return queues


def test_queues_are_found_again(tmp_path: Path) -> None:
    queues = make(tmp_path)
    for n, (topic, queue_id) in enumerate([("%RETRY%g", 0), ("T", 0), ("T", 11), ("订单", 3)]):
        queues.get_or_create(topic, queue_id).append(0, n * 100, 100, n)
    assert queues.max_physical_offset == 400
    queues.close()
    (tmp_path / "consumequeue" / "T" / "notes").mkdir()
    (tmp_path / "consumequeue" / "T" / "011").mkdir()
    again = reopen(tmp_path)
    assert again.whole
    assert again.topics() == ["%RETRY%g", "T", "订单"]
    assert again.queue_ids("T") == [0, 11]
    assert len(again) == 4
    queue = again.get("T", 11)
    assert queue is not None
    assert queue.entry(0) == (200, 100, 2)
    assert again.get("T", 1) is None
    again.close()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../etc", "a\0b", "x" * 256, "\ud800"])
def test_a_topic_that_is_no_directory_name_is_refused(tmp_path: Path, topic: str) -> None:
    queues = make(tmp_path)
    with pytest.raises(StoreFormatError, match="there can be no queue"):
        queues.get_or_create(topic, 0)
    assert queues.delete(topic) == 0


def test_negative_queue_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFormatError):
        make(tmp_path).get_or_create("T", -1)


def test_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    queues = make(tmp_path, open_files=5)
    for round_ in range(3):
        for queue_id in range(60):
            queues.get_or_create("T", queue_id).append(round_, (round_ * 60 + queue_id) * 100, 100, 0)
        queues.flush()
        assert queues.open_files <= 5
    for queue_id in range(60):
        queue = queues.get_or_create("T", queue_id)
        assert queue.entries(0, 3) != b""
    assert queues.open_files <= 5
    queues.close()
    assert queues.open_files == 0
    assert all(queue.max_offset == 3 for queue in reopen(tmp_path))


def test_flush_that_is_not_thorough_waits_for_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("pyromq.store.queue.table.sync_files", synced.extend)
    queues = make(tmp_path)
    few, many = queues.get_or_create("few", 0), queues.get_or_create("many", 0)
    few.append(0, 0, 100, 0)
    for n in range(500):
        many.append(n, 100 + n * 100, 100, 0)
    queues.flush(thorough=False)
    assert {Path(path).parent.parent.name for path in synced} == {"many"}
    synced.clear()
    queues.flush(thorough=True)
    assert {Path(path).parent.parent.name for path in synced} == {"few"}
    synced.clear()
    queues.flush(thorough=True)
    assert synced == [], "what is on disk is not synced again"


def test_a_sync_that_failed_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = make(tmp_path)
    queues.get_or_create("T", 0).append(0, 0, 100, 0)
    calls = []

    def failing(fd: int) -> None:
        calls.append(fd)
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", failing)
        with pytest.raises(OSError, match="I/O error"):
            queues.flush()
    queues.flush()
    assert calls
    assert reopen(tmp_path).get("T", 0) is not None


def test_many_files_are_synced_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queuefiles, "_MANY", 3)
    whole: list[int] = []
    real = disk.sync_file_system

    def noting(fd: int) -> None:
        whole.append(fd)
        real(fd)

    monkeypatch.setattr(disk, "sync_file_system", noting)
    queues = make(tmp_path)
    for queue_id in range(5):
        queues.get_or_create("T", queue_id).append(0, queue_id * 100, 100, 0)
    queues.flush()
    assert len(whole) == 1


def test_full_disk_while_preparing_keeps_all_to_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = make(tmp_path)
    for queue_id in range(3):
        queues.get_or_create("T", queue_id).append(0, queue_id * 100, 100, 0)

    def full_for_the_last(fd: int, data: bytes, position: int, path: str) -> None:
        if Path(path).parent.name == "2":
            raise DiskFullError("no space left")
        write_at(fd, data, position, path)

    with monkeypatch.context() as patch:
        patch.setattr(queuefiles, "write_at", full_for_the_last)
        with pytest.raises(DiskFullError):
            queues.flush()
    synced: list[str] = []
    monkeypatch.setattr("pyromq.store.queue.table.sync_files", synced.extend)
    queues.flush()
    assert len(synced) == 3


def test_truncation_minimum_and_deletion_reach_all_queues(tmp_path: Path) -> None:
    queues = make(tmp_path)
    for n in range(100):
        queues.get_or_create("T", n % 4).append(n // 4, n * 100, 100, 0)
    queues.flush()
    assert queues.truncate_to(9_000) == 4
    assert queues.max_physical_offset == 9_000
    queues.correct_min(2_000)
    assert [queue.min_offset for queue in queues] == [5, 5, 5, 5]
    assert queues.delete_before(4_000) == 4
    assert queues.delete("T", 2) == 1
    assert queues.queue_ids("T") == [0, 1, 3]
    assert queues.delete("T") == 3
    assert not (tmp_path / "consumequeue" / "T").exists()
    assert queues.delete("T") == 0


def test_damage_is_noticed(tmp_path: Path) -> None:
    queues = make(tmp_path)
    for n in range(25):
        queues.get_or_create("T", 0).append(n, n * 100, 100, 0)
    queues.close()
    (tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}").unlink()
    assert not reopen(tmp_path).whole


def test_a_flush_that_is_not_thorough_leaves_queues_with_little_in_memory(tmp_path: Path) -> None:
    queues = make(tmp_path)
    busy, idle = queues.get_or_create("T", 0), queues.get_or_create("T", 1)
    for number in range(500):
        busy.append(number, number * 10, 10, 0)
    idle.append(0, 5_000, 10, 0)
    queues.flush(thorough=False)
    assert (busy.unwritten, busy.unsynced) == (0, 0)
    assert idle.unwritten == 20
    assert not (tmp_path / "consumequeue" / "T" / "1").exists()
    queues.flush()
    assert idle.unwritten == 0
    queues.close()


def test_queues_are_written_in_turn(tmp_path: Path) -> None:
    queues = make(tmp_path)
    table = [queues.get_or_create("T", number) for number in range(5)]
    for number, queue in enumerate(table):
        queue.append(0, number * 10, 10, 0)
    queues.write_some(2)  # finds out who there is
    for expected in (3, 1, 0):
        queues.write_some(2)
        assert sum(queue.unwritten > 0 for queue in table) == expected
    queues.delete("T", 0)
    table[1].append(1, 100, 10, 0)
    for _ in range(4):
        queues.write_some(2)
    assert not table[1].unwritten
    assert not (tmp_path / "consumequeue" / "T" / "0").exists()
    queues.close()
