"""S-01, S-04, S-07: the put path: bytes in the log, offsets, statuses, limits."""

import errno
from pathlib import Path

import pytest

from pyromq import disk
from pyromq.protocol.message import Message
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import MAGIC_BLANK, decode_record
from pyromq.protocol.records.tags import tags_code
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.flags import Flag
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import START, Clock, bodies, log_file, message, open_store, put


def batch(topic: str, *messages: Message, queue_id: int = 0) -> PutMessage:
    return PutMessage(topic, queue_id, encode_batch(messages))


def test_all_topics_share_one_log(tmp_path: Path) -> None:
    # S-01
    store = open_store(tmp_path)
    first = put(store, "orders", body=b"1")
    second = put(store, "bills", 3, b"22")
    third = put(store, "orders", body=b"333")
    assert (first.physical_offset, first.queue_offset) == (0, 0)
    assert (second.physical_offset, second.queue_offset) == (first.end, 0)
    assert (third.physical_offset, third.queue_offset) == (second.end, 1)
    assert bodies(store) == [b"1", b"333"]
    assert bodies(store, "bills", 3) == [b"22"]
    store.close()
    assert log_file(tmp_path).stat().st_size == 4096


def test_record_on_disk_holds_what_was_put(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    result = store.put(
        PutMessage(
            "orders",
            7,
            b"body",
            b"TAGS\x01a\x02KEYS\x01k\x02",
            flag=5,
            sys_flag=sysflag.COMPRESSED | sysflag.BORN_V6,
            born_timestamp=START - 9,
            born_host=pack_host(Host("10.0.0.9", 55)),
            reconsume_times=2,
            prepared_transaction_offset=77,
        )
    )
    store.close()
    found = decode_record(log_file(tmp_path).read_bytes(), decompress=False)
    assert (found.topic, found.queue_id, found.body, found.flag) == ("orders", 7, b"body", 5)
    assert found.properties == {"TAGS": "a", "KEYS": "k"}
    assert found.sys_flag == sysflag.COMPRESSED, "the address bits say what the addresses are"
    assert (found.born_host, found.store_host) == (("10.0.0.9", 55), ("127.0.0.1", 10911))
    assert (found.born_timestamp, found.store_timestamp) == (START - 9, START)
    assert (found.reconsume_times, found.prepared_transaction_offset) == (2, 77)
    assert result.message_id == "7F00000100002A9F0000000000000000" == found.offset_message_id


def test_ipv6_hosts_make_the_record_longer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    six = pack_host(Host("::1", 1))
    plain = put(store)
    result = store.put(PutMessage("orders", 0, b"hello", born_host=six, store_host=six))
    assert result.size == plain.size + 24
    found = store.lookup.message_at(result.physical_offset)
    assert found is not None
    assert (found.born_host, found.store_host) == (("::1", 1), ("::1", 1))
    assert len(result.message_id) == 56
    store.close()


def test_record_that_does_not_fit_goes_to_the_next_file(tmp_path: Path) -> None:
    # S-04: the file is closed by a blank record of 8 bytes that says how much is left
    store = open_store(tmp_path)
    size = put(store, body=b"x" * 1000).size
    results = [put(store, body=b"x" * 1000) for _ in range(3)]
    assert results[-1].physical_offset == 4096
    assert store.max_physical_offset == 4096 + size
    store.close()
    data = log_file(tmp_path).read_bytes()[3 * size :]
    assert int.from_bytes(data[:4]) == 4096 - 3 * size
    assert int.from_bytes(data[4:8], signed=True) == MAGIC_BLANK
    assert log_file(tmp_path, 4096).stat().st_size == 4096


@pytest.mark.parametrize(("left", "fits"), [(8, True), (7, False)])
def test_eight_bytes_stay_free_for_the_blank(tmp_path: Path, left: int, fits: bool) -> None:
    store = open_store(tmp_path)
    overhead = put(store, body=b"").size
    put(store, body=b"x" * (4096 - 3 * overhead - 500))
    result = put(store, body=b"x" * (500 - left))
    assert (result.physical_offset < 4096) == fits
    store.close()


def test_batch_gets_consecutive_offsets_in_one_piece(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    result = store.put_batch(
        batch("orders", Message("orders", b"a", tags="t", keys="k1"), Message("orders", b"bb", flag=3))
    )
    assert (result.status, result.count, result.queue_offset) == (PutStatus.PUT_OK, 2, 1)
    assert len(result.offsets) == 2
    assert result.message_id.count(",") == 1
    assert put(store).queue_offset == 3
    assert bodies(store) == [b"hello", b"a", b"bb", b"hello"]
    found = store.get("orders", 0, 1, 2).messages()
    assert [(m.flag, m.tags) for m in found] == [(0, "t"), (3, None)]
    assert [m.body for m in store.lookup.by_key("orders", "k1", 9, 0, START + 1).messages()] == [b"a"]
    store.close()


def test_batch_never_spans_two_files(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, body=b"x" * 2000)
    result = store.put_batch(batch("orders", *(Message("orders", b"y" * 1000) for _ in range(2))))
    assert result.physical_offset == 4096
    assert all(4096 <= offset < 8192 for offset in result.offsets)
    store.close()


def test_transaction_types_decide_on_queue_and_offset(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    half = store.put(PutMessage("orders", 0, b"half", b"KEYS\x01h\x02", sys_flag=sysflag.PREPARED))
    back = store.put(PutMessage("orders", 0, b"back", b"KEYS\x01b\x02", sys_flag=sysflag.ROLLBACK))
    done = store.put(PutMessage("orders", 0, b"done", sys_flag=sysflag.COMMIT))
    assert (half.queue_offset, back.queue_offset, done.queue_offset) == (0, 0, 0)
    assert store.max_offset("orders", 0) == 1
    assert bodies(store) == [b"done"]
    assert [m.body for m in store.lookup.by_key("orders", "h", 9, 0, START + 1).messages()] == [b"half"]
    assert store.lookup.by_key("orders", "b", 9, 0, START + 1).records == []
    store.close()


def test_tag_code_of_plain_and_of_delayed_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "orders", properties={"TAGS": "a || b", "DELAY": "3"})
    for level in ("3", "99", "x"):
        put(store, SCHEDULE_TOPIC, 2, properties={"TAGS": "a", "DELAY": level})
    orders, scheduled = store.queues.get("orders", 0), store.queues.get(SCHEDULE_TOPIC, 2)
    assert orders is not None
    assert scheduled is not None
    codes = [entry[2] for entry in map(scheduled.entry, range(3)) if entry is not None]
    entry = orders.entry(0)
    assert entry is not None
    assert entry[2] == tags_code("a || b")
    assert codes == [START + 10_000, START + 7_200_000, tags_code("a")]
    store.close()


def refused(result: PutResult) -> PutStatus:
    assert not result.stored
    assert result.reason
    assert result.message_id == ""
    return result.status


def test_limits_of_a_message(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_message_size=2000)
    long_retry, long_dlq = "%RETRY%" + "g" * 200, "%DLQ%" + "g" * 200
    assert refused(store.put(message("t" * 128))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(message("订" * 43))) is PutStatus.MESSAGE_ILLEGAL, "bytes count, not characters"
    assert refused(store.put(message(long_dlq))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(message("%RETRY%" + "g" * 249))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(message(body=b"x" * 2001))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(message(queue_id=-1))) is PutStatus.MESSAGE_ILLEGAL
    assert (
        refused(store.put(PutMessage("orders", 0, b"", b"a\x01" + b"x" * 32766))) is PutStatus.PROPERTIES_SIZE_EXCEEDED
    )
    assert refused(store.put(PutMessage("orders", 0, b"", sys_flag=sysflag.INNER_BATCH))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(message(properties={"INNER_NUM": "2"}))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put(PutMessage("orders", 0, b"", flag=1 << 40))) is PutStatus.MESSAGE_ILLEGAL
    assert store.max_physical_offset == 0
    assert store.queues.topics() in ([], ["orders"])
    put(store, body=b"x" * 2000)
    put(store, "t" * 127)
    assert [m.topic for m in store.get(long_retry, put(store, long_retry).queue_offset, 0, 1).messages()] == [
        long_retry
    ]
    assert store.stats.put_failed == 10
    store.close()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a\0b", "\ud800"])
def test_topic_must_be_one_plain_name(tmp_path: Path, topic: str) -> None:
    store = open_store(tmp_path)
    assert refused(store.put(PutMessage(topic, 0, b""))) is PutStatus.MESSAGE_ILLEGAL
    store.close()


def test_record_larger_than_a_file_is_illegal(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert refused(store.put(message(body=b"x" * 4096))) is PutStatus.MESSAGE_ILLEGAL
    store.close()


def test_limits_of_a_batch(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_message_size=1000)
    plain = encode_batch([Message("orders", b"a")])
    assert refused(store.put_batch(PutMessage("orders", 0, plain, sys_flag=sysflag.PREPARED))) is (
        PutStatus.MESSAGE_ILLEGAL
    )
    assert refused(store.put_batch(PutMessage("orders", 0, plain, b"DELAY\x013\x02"))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put_batch(PutMessage("orders", 0, plain[:-1]))) is PutStatus.MESSAGE_ILLEGAL
    assert refused(store.put_batch(PutMessage("orders", 0, b""))) is PutStatus.MESSAGE_ILLEGAL
    large = batch("orders", *(Message("orders", b"x" * 300) for _ in range(3)))
    assert refused(store.put_batch(large)) is PutStatus.UNKNOWN_ERROR
    assert store.max_physical_offset == 0
    store.close()


def test_store_that_does_not_take_messages_says_why(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    store.role = BrokerRole.SLAVE
    result = store.put(message())
    assert refused(result) is PutStatus.SERVICE_NOT_AVAILABLE
    assert "slave" in result.reason
    store.role = BrokerRole.ASYNC_MASTER
    store.flags.set(Flag.DISK_FULL)
    assert "diskSpaceWarningLevelRatio" in store.put(message()).reason
    store.flags.clear(Flag.DISK_FULL)
    assert put(store).queue_offset == 1
    store.close()
    assert refused(store.put(message())) is PutStatus.SERVICE_NOT_AVAILABLE
    assert refused(MessageStore(store.config).put(message())) is PutStatus.SERVICE_NOT_AVAILABLE


def test_hook_may_rewrite_or_refuse(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    def delay(m: PutMessage) -> PutResult | None:
        if m.topic == "bad":
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, reason="no")
        m.topic, m.queue_id = "moved", 5
        return None

    store.add_hook(delay)
    put(store, "orders")
    assert bodies(store, "moved", 5) == [b"hello"]
    assert store.put(message("bad")).status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    store.close()


@pytest.mark.parametrize("later", [2_000, -3_600_000])  # also when the clock is set back
def test_full_disk_is_a_status_and_passes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock, allocate_step_commit_log=256)
    put(store)

    def refuse(_fd: int, _offset: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(disk, "allocate", refuse)
    result = store.put(message(body=b"x" * 3000))
    assert refused(result) is PutStatus.SERVICE_NOT_AVAILABLE
    assert "no space" in result.reason
    assert refused(store.put(message())) is PutStatus.SERVICE_NOT_AVAILABLE
    store.tick()
    assert store.flags.has(Flag.NO_SPACE)
    assert bodies(store) == [b"hello"], "reading goes on"
    monkeypatch.undo()
    clock.now += later
    store.tick()
    assert put(store, body=b"x" * 3000).queue_offset == 1
    store.close()


def test_file_that_cannot_be_created_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    end = put(store, body=b"x" * 3000).end

    def refuse(_fd: int, _length: int) -> None:
        raise OSError(errno.EACCES, "denied")

    monkeypatch.setattr(disk, "set_length", refuse)
    assert refused(store.put(message(body=b"x" * 3000))) is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert store.max_physical_offset == end
    monkeypatch.undo()
    assert put(store, body=b"x" * 3000).physical_offset == 4096
    store.close()


def test_too_many_unflushed_messages_are_answered_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH, max_flush_waiters=2)
    with store._flusher.hold:  # the disk is as slow as can be
        put(store)
        put(store)
        result = store.put(message())
        assert refused(result) is PutStatus.OS_PAGE_CACHE_BUSY
        assert "2 messages wait" in result.reason
    store.flush()
    put(store)
    store.close()


def test_counters(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    for _ in range(20):
        put(store)
    clock.now += 10_000
    store.tick()
    assert store.stats.put_count == 20
    assert store.stats.average_size == put(store).size
    assert store.stats.put_tps()[0] == 2.0
    store.get("orders", 0, 0, 5)
    store.get("orders", 0, 99, 5)
    assert (store.stats.get_found, store.stats.get_missed, store.stats.get_transferred) == (1, 1, 5)
    store.close()
