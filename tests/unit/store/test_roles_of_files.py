"""What each kind of file is for: the log holds messages, queues find them by offset, the index finds them by key."""

import struct
from pathlib import Path

import pytest

from pyromq.protocol.records.record import check_record
from pyromq.store.arrival import Arrival
from tests.unit.store.storage import bodies, open_store, put

ENTRY = struct.Struct(">qiq")
INDEX_HEADER = struct.Struct(">qqqqii")


def test_a_put_in_the_middle_of_a_put_does_not_mix_with_it(tmp_path: Path) -> None:
    # S-08: one writer at a time, also when a listener writes while its message is being dispatched
    store = open_store(tmp_path)

    def echo(arrived: Arrival) -> None:
        if arrived.topic == "orders":
            put(store, "echoes", 0, b"echo")

    store.add_listener(echo)
    for n in range(20):
        put(store, "orders", 0, b"%d" % n)
        store.flush()
    store.flush()
    assert bodies(store, "orders", 0) == [b"%d" % n for n in range(20)]
    assert bodies(store, "echoes", 0) == [b"echo"] * 20
    offset, end = 0, store.max_physical_offset
    log = store.read_raw(0, end)
    assert log is not None
    while offset < end:
        record = check_record(log, offset, end, verify_crc=True)
        assert getattr(record, "physical_offset", offset) == offset
        offset += record.size
    store.close()


def test_reading_a_queue_touches_only_its_own_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # S-10: the queue says where its messages are, nobody looks for them in the log
    store = open_store(tmp_path)
    for n in range(300):
        put(store, "busy", 0, b"%d" % n)
        if n % 100 == 50:
            put(store, "rare", 0, b"rare %d" % n)
    store.flush()
    read, touched = store.commit_log.read, list[tuple[int, int]]()

    def noted(offset: int, size: int) -> memoryview | None:
        touched.append((offset, size))
        return read(offset, size)

    monkeypatch.setattr(store.commit_log, "read", noted)
    found = store.get("rare", 0, 0, 32)
    assert found.count == 3
    assert sum(size for _, size in set(touched)) == found.size
    store.close()


def test_queues_and_index_are_two_kinds_of_files(tmp_path: Path) -> None:
    # S-16: 20 bytes an entry by queue and offset in one, a header of 40 bytes and hash slots by key in the other
    store = open_store(tmp_path)
    result = put(store, "orders", 2, b"x", {"KEYS": "k1", "TAGS": "TagA"})
    store.close()
    (queue,) = (tmp_path / "consumequeue" / "orders" / "2").iterdir()
    assert queue.name == "0" * 20
    assert ENTRY.unpack_from(queue.read_bytes()) == (result.physical_offset, result.size, 2598919)
    (index,) = (tmp_path / "index").iterdir()
    assert len(index.name) == 17
    begin, end, first, last, slots, count = INDEX_HEADER.unpack_from(index.read_bytes())
    assert (begin, end) == (result.store_timestamp, result.store_timestamp)
    assert (first, last, slots, count) == (result.physical_offset, result.physical_offset, 1, 2)
