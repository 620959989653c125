"""Who dispatches: the disk that gets further and the tick, never a read, and never twice at the same time."""

from pathlib import Path

import pytest

from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import bodies, open_store, put

SYNC = FlushDiskType.SYNC_FLUSH


class Curious:
    """On the first message it hears of, it lets the disk get further and has the store told."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.heard: list[int] = []

    def __call__(self, message: Arrival) -> None:
        self.heard.append(message.queue_offset)
        if len(self.heard) == 1:
            self.further()
            self._store.tick()

    def further(self) -> None:
        """Two more are on disk, a third is not."""
        for number in (b"1", b"2"):
            put(self._store, body=number)
        self._store._flusher.sync()
        self._store._flusher.hold.acquire()
        put(self._store, body=b"3")


def test_every_message_is_dispatched_once_and_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    first, second = Curious(store), list[int]()
    store.add_listener(first)
    store.add_listener(lambda message: second.append(message.queue_offset))
    put(store, body=b"0")
    store.flush()
    assert first.heard == second == [0, 1, 2]
    store._flusher.hold.release()
    store.flush()
    assert first.heard == second == [0, 1, 2, 3]
    assert bodies(store) == [b"0", b"1", b"2", b"3"]
    store.close()


@pytest.mark.parametrize("flush_disk_type", list(FlushDiskType))
def test_also_at_a_slave(tmp_path: Path, flush_disk_type: FlushDiskType) -> None:
    master = open_store(tmp_path / "m")
    for number in range(4):
        put(master, body=b"%d" % number)
    data = master.read_raw(0, 1 << 20)
    assert data is not None
    store = open_store(tmp_path / "s", broker_role=BrokerRole.SLAVE, flush_disk_type=flush_disk_type)
    heard: list[int] = []

    def listener(message: Arrival) -> None:
        heard.append(message.queue_offset)
        if len(heard) == 1:
            store.replica.append(len(data) // 2, bytes(data[len(data) // 2 :]))
            store._flusher.sync()
            store.tick()

    store.add_listener(listener)
    store.replica.append(0, bytes(data[: len(data) // 2]))
    store.flush()
    assert heard == [0, 1, 2, 3]
    assert bodies(store) == [b"0", b"1", b"2", b"3"]
    master.close()
    store.close()


def test_reading_never_dispatches(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    heard: list[int] = []
    store.add_listener(lambda message: heard.append(message.queue_offset))
    result = put(store, properties={"KEYS": "k"})
    store._flusher.sync()  # on disk, and nobody was told
    assert bodies(store) == []
    assert store.max_offset("orders", 0) == 0
    assert store.lookup.by_key("orders", "k", 9, 0, 1 << 62).records == []
    assert (store.progress.flushed, store.progress.dispatched, heard) == (result.end, 0, [])
    store.tick()
    assert bodies(store) == [b"hello"]
    assert (store.progress.dispatched, heard) == (result.end, [0])
    store.close()
