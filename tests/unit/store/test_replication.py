"""Raw bytes from a master to a slave: the same log, byte for byte, dispatched on arrival."""

from pathlib import Path

import pytest

from pyromq.store.arrival import Arrival, Arrived
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.errors import StoreError
from pyromq.store.log.put import PutStatus
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import START, bodies, crash_copy, log_file, message, open_store, put


def ship(master: MessageStore, slave: MessageStore, piece: int) -> None:
    """Everything the slave lacks, in pieces that know nothing of records."""
    while (data := master.read_raw(slave.max_physical_offset, piece)) is not None:
        slave.replica.append(slave.max_physical_offset, bytes(data))


@pytest.mark.parametrize("piece", [7, 100, 32_768])
def test_slave_has_the_same_log_and_queues(tmp_path: Path, piece: int) -> None:
    master = open_store(tmp_path / "m")
    slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    seen: list[Arrival] = []
    slave.add_listener(seen.append)
    for n in range(30):
        put(master, "orders", n % 3, b"%d" % n + b"x" * 300, {"KEYS": f"k{n}", "TAGS": "t"})
    ship(master, slave, piece)
    assert slave.max_physical_offset == master.max_physical_offset
    assert slave.progress.behind == 0
    for queue_id in range(3):
        assert bodies(slave, "orders", queue_id) == bodies(master, "orders", queue_id)
    assert len(slave.lookup.by_key("orders", "k17", 9, 0, START + 1).records) == 1
    assert [d.physical_offset for d in seen] == sorted({d.physical_offset for d in seen})
    assert len(seen) == 30
    assert slave.put(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    files = [file.start for file in master.commit_log.files]
    master.close()
    slave.close()
    for start in files:
        assert log_file(tmp_path / "s", start).read_bytes() == log_file(tmp_path / "m", start).read_bytes()
    again = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    assert len(bodies(again)) == 10
    again.role = BrokerRole.ASYNC_MASTER
    assert put(again).queue_offset == 10
    again.close()


def test_who_watches_a_slave_is_told_once_of_what_comes_together(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "m"), open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    watched: list[Arrived] = []
    slave.add_watcher(watched.append)
    for n in range(9):
        put(master, "orders", n % 3, b"%d" % n, {"TAGS": f"t{n}"})
    ship(master, slave, 1 << 20)
    (together,) = watched
    assert set(together.topics) == {"orders"}
    assert sorted(together.ends()) == [(("orders", queue_id), 3) for queue_id in range(3)]
    facts = [(each.queue_id, each.queue_offset, each.properties["TAGS"]) for each in together.arrivals()]
    assert facts == [(n % 3, n // 3, f"t{n}") for n in range(9)]
    master.close()
    slave.close()


def test_slave_may_begin_at_any_file(tmp_path: Path) -> None:
    master = open_store(tmp_path / "m")
    for n in range(9):
        put(master, body=b"%d" % n + b"x" * 900)
    slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    with pytest.raises(StoreError, match="not the start of a file"):
        slave.replica.append(100, b"x")
    data = master.read_raw(4096, 1 << 20)
    assert data is not None
    slave.replica.append(4096, data)
    ship(master, slave, 1 << 20)
    assert slave.min_physical_offset == 4096
    assert slave.min_offset("orders", 0) == 4
    assert [body[:1] for body in bodies(slave)] == [b"4", b"5", b"6", b"7", b"8"]
    master.close()
    slave.close()
    again = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    assert [body[:1] for body in bodies(again)] == [b"4", b"5", b"6", b"7", b"8"]
    again.close()


def test_bytes_must_follow(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    with pytest.raises(StoreError, match="only a slave"):
        store.replica.append(store.max_physical_offset, b"x")
    store.role = BrokerRole.SLAVE
    with pytest.raises(StoreError, match="do not follow"):
        store.replica.append(0, b"x")
    store.close()


def test_master_shows_only_what_is_confirmed(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    with store._flusher.hold:
        put(store)
        assert store.read_raw(0, 100) is None
    store.flush()
    data = store.read_raw(0, 50)
    assert data is not None
    assert len(data) == 50
    assert store.read_raw(store.max_physical_offset, 100) is None
    assert store.read_raw(1 << 40, 100) is None
    store.close()


def test_slave_with_synchronous_flush_shows_what_is_on_disk(tmp_path: Path) -> None:
    master = open_store(tmp_path / "m")
    result = put(master)
    slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    with slave._flusher.hold:
        ship(master, slave, 1000)
        assert slave.max_offset("orders", 0) == 0
    slave.flush()
    assert slave.progress.flushed == result.end
    assert bodies(slave) == [b"hello"]
    master.close()
    slave.close()


def test_truncating_a_slave_that_went_astray(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    results = [put(store, body=b"%d" % n + b"x" * 900, properties={"KEYS": "k"}) for n in range(9)]
    store.flush()
    store.replica.truncate(results[5].physical_offset)
    assert store.max_physical_offset == results[5].physical_offset
    assert store.progress.flushed == results[5].physical_offset
    assert [body[:1] for body in bodies(store)] == [b"0", b"1", b"2", b"3", b"4"]
    assert put(store, body=b"other", properties={"KEYS": "k"}).queue_offset == 5
    assert bodies(store)[-1] == b"other"
    assert [m.body[:1] for m in store.lookup.by_key("orders", "k", 9, 0, START + 1).messages()][-1] == b"o"
    store.close()


@pytest.mark.parametrize("crash", [False, True])
def test_a_slave_starts_over_at_a_later_file(tmp_path: Path, crash: bool) -> None:
    master = open_store(tmp_path / "m")
    slave = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    for n in range(3):
        put(master, "orders", 0, b"%d" % n + b"x" * 900, {"KEYS": f"k{n}"})
    ship(master, slave, 1 << 20)
    for n in range(3, 12):
        put(master, "orders", 0, b"%d" % n + b"x" * 900, {"KEYS": f"k{n}"})
    slave.replica.discard()
    assert (slave.max_physical_offset, slave.queues.topics()) == (0, [])
    assert not slave.lookup.by_key("orders", "k1", 9, 0, START + 1).records
    data = master.read_raw(8192, 1 << 20)
    assert data is not None
    slave.replica.append(8192, data)
    ship(master, slave, 1 << 20)
    assert slave.min_physical_offset == 8192
    folder = crash_copy(slave, tmp_path / "t") if crash else tmp_path / "s"
    slave.close()
    again = open_store(folder, broker_role=BrokerRole.SLAVE)
    assert again.max_physical_offset == master.max_physical_offset
    assert again.max_offset("orders", 0) == 12
    assert bodies(again) == [body for body in bodies(master) if int(body.rstrip(b"x")) >= again.min_offset("orders", 0)]
    assert len(again.lookup.by_key("orders", "k11", 9, 0, START + 1).records) == 1
    again.close()
    master.close()
