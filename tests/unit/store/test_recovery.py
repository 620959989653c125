"""Opening a store that was left in any state: nothing flushed is lost, nothing is twice, appending goes on."""

import logging
import os
import shutil
import struct
from pathlib import Path

import pytest

from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.errors import StoreError, StoreFormatError
from pyromq.store.messagestore import MessageStore
from pyromq.store.save.manifest import FILE_NAME, Manifest
from tests.unit.store.storage import START, Clock, bodies, crash_copy, log_file, open_store, put, small_config


def filled(root: Path, count: int = 30, **changes: object) -> MessageStore:
    clock = Clock()
    store = open_store(root, clock, **changes)
    for n in range(count):
        clock.now += 1000
        put(store, "orders", n % 2, b"%d" % n + b"x" * 100, {"KEYS": f"k{n}", "TAGS": "t"})
    return store


def expected(count: int, queue_id: int) -> list[bytes]:
    return [b"%d" % n + b"x" * 100 for n in range(count) if n % 2 == queue_id]


def check_whole(store: MessageStore, count: int = 30) -> None:
    for queue_id in (0, 1):
        assert bodies(store, "orders", queue_id) == expected(count, queue_id)
    for n in range(count):
        assert len(store.lookup.by_key("orders", f"k{n}", 9, 0, START + 10**9).records) == 1, f"k{n}"
    next_offset = len(expected(count, 0))
    assert put(store, body=b"more").queue_offset == next_offset
    assert bodies(store) == [*expected(count, 0), b"more"]


def dirty(root: Path, target: Path, count: int = 30) -> Path:
    """A copy of a store that was killed without any chance to save."""
    store = filled(root, count)
    store.flush()
    crash_copy(store, target)
    store.close()
    return target


def settle(store: MessageStore) -> None:
    """Until the store's worker has nothing to do."""
    store._worker.submit(int).result()


def test_orderly_stop_needs_no_repair(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path).close()
    assert not (tmp_path / "abort").exists()
    with caplog.at_level(logging.INFO):
        store = open_store(tmp_path)
    assert caplog.text == ""
    check_whole(store)
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    store.close()


def test_killed_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b")
    store = open_store(root)
    assert caplog.text.count("not stopped in order") == 1
    assert "30 queue entries were missing" in caplog.text
    check_whole(store)
    store.close()


def test_queue_in_memory_is_not_lost_with_it(tmp_path: Path) -> None:
    store = filled(tmp_path / "a", 20)
    store._upkeep.save()
    for n in range(20, 30):
        put(store, "orders", n % 2, b"%d" % n + b"x" * 100, {"KEYS": f"k{n}"})
    root = crash_copy(store, tmp_path / "b")
    store.close()
    manifest = Manifest.read(root)
    assert manifest is not None
    assert manifest.queues == {"orders": {0: (0, 10), 1: (0, 10)}}
    again = open_store(root)
    check_whole(again)
    again.close()


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/orders/1", "index", "checkpoint", FILE_NAME])
def test_anything_but_the_log_can_be_lost(tmp_path: Path, stop: str, lost: str) -> None:
    store = filled(tmp_path / "a")
    store._upkeep.save()
    root = crash_copy(store, tmp_path / "b")
    store.close()
    if stop == "clean":
        root = tmp_path / "a"
    victim = root / lost
    if victim.is_dir():
        shutil.rmtree(victim)
    else:
        victim.unlink()
    again = open_store(root, message_index_safe=True)
    for queue_id in (0, 1):
        assert bodies(again, "orders", queue_id) == expected(30, queue_id)
    assert put(again, body=b"more").queue_offset == 15
    again.close()


@pytest.mark.parametrize("cut", [17, 60, 91, 150, 212, 213])
def test_torn_last_record_is_removed(tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b", 4)
    data = bytearray(log_file(root).read_bytes())
    end = len(data.rstrip(b"\0"))
    data[end - cut : end] = bytes(cut)
    log_file(root).write_bytes(data)
    store = open_store(root)
    assert bodies(store, "orders", 1) == expected(3, 1)
    assert bodies(store) == expected(4, 0)
    assert ("an incomplete end was removed" in caplog.text) == (cut < 212)
    assert put(store, "orders", 1).queue_offset == 1
    store.close()
    check = open_store(root)
    assert bodies(check, "orders", 1) == [*expected(3, 1), b"hello"]
    check.close()


def test_garbage_and_stale_records_behind_the_end_are_zeroed(tmp_path: Path) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b", 4)
    data = bytearray(log_file(root).read_bytes())
    end = len(data.rstrip(b"\0"))
    size = end // 4
    data[end : end + 20] = b"\xff" * 20
    data[end + size : end + 2 * size] = data[:size]
    log_file(root).write_bytes(data)
    store = open_store(root)
    assert store.max_physical_offset == end
    store.close()
    assert log_file(root).read_bytes()[end:] == bytes(4096 - end)


def test_record_of_another_place_is_not_believed(tmp_path: Path) -> None:
    # a stale copy of the first record right behind the end is well formed, but says where it belongs
    root = dirty(tmp_path / "a", tmp_path / "b", 4)
    data = bytearray(log_file(root).read_bytes())
    end = len(data.rstrip(b"\0"))
    data[end : end + end // 4] = data[: end // 4]
    log_file(root).write_bytes(data)
    store = open_store(root)
    assert store.max_physical_offset == end
    check_whole(store, 4)
    store.close()


def test_queues_ahead_of_the_log_are_cut(tmp_path: Path) -> None:
    store = filled(tmp_path / "a")
    store.close()
    (tmp_path / "a" / "abort").touch()
    (tmp_path / "a" / FILE_NAME).unlink()
    shutil.rmtree(tmp_path / "a" / "index")
    last = max((tmp_path / "a" / "commitlog").iterdir())
    last.write_bytes(bytes(4096))
    kept = int(last.name)
    again = open_store(tmp_path / "a")
    assert again.max_physical_offset == kept
    whole = sorted(bodies(again) + bodies(again, "orders", 1))
    assert whole == sorted(b"%d" % n + b"x" * 100 for n in range(len(whole)))
    assert put(again, body=b"more").physical_offset == kept
    assert bodies(again)[-1] == b"more"
    again.close()


def test_index_ahead_of_the_log_is_cut(tmp_path: Path) -> None:
    store = filled(tmp_path / "a")
    store.close()
    (tmp_path / "a" / "abort").touch()
    (tmp_path / "a" / FILE_NAME).unlink()
    last = max((tmp_path / "a" / "commitlog").iterdir())
    last.write_bytes(bytes(4096))
    again = open_store(tmp_path / "a")
    put(again, properties={"KEYS": "fresh"})
    assert len(again.lookup.by_key("orders", "fresh", 9, 0, START + 10**9).records) == 1
    again.close()


def test_garbage_at_the_end_of_a_queue(tmp_path: Path) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b")
    store = filled(tmp_path / "c")
    store.close()
    shutil.copytree(tmp_path / "c" / "consumequeue", root / "consumequeue", dirs_exist_ok=True)
    path = root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[10 * 20 : 11 * 20] = struct.pack(">qiq", 1 << 40, 77, 0)
    data[11 * 20 :] = bytes(len(data) - 11 * 20)
    path.write_bytes(data)
    again = open_store(root)
    check_whole(again)
    again.close()


@pytest.mark.parametrize("shift", [10**9, -(10**9)])
def test_checkpoint_that_lies(tmp_path: Path, shift: int) -> None:
    store = filled(tmp_path / "a")
    store.close()
    root = tmp_path / "a"
    (root / "abort").touch()
    (root / FILE_NAME).unlink()
    lie = START + shift
    (root / "checkpoint").write_bytes(struct.pack(">5q", lie, lie, lie, 0, 0).ljust(4096, b"\0"))
    shutil.rmtree(root / "consumequeue" / "orders" / "1")
    again = open_store(root)
    check_whole(again)
    again.close()


def test_checkpoint_of_the_time_of_the_crash_chooses_the_file(tmp_path: Path) -> None:
    store = filled(tmp_path)
    files = [file.start for file in store.commit_log.files]
    assert len(files) >= 2
    store.close()
    (tmp_path / "abort").touch()
    (tmp_path / FILE_NAME).unlink()
    time = START + 40_000
    (tmp_path / "checkpoint").write_bytes(struct.pack(">5q", time, time, 0, 0, 0).ljust(4096, b"\0"))
    # damage far before the start is not looked at, so it costs nothing
    data = bytearray(log_file(tmp_path).read_bytes())
    data[200] ^= 1
    log_file(tmp_path).write_bytes(data)
    again = open_store(tmp_path)
    assert again.max_offset("orders", 0) == 15
    again.close()


def test_empty_log_beside_queues_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).close()
    shutil.rmtree(tmp_path / "commitlog")
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    with pytest.raises(StoreFormatError, match="no commit log"):
        open_store(tmp_path)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*") if path.name != "lock"} == {
        path: size for path, size in before.items() if path.name != "lock"
    }


@pytest.mark.parametrize("name", ["notes.txt", "00000000000000008192"])
def test_stray_files_in_the_log_are_refused(tmp_path: Path, name: str) -> None:
    filled(tmp_path).close()
    (tmp_path / "commitlog" / name).write_bytes(b"stray")
    with pytest.raises(StoreFormatError):
        open_store(tmp_path)


def test_other_file_size_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).close()
    with pytest.raises(StoreFormatError, match="another file size"):
        open_store(tmp_path, mapped_file_size_commit_log=8192)


@pytest.mark.parametrize(
    "name", ["config/rdb/LOG", "consumequeue_rocksdb/x", "dledger-n0/data/0", "batchconsumequeue/t/0/0"]
)
def test_stores_of_other_kinds_are_refused(tmp_path: Path, name: str) -> None:
    filled(tmp_path).close()
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(StoreFormatError, match="cannot be opened"):
        open_store(tmp_path)


@pytest.mark.parametrize("name", ["000008.sst", "000004.log"])
def test_database_beside_the_store_is_refused_only_when_used(tmp_path: Path, name: str) -> None:
    filled(tmp_path).close()
    database = tmp_path / "rocksdbstore"
    database.mkdir()
    for other in ("CURRENT", "MANIFEST-000005", "OPTIONS-000009"):
        (database / other).write_text("what Apache's 5.5 leaves in any case")
    (database / "000004.log").touch()
    store = open_store(tmp_path)
    check_whole(store)
    store.close()
    (database / name).write_bytes(b"a record")
    with pytest.raises(StoreFormatError, match="in RocksDB"):
        open_store(tmp_path)


def test_file_that_was_just_created(tmp_path: Path) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b", 4)
    log_file(root, 4096).touch()
    store = open_store(root)
    check_whole(store, 4)
    store.close()


def test_file_of_zeros_after_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = dirty(tmp_path / "a", tmp_path / "b", 4)
    log_file(root, 4096).write_bytes(bytes(4096))
    store = open_store(root)
    assert "1 files behind the end were removed" in caplog.text
    check_whole(store, 4)
    store.close()


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be created"):
        open_store(tmp_path / "file" / "store")


def test_delayed_messages_keep_their_time(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path / "a", clock)
    put(store, SCHEDULE_TOPIC, 2, properties={"DELAY": "3"})
    store.flush()
    root = crash_copy(store, tmp_path / "b")
    store.close()
    again = open_store(root, Clock(START + 999_999))
    entry = again.queues.get_or_create(SCHEDULE_TOPIC, 2).entry(0)
    assert entry is not None
    assert entry[2] == START + 10_000
    again.close()


def test_deleted_topic_begins_at_zero_and_stays_deleted(tmp_path: Path) -> None:
    store = filled(tmp_path / "a")
    assert store.delete_topic("orders") == 2
    assert store.queues.topics() == []
    settle(store)
    store.tick()
    settle(store)  # now the manifest has been written
    assert put(store, body=b"anew").queue_offset == 0
    store.flush()
    root = crash_copy(store, tmp_path / "b")
    store.close()
    again = open_store(root)
    assert again.queues.queue_ids("orders") == [0]
    assert bodies(again) == [b"anew"]
    again.close()


def test_manifest_that_is_damaged_is_ignored(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:-3])
    assert Manifest.read(tmp_path) is None
    (tmp_path / "abort").touch()
    store = open_store(tmp_path)
    check_whole(store)
    store.close()


def test_a_grown_log_is_saved_before_its_time(tmp_path: Path) -> None:
    store = filled(tmp_path, 5, save_interval_bytes=2000)
    settle(store)
    store.tick()
    settle(store)
    before = Manifest.read(tmp_path)
    for _ in range(20):
        put(store)
    store.tick()
    settle(store)
    after = Manifest.read(tmp_path)
    assert before is not None
    assert after is not None
    assert before.offset < after.offset == store.max_physical_offset
    store.close()


def test_small_config_is_small(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="multiple of 20"):
        small_config(tmp_path, mapped_file_size_consume_queue=30)
