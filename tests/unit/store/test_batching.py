"""A batch is stored as its messages one by one: the same bytes in every file, the same arrivals, each of them once."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.store.arrival import Arrival
from pyromq.store.config import FlushDiskType
from pyromq.store.errors import DiskFullError
from pyromq.store.index.index import Index
from pyromq.store.log.put import PutMessage, PutStatus
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.consumequeue import ConsumeQueue
from tests.unit.store.storage import bodies, open_store, put

SYNC = FlushDiskType.SYNC_FLUSH
HOSTS = (b"\x7f\x00\x00\x01\x00\x00\x2a\x9f", bytes(16) + b"\x00\x00\x2a\x9f")
LONG = "%RETRY%" + "g" * 140  # the length of the topic takes two bytes in a record
Item = tuple[int, bytes, bytes]

# Texts as producers write them, and as they should not: names twice, no value, no separator at the end.
TEXTS = st.lists(
    st.sampled_from(
        [
            "UNIQ_KEY\x010A00000910E118B4AAC2000000000001\x02",
            "UNIQ_KEY\x01u2\x02",
            "KEYS\x01k1\x02",
            "KEYS\x01k1  k2 \x02",
            "TAGS\x01a\x02",
            "TAGS\x01schlüssel\x02",
            "DELAY\x013\x02",
            "x\x01\x02",
            "x\x01y",
        ]
    ),
    max_size=4,
).map(lambda pieces: "".join(pieces).encode())
ITEMS = st.lists(
    st.tuples(st.sampled_from([0, 7, -1]), st.sampled_from([b"", b"hello", b"x" * 300]), TEXTS), min_size=1
)
ALIKE = st.builds(lambda flag, body, text, count: [(flag, body, text)] * count, st.just(1), st.binary(), TEXTS,
    st.sampled_from([2, 60, 300]))  # fmt: skip
BATCHES = st.tuples(
    st.sampled_from(["orders", "payments", LONG, "SCHEDULE_TOPIC_XXXX"]),
    st.integers(0, 1),
    st.sampled_from(HOSTS),
    st.sampled_from([None, *HOSTS]),
    st.one_of(ITEMS, ALIKE),
)
Batch = tuple[str, int, bytes, bytes | None, list[Item]]


def encoded(items: Sequence[Item]) -> bytes:
    """Like `encode_batch`, for properties that nobody would write."""
    made = b""
    for flag, body, text in items:
        head = (22 + len(body) + len(text)).to_bytes(4) + bytes(8) + flag.to_bytes(4, signed=True)
        made += head + len(body).to_bytes(4) + body + len(text).to_bytes(2) + text
    return made


def as_batch(store: MessageStore, batch: Batch) -> tuple[int, int, str, int]:
    topic, queue_id, born, host, items = batch
    result = store.put_batch(PutMessage(topic, queue_id, encoded(items), born_host=born, store_host=host))
    assert result.status is PutStatus.PUT_OK, result.reason
    assert result.count == len(result.offsets) == len(items)
    return result.physical_offset, result.queue_offset, result.message_id, result.size


def one_by_one(store: MessageStore, batch: Batch) -> tuple[int, int, str, int]:
    topic, queue_id, born, host, items = batch
    results = [
        store.put(PutMessage(topic, queue_id, body, text, flag=flag, born_host=born, store_host=host))
        for flag, body, text in items
    ]
    ids = ",".join(result.message_id for result in results)
    return results[0].physical_offset, results[0].queue_offset, ids, sum(result.size for result in results)


def outcome(
    batches: list[Batch], flush: FlushDiskType, put: Callable[[MessageStore, Batch], tuple[int, int, str, int]]
) -> tuple[object, ...]:
    """Everything one can see of a store, down to the bytes of its files."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder), flush_disk_type=flush, mapped_file_size_commit_log=4 << 20)
        arrivals: list[Arrival] = []
        store.add_listener(arrivals.append)
        results = [put(store, batch) for batch in batches]
        store.flush()
        heard = [(*[getattr(each, name) for name in Arrival.__struct_fields__[:-1]],) for each in arrivals]
        facts = (
            results,
            heard,
            store.stats.put_count,
            store.stats.put_bytes,
            store.progress.dispatched,
            store.progress.waiting,
        )
        store.close()
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for part in ("commitlog", "consumequeue", "index")
            for path in (Path(folder) / part).rglob("*")
            if path.is_file()
        }
        return *facts, files


@pytest.mark.parametrize("flush", FlushDiskType)
@settings(max_examples=25, deadline=None)
@given(batches=st.lists(BATCHES, min_size=1, max_size=4))
def test_the_same_files_as_of_messages_one_by_one(flush: FlushDiskType, batches: list[Batch]) -> None:
    assert outcome(batches, flush, as_batch) == outcome(batches, flush, one_by_one)


def batch(*numbers: int) -> PutMessage:
    return PutMessage("orders", 0, encode_batch([Message("orders", b"%d" % n, keys=f"k{n}") for n in numbers]))


def hits(store: MessageStore, numbers: range) -> list[int]:
    return [len(store.lookup.by_key("orders", f"k{n}", 32, 0, 2**62).records) for n in numbers]


class Full:
    """A disk that is full while `now` is set: queues take no offset from `limit` on, the index is not written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, limit: int = 0, index: bool = False) -> None:
        self.now = True
        append, extend, drain = ConsumeQueue.append, ConsumeQueue.extend, Index.drain

        def check(last: int) -> None:
            if self.now and not index and last >= limit:
                raise DiskFullError("no space")

        def full_append(queue: ConsumeQueue, offset: int, *rest: int) -> bool:
            check(offset)
            return append(queue, offset, *rest)

        def full_extend(queue: ConsumeQueue, offset: int, entries: bytes, *places: int) -> bool:
            check(offset + len(entries) // ENTRY_SIZE - 1)
            return extend(queue, offset, entries, *places)

        def full_drain(self_: Index) -> None:
            if self.now and index:
                raise DiskFullError("no space")
            drain(self_)

        monkeypatch.setattr(ConsumeQueue, "append", full_append)
        monkeypatch.setattr(ConsumeQueue, "extend", full_extend)
        monkeypatch.setattr(Index, "drain", full_drain)


def ears(store: MessageStore) -> list[int]:
    """What listeners hear of, by queue offset."""
    heard: list[int] = []
    store.add_listener(lambda message: heard.append(message.queue_offset))
    return heard


def check_all_there(store: MessageStore, heard: list[int], count: int) -> None:
    assert heard == list(range(count))
    assert bodies(store) == [b"%d" % n for n in range(count)]
    assert hits(store, range(count)) == [1] * count
    assert store.progress.waiting == store.progress.behind == 0


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_full_disk_delays_a_batch_and_gives_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    store = open_store(tmp_path)
    heard = ears(store)
    put(store, body=b"0", properties={"KEYS": "k0"})
    full = Full(monkeypatch, limit=limit)
    assert store.put_batch(batch(1, 2, 3)).status is PutStatus.PUT_OK
    assert heard == list(range(limit))
    assert store.progress.waiting == 4 - limit
    assert store.put_batch(batch(4)).status is PutStatus.SERVICE_NOT_AVAILABLE
    full.now = False
    store.tick()
    check_all_there(store, heard, 4)
    store.close()


@pytest.mark.parametrize("limit", range(6))
def test_batches_and_messages_wait_for_the_disk_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    heard = ears(store)
    full = Full(monkeypatch, limit=limit)
    with store._flusher.hold:
        store.put_batch(batch(0, 1))
        put(store, body=b"2", properties={"KEYS": "k2"})
        store.put_batch(batch(3, 4, 5))
        assert store.progress.waiting == 6
        assert heard == []
        assert bodies(store) == []
        assert store.max_offset("orders", 0, committed=False) == 6
    store.flush()
    assert heard == list(range(limit))
    assert store.progress.waiting == 6 - limit
    full.now = False
    store.tick()
    check_all_there(store, heard, 6)
    store.close()


def test_an_index_that_cannot_be_written_gets_each_key_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, max_index_num=2000, mapped_file_size_commit_log=1 << 20)
    heard = ears(store)
    store.put_batch(batch(*range(1024)))  # as many keys as wait to be written
    full = Full(monkeypatch, index=True)
    store.put_batch(batch(1024, 1025, 1026))
    assert heard == list(range(1024))
    assert store.progress.waiting == 3
    full.now = False
    store.tick()
    check_all_there(store, heard, 1027)
    store.close()


def test_keys_that_the_index_has_are_not_entered_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    heard = ears(store)
    assert store.index is not None
    store.index.max_physical_offset = store.max_physical_offset  # the index survived a crash, the queue did not
    store.put_batch(batch(0, 1, 2))
    assert hits(store, range(3)) == [0, 1, 1]
    assert bodies(store) == [b"0", b"1", b"2"]
    assert heard == [0, 1, 2]
    store.close()


def test_a_log_that_is_cut_within_a_batch_leaves_its_beginning(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC)
    heard = ears(store)
    result = store.put_batch(batch(0, 1, 2))
    store.replica.truncate(result.offsets[2])
    assert store.progress.waiting == 2
    store.flush()
    assert heard == [0, 1]
    assert store.max_offset("orders", 0) == 2
    store.close()


def test_every_message_of_a_batch_counts_as_one_that_waits(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=SYNC, max_flush_waiters=3)
    with store._flusher.hold:
        assert store.put_batch(batch(0, 1, 2)).stored
        refused = [store.put(batch(9)), *store.put_many([batch(9)]), store.put_batch(batch(9))]
        assert [each.status for each in refused] == [PutStatus.OS_PAGE_CACHE_BUSY] * 3
        assert "3 messages wait" in refused[0].reason
    store.flush()
    assert store.put_batch(batch(3)).stored
    store.close()


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_listener_hears_no_more_of_a_topic_once_it_wants_no_more(tmp_path: Path, flush: FlushDiskType) -> None:
    store = open_store(tmp_path, flush_disk_type=flush)
    topics, heard, all_heard = {"orders"}, list[int](), ears(store)

    def listener(message: Arrival) -> None:
        heard.append(message.queue_offset)
        topics.clear()

    store.add_listener(listener, topics)
    store.put_batch(batch(0, 1, 2))
    store.flush()
    assert heard == [0]
    assert all_heard == [0, 1, 2]
    store.close()
