"""Stores read from their files: the same messages that the store itself gives. # SP-12"""

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.errors import ReadError
from pyromq.spark.errors import OptionError
from pyromq.spark.log.options import LogOptions
from pyromq.spark.log.reader import LogPartition, LogReader
from pyromq.spark.log.storefiles import StoreFiles
from pyromq.spark.options import read_options
from pyromq.spark.task.rowplan import row_shape
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import Clock, log_file, open_store, put

NAMES = ("topic", "queueId", "queueOffset", "body", "tags", "storeTimestamp", "commitLogOffset")


def read(root: Path, *names: str, **options: str) -> list[dict[str, Any]]:
    """All rows, through the same calls that Spark makes."""
    chosen = names or NAMES
    parsed = read_options(LogOptions, {"path": str(root)} | options, {})
    schema = pa.schema([(name, COLUMNS[name]) for name in chosen])
    shape = row_shape(parsed, schema, tags=parsed.wanted_tags, corrupt=parsed.corrupt_records)
    reader = LogReader(parsed, shape)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Thirty log files: 300 messages of two topics in three queues each, one every second."""
    clock = Clock()
    store = open_store(tmp_path / "store", clock)
    for number in range(300):
        clock.now += 1000
        topic = "orders" if number % 3 else "bills"
        put(store, topic, number % 2, b"x" * (number % 200) + b"%d" % number, {"TAGS": "ab"[number % 2], "n": "1"})
    put(store, "SCHEDULE_TOPIC_XXXX", 0, b"hidden")
    return store


def expected(store: MessageStore, topic: str) -> list[tuple[int, int, bytes]]:
    found = []
    for queue in range(2):
        offset = 0
        while (result := store.get(topic, queue, offset, 32)).count:
            found += [(m.queue_id, m.queue_offset, m.body) for m in result.messages()]
            offset = result.next_offset
    return found


def seen(rows: list[dict[str, Any]]) -> list[tuple[int, int, bytes]]:
    """Queue by queue, each in the order in which its rows came."""
    found = [(row["queueId"], row["queueOffset"], row["body"]) for row in rows]
    return sorted(found, key=lambda row: row[0])


def test_queues_of_a_stopped_store(store: MessageStore) -> None:
    wanted = expected(store, "orders")
    store.close()
    root = store.config.store_path_root_dir
    assert seen(read(root, topic="orders")) == wanted
    assert len(wanted) == 200
    assert seen(read(root, topic="orders", useConsumeQueue="false")) == wanted


def test_a_live_store_shows_what_its_queues_have_written(store: MessageStore) -> None:
    root = store.config.store_path_root_dir
    store.queues.flush(True)
    wanted = expected(store, "orders")
    assert seen(read(root, topic="orders")) == wanted
    put(store, "orders", 0, b"not in the queue's file yet")
    assert seen(read(root, topic="orders")) == wanted
    assert len(read(root, topic="orders", useConsumeQueue="false")) == len(wanted) + 1
    store.close()


def test_everything_in_the_order_of_the_log(store: MessageStore) -> None:
    store.close()
    rows = read(store.config.store_path_root_dir)
    assert len(rows) == 300
    assert [row["commitLogOffset"] for row in rows] == sorted(row["commitLogOffset"] for row in rows)
    assert {row["topic"] for row in rows} == {"orders", "bills"}
    assert [row["body"] for row in read(store.config.store_path_root_dir, topic="SCHEDULE_TOPIC_XXXX")] == [b"hidden"]
    pattern = read(store.config.store_path_root_dir, "topic", topicsPattern="b.*")
    assert [row["topic"] for row in pattern] == ["bills"] * 100


def tasks(root: Path, **options: str) -> list[int]:
    """Messages of each task."""
    parsed = read_options(LogOptions, {"path": str(root), "topic": "orders"} | options, {})
    shape = row_shape(parsed, pa.schema([("body", pa.binary())]))
    parts = LogReader(parsed, shape).partitions()
    return [sum(each.messages for each in part.ranges) for part in parts if isinstance(part, LogPartition)]


def test_large_messages_are_spread_over_tasks_by_their_bytes(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=8 << 20, allocate_step_commit_log=8 << 20)
    for number in range(40):
        put(store, "orders", number % 2, b"x" * 100_000)
    store.close()
    assert len(tasks(tmp_path, maxBytesPerPartition=str(1 << 20))) == 4
    assert len(tasks(tmp_path)) == 1  # too few messages to be worth more
    nothing = '{"orders":{"":{"0":99,"1":99}}}'  # beyond the end
    assert tasks(tmp_path, startingOffsets=nothing) == []
    part = tasks(tmp_path, startingOffsets='{"orders":{"":{"0":99,"1":10}}}', maxBytesPerPartition=str(1 << 20))
    assert part == [10]


def test_stores_of_several_brokers(tmp_path: Path) -> None:
    wanted = []
    for broker, count in (("a", 7), ("b", 4)):
        store = open_store(tmp_path / broker)
        for number in range(count):
            put(store, "orders", number % 2, f"{broker}{number}".encode())
            wanted.append((broker, number % 2, number // 2, f"{broker}{number}".encode()))
        store.close()
    names = ("brokerName", "queueId", "queueOffset", "body")
    rows = read(tmp_path, *names, path=f"a={tmp_path / 'a'},b={tmp_path / 'b'}", topic="orders")
    assert [tuple(row[name] for name in names) for row in rows] == wanted


def test_times_tags_and_offsets(store: MessageStore) -> None:
    store.close()
    root = store.config.store_path_root_dir
    times = [row["storeTimestamp"] for row in read(root, topic="orders")]
    middle = sorted(times)[100]
    millis = str(int(middle.timestamp() * 1000))
    late = read(root, topic="orders", startingTimestamp=millis)
    assert sorted(row["storeTimestamp"] for row in late) == sorted(times)[100:]
    early = read(root, topic="orders", endingTimestamp=millis)
    assert sorted(row["storeTimestamp"] for row in early) == sorted(times)[:100]
    tagged = read(root, topic="orders", subExpression="a")
    assert {row["tags"] for row in tagged} == {"a"}
    assert len(tagged) == sum(row["tags"] == "a" for row in read(root, topic="orders"))
    part = read(
        root,
        topic="orders",
        startingOffsets='{"orders":{"":{"0":10,"1":-1}}}',
        endingOffsets='{"orders":{"":{"0":12}}}',
    )
    assert [(row["queueId"], row["queueOffset"]) for row in part] == [(0, 10), (0, 11)]


def test_a_stretch_may_begin_anywhere(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=8 << 20, allocate_step_commit_log=8 << 20)
    # Bodies that look like records themselves, and ones full of magic numbers.
    put(store, "orders", 0, b"first")
    record = log_file(tmp_path / "store").read_bytes()[:200]
    for number in range(900):
        put(store, "orders", 0, [record, b"\xda\xa3\x20\xa7" * 500, b"y" * 9000][number % 3])
    wanted = [body for _, _, body in expected(store, "orders")]
    store.close()
    whole = read(tmp_path / "store", useConsumeQueue="false", maxBytesPerPartition=str(8 << 20))
    parts = read(tmp_path / "store", useConsumeQueue="false", maxBytesPerPartition=str(1 << 20))
    assert [row["body"] for row in whole] == wanted
    assert [row["body"] for row in parts] == wanted


def test_damage_fails_or_is_passed_over(store: MessageStore) -> None:
    store.close()
    root = store.config.store_path_root_dir
    victim = next(row for row in read(root) if row["commitLogOffset"] > 9000)
    start = victim["commitLogOffset"] // 4096 * 4096
    file = log_file(root, start)
    data = bytearray(file.read_bytes())
    data[victim["commitLogOffset"] - start + 4] ^= 0xFF
    file.write_bytes(data)
    for options in ({"topic": victim["topic"]}, {}):
        with pytest.raises(ReadError, match="record"):
            read(root, **options)
    skipped = read(root, corruptRecords="skip")
    assert len(skipped) == 299
    assert victim["body"] not in [row["body"] for row in skipped]
    assert (
        len(read(root, topic=victim["topic"], corruptRecords="skip")) == {"orders": 199, "bills": 99}[victim["topic"]]
    )


def test_old_files_that_are_gone(store: MessageStore) -> None:
    store.close()
    root = store.config.store_path_root_dir
    log_file(root).unlink()
    rows = read(root, topic="orders")
    assert 0 < len(rows) < 200
    assert min(row["commitLogOffset"] for row in rows) >= 4096


def test_stores_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no store directory"):
        StoreFiles(tmp_path)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "dledger-n0").mkdir()
    with pytest.raises(OptionError, match="DLedger"):
        StoreFiles(tmp_path)
    (tmp_path / "dledger-n0").rmdir()
    (tmp_path / "batchconsumequeue" / "b").mkdir(parents=True)
    with pytest.raises(OptionError, match="batches"):
        list(StoreFiles(tmp_path).queues("b"))
    (tmp_path / "commitlog" / "notes.txt").write_text("x")
    with pytest.raises(OptionError, match="no file of a store"):
        StoreFiles(tmp_path).log_files()
    for options in ({"filterType": "SQL92"}, {"startingOffsets": "latest"}, {"startingTimestamp": "1"}):
        with pytest.raises(OptionError):
            read_options(LogOptions, {"path": "x"} | options, {})
    with pytest.raises(OptionError, match="path is missing"):
        read_options(LogOptions, {}, {})
