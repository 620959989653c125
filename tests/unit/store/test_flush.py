"""Group commit: who waits, for how long, what readers see before and after the disk has it."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq import disk
from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.flags import Flag
from pyromq.store.log.put import PutStatus
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.read import GetStatus
from tests.unit.store.storage import Clock, bodies, message, open_store, put, small_config

SYNC = FlushDiskType.SYNC_FLUSH


class Mailbox:
    """An owner's thread without an event loop: what is posted runs when the test says so."""

    def __init__(self) -> None:
        self._posted: list[Callable[[], None]] = []
        self._arrived = threading.Condition()

    def post(self, work: Callable[[], None]) -> None:
        with self._arrived:
            self._posted.append(work)
            self._arrived.notify()

    def run_next(self) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._posted, timeout=30), "nothing was posted"
            work = self._posted.pop(0)
        work()


def open_with_mailbox(root: Path, clock: Clock) -> tuple[MessageStore, Mailbox]:
    mailbox = Mailbox()
    config = small_config(root, flush_disk_type=SYNC)
    store = MessageStore(config, clock=clock, post=mailbox.post, disk_usage=lambda _: 0.1)
    store.open()
    return store, mailbox


def test_message_is_seen_only_after_it_is_on_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    arrivals: list[Arrival] = []
    store.add_listener(arrivals.append)
    with store._flusher.hold:
        result = put(store, properties={"TAGS": "t"})
        assert store.get("orders", 0, 0, 1).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert store.max_offset("orders", 0) == 0
        assert store.max_offset("orders", 0, committed=False) == 1
        assert (store.progress.behind, store.progress.confirmed) == (result.size, 0)
        assert not arrivals
    assert store.wait_durable(result).status is PutStatus.PUT_OK
    assert store.progress.flushed == result.end
    assert bodies(store) == [b"hello"]
    assert [(a.topic, a.queue_id, a.queue_offset, a.properties) for a in arrivals] == [("orders", 0, 0, {"TAGS": "t"})]
    assert store.progress.behind == 0
    store.close()


def test_a_listener_hears_of_the_topics_it_wants_at_that_moment(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    arrivals: list[Arrival] = []
    wanted = {"orders"}
    store.add_listener(arrivals.append, wanted)
    put(store, topic="payments")
    put(store, topic="orders")
    wanted.add("payments")
    put(store, topic="payments")
    wanted.clear()
    put(store, topic="orders")
    assert [(a.topic, a.queue_offset) for a in arrivals] == [("orders", 0), ("payments", 1)]
    store.close()


def test_numbering_goes_on_while_messages_wait_for_the_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    with store._flusher.hold:
        put(store)
        store.role = BrokerRole.SLAVE
        store.role = BrokerRole.ASYNC_MASTER
        assert put(store).queue_offset == 1
    store.flush()
    assert len(bodies(store)) == 2
    store.close()


def test_one_sync_serves_everybody_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, mailbox = open_with_mailbox(tmp_path, Clock())
    put(store)  # the file's first sync also syncs its directory
    mailbox.run_next()
    syncs: list[int] = []
    monkeypatch.setattr(disk, "sync_data", syncs.append)
    done: list[tuple[int, PutStatus]] = []
    with store._flusher.hold:
        for n in range(100):
            assert store.when_durable(put(store), lambda status, n=n: done.append((n, status)))  # type: ignore[misc]
    mailbox.run_next()
    while len(done) < 100:  # the first wake may have been taken before the last message
        mailbox.run_next()
    assert done == [(n, PutStatus.PUT_OK) for n in range(100)]
    assert len(syncs) <= 4, "two rounds at most, over at most two files each"
    store.close()


def test_nothing_to_wait_for(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert not store.when_durable(put(store), lambda _: pytest.fail("called"))
    store.close()
    refused = store.put(message())
    assert not store.when_durable(refused, lambda _: pytest.fail("called"))
    assert store.wait_durable(refused).status is PutStatus.SERVICE_NOT_AVAILABLE


def test_what_is_on_disk_already_is_answered_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    result = store.put_durably(message())
    done: list[PutStatus] = []
    assert store.when_durable(result, done.append)
    assert done == [PutStatus.PUT_OK]
    store.close()


def test_wait_has_an_end(tmp_path: Path) -> None:
    clock = Clock()
    store, _ = open_with_mailbox(tmp_path, clock)
    done: list[PutStatus] = []
    with store._flusher.hold:
        store.when_durable(put(store), done.append)
        clock.now += 4_999
        store.tick()
        assert not done
        clock.now += 1
        store.tick()
        assert done == [PutStatus.FLUSH_DISK_TIMEOUT]
    store.flush()
    assert done == [PutStatus.FLUSH_DISK_TIMEOUT], "told once"
    assert bodies(store) == [b"hello"], "stored all the same"
    store.close()


def test_blocking_wait_has_an_end(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    with store._flusher.hold:
        result = store.wait_durable(put(store), timeout=0.001)
        assert result.status is PutStatus.FLUSH_DISK_TIMEOUT
        assert result.stored
    store.close()


def test_disk_that_fails_stops_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, mailbox = open_with_mailbox(tmp_path, Clock())
    kept = put(store)
    mailbox.run_next()

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(disk, "sync_data", fail)
    done: list[PutStatus] = []
    store.when_durable(put(store), done.append)
    mailbox.run_next()
    assert done == [PutStatus.FLUSH_DISK_TIMEOUT]
    assert store.flags.has(Flag.NOT_WRITEABLE)
    assert store.put(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert bodies(store) == [b"hello"], "what was not synced is not shown"
    assert store.progress.flushed == kept.end
    monkeypatch.undo()
    store.close()
    assert (tmp_path / "abort").exists(), "a later success would prove nothing: the next start recovers"


def test_callback_that_fails_does_not_harm_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, mailbox = open_with_mailbox(tmp_path, Clock())
    done: list[PutStatus] = []

    def broken(_status: PutStatus) -> None:
        raise ValueError("mine")

    with store._flusher.hold:
        store.when_durable(put(store), broken)
        store.when_durable(put(store), done.append)
    while not done:
        mailbox.run_next()
    assert "a flush callback failed" in caplog.text
    store.close()


def test_asynchronous_flush_by_pages_and_by_time(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock, mapped_file_size_commit_log=1 << 20)
    store._flusher.stop()  # decide here what its thread decides by the clock
    put(store, body=b"x" * 100)
    assert not store._flusher._due()
    put(store, body=b"x" * 20_000)
    assert store._flusher._due()
    store.flush()
    assert store.progress.flushed == store.max_physical_offset
    put(store)
    assert not store._flusher._due()
    clock.now += 10_000
    assert store._flusher._due()
    store.close()


def test_asynchronous_store_can_still_wait(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    result = store.put_durably(message())
    assert store.progress.flushed >= result.end
    store.close()


def test_closing_flushes(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    for _ in range(50):
        put(store)
    store.close()
    store.close()
    assert not (tmp_path / "abort").exists()
    again = open_store(tmp_path)
    assert len(bodies(again)) == 50
    again.close()
