"""S-11, S-14, S-15: messages by place, by key and by time, through the store."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyromq.store.queue.offsettime import Boundary
from tests.unit.store.storage import START, Clock, bodies, open_store, put


def test_message_by_place(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    results = [put(store, body=b"%d" % n) for n in range(3)]
    found = store.lookup.message_at(results[1].physical_offset)
    assert found is not None
    assert (found.body, found.queue_offset) == (b"1", 1)
    record = store.lookup.record_at(results[2].physical_offset, results[2].size)
    assert record is not None
    assert len(record) == results[2].size
    for nowhere in (1, -1, results[1].physical_offset + 1, store.max_physical_offset, 1 << 50):
        assert store.lookup.record_at(nowhere) is None
        assert store.lookup.message_at(nowhere) is None
    store.close()


def test_by_key_and_unique_key_within_a_time(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    for n in range(6):
        last = put(
            store, body=b"%d" % n, properties={"KEYS": f"even odd{n} all" if n % 2 else "all", "UNIQ_KEY": f"u{n}"}
        )
        clock.now += 10_000
    ever = 0, START + 10**9

    def found(key: str, limit: int = 9, begin: int = ever[0], end: int = ever[1], topic: str = "orders") -> list[bytes]:
        return [m.body for m in store.lookup.by_key(topic, key, limit, begin, end).messages()]

    assert found("all") == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert found("all", 2) == [b"4", b"5"], "the newest ones"
    assert found("odd3") == [b"3"]
    assert found("u4") == [b"4"]
    assert found("all", begin=START + 15_000, end=START + 35_000) == [b"2", b"3"]
    assert found("all", topic="other") == []
    assert found("eve") == []
    result = store.lookup.by_key("orders", "all", 9, *ever)
    assert (result.index_last_timestamp, result.index_last_offset) == (START + 50_000, last.physical_offset)
    store.close()


def test_time_range_of_a_query_is_exact(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    for n in range(10):  # four in a second, all of which the index holds for the same time
        put(store, body=b"%d" % n, properties={"KEYS": "k"})
        clock.now += 250
    for begin, end in ((0, 9), (1, 1), (2, 6), (3, 3), (5, 9)):
        found = store.lookup.by_key("orders", "k", 9 + 1, START + begin * 250, START + end * 250).messages()
        assert [m.body for m in found] == [b"%d" % n for n in range(begin, end + 1)]
    assert store.lookup.by_key("orders", "k", 9, START + 1, START + 249).records == []
    store.close()


def test_key_with_the_same_hash_is_not_returned(tmp_path: Path) -> None:
    # S-14: "Aa" and "BB" have one Java hash
    store = open_store(tmp_path)
    put(store, body=b"1", properties={"KEYS": "Aa"})
    put(store, body=b"2", properties={"KEYS": "BB"})
    assert [m.body for m in store.lookup.by_key("orders", "Aa", 9, 0, START + 1).messages()] == [b"1"]
    store.close()


def test_without_index_nothing_is_found(tmp_path: Path) -> None:
    store = open_store(tmp_path, message_index_enable=False)
    put(store, properties={"KEYS": "k"})
    assert store.lookup.by_key("orders", "k", 9, 0, START + 1).records == []
    store.close()
    assert not (tmp_path / "index").exists()


def test_offset_by_time(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    for time in (10, 20, 20, 30):
        clock.now = START + time
        put(store)

    def at(time: int, boundary: Boundary) -> int:
        return store.lookup.offset_by_time("orders", 0, START + time, boundary)

    assert [at(t, Boundary.LOWER) for t in (5, 10, 15, 20, 25, 30, 35)] == [0, 0, 1, 1, 3, 3, 4]
    assert [at(t, Boundary.UPPER) for t in (5, 10, 15, 20, 25, 30, 35)] == [0, 0, 0, 2, 2, 3, 3]
    assert store.lookup.offset_by_time("nothing", 0, START) == 0
    store.close()


def test_store_times(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    assert store.lookup.earliest_time() == -1
    put(store)
    clock.now += 5
    put(store, "bills")
    put(store)
    assert store.lookup.earliest_time() == START
    assert store.lookup.earliest_time("bills") == START + 5
    assert store.lookup.store_time("orders", 0, 1) == START + 5
    assert store.lookup.store_time("orders", 0, 2) == -1
    assert store.lookup.earliest_time("nothing") == -1
    store.close()


def test_topics_and_queues(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for topic, queue_id in (("orders", 3), ("orders", 0), ("bills", 1), ("SCHEDULE_TOPIC_XXXX", 0)):
        put(store, topic, queue_id)
    assert store.queues.topics() == ["SCHEDULE_TOPIC_XXXX", "bills", "orders"]
    assert store.queues.queue_ids("orders") == [0, 3]
    assert (store.min_offset("orders", 3), store.max_offset("orders", 3)) == (0, 1)
    assert (store.min_offset("x", 3), store.max_offset("x", 3), store.max_offset("x", 3, committed=False)) == (0, 0, 0)
    assert store.delete_unused_topics(["orders"]) == ["bills"]
    assert store.queues.topics() == ["SCHEDULE_TOPIC_XXXX", "orders"]
    assert not (tmp_path / "consumequeue" / "bills").exists()
    store.close()


@pytest.mark.parametrize("hour", [3, 4])
def test_retention_by_age_at_the_hour(tmp_path: Path, hour: int) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    for n in range(9):
        put(store, body=b"%d" % n + b"x" * 900)
    held = store.get("orders", 0, 0, 1)
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (START / 1000, START / 1000))
    at = datetime.fromtimestamp(START / 1000, UTC).astimezone().replace(hour=hour, minute=1)
    clock.now = int(at.timestamp() * 1000) + 5 * 86_400_000
    store.tick()
    assert store.min_offset("orders", 0) == (8 if hour == 4 else 0)
    assert store.min_physical_offset == (8192 if hour == 4 else 0)
    assert held.messages()[0].body[:1] == b"0"
    store.close()
    again = open_store(tmp_path, clock)
    assert bodies(again)[-1][:1] == b"8"
    again.close()
