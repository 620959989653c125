"""Records that rotted on disk: readers get all others, and what is wrong is noted with its place."""

from pathlib import Path

import pytest

from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.salvage import salvage_records
from pyromq.store.log.soundness import SAMPLE, CrcOnRead
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.read import GetResult, GetStatus
from tests.poison import damage, records_with
from tests.unit.store.storage import open_store, put

COUNT = 5
BAD = 2


def rotten(path: Path, at: int, value: bytes, crc: CrcOnRead = CrcOnRead.SAMPLED) -> MessageStore:
    """A store of five messages, opened again after bytes of the third were written over."""
    store = open_store(path)
    for number in range(COUNT):
        put(store, body=b"body %d" % number)
    store.close()
    (offset,) = records_with(path, b"body %d" % BAD)
    damage(path, offset + at, value)
    return open_store(path, check_crc_on_read=crc)


def bodies(result: GetResult) -> list[bytes]:
    return [message.body for message in messages(result)]


def messages(result: GetResult) -> list[ReceivedMessage]:
    return [message for chunk in result.chunks for message in salvage_records(chunk).messages]


FRAMES = pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x00\x00\x00\x00"),
        (0, b"\x7f\xff\xff\xff"),
        (0, b"\xff"),
        (4, b"\x00"),
        (20, b"\x01"),
        (28, b"\x01"),
        (84, b"\x7f"),
        (84, b"\xff"),
        (94, b"\xff"),
    ],
    ids=[
        "size zero",
        "size huge",
        "size negative",
        "magic",
        "queue offset",
        "physical offset",
        "body length huge",
        "body length negative",
        "topic length",
    ],
)


@FRAMES
@pytest.mark.parametrize("filtered", [False, True])
def test_a_record_without_a_frame_is_left_out(tmp_path: Path, at: int, value: bytes, filtered: bool) -> None:
    store = rotten(tmp_path, at, value)
    wanted = (lambda _: True) if filtered else None
    result = store.get("orders", 0, 0, 32, tag_filter=wanted)
    assert bodies(result) == [b"body 0", b"body 1", b"body 3", b"body 4"]
    assert (result.status, result.next_offset, result.damaged) == (GetStatus.FOUND, COUNT, [BAD])
    assert result.queue_offsets == [0, 1, 3, 4]
    assert [len(record) for record in result.records()] == list(result.sizes)
    assert sum(map(len, result.chunks)) == result.size
    (found,) = store.damage.stretches
    assert (found.topic, found.queue_id, found.queue_offset) == ("orders", 0, BAD)
    assert found.reason
    store.get("orders", 0, 0, 32)
    assert len(store.damage) == 1, "it is noted once"
    store.close()


@FRAMES
def test_a_reader_gets_past_it(tmp_path: Path, at: int, value: bytes) -> None:
    store = rotten(tmp_path, at, value)
    result = store.get("orders", 0, BAD, 1)
    assert bodies(result) == [b"body 3"]
    assert result.next_offset == BAD + 2
    last = rotten_last(tmp_path / "last", at, value)
    result = last.get("orders", 0, COUNT - 1, 32)
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, COUNT)
    assert result.damaged == [COUNT - 1]
    store.close()
    last.close()


def rotten_last(path: Path, at: int, value: bytes) -> MessageStore:
    """A store whose queue ends with a damaged record; another queue goes on behind it."""
    store = open_store(path)
    for number in range(COUNT):
        put(store, body=b"body %d" % number)
    put(store, "other", body=b"other")
    store.close()
    (offset,) = records_with(path, b"body %d" % (COUNT - 1))
    damage(path, offset + at, value)
    return open_store(path)


def test_a_damaged_body_is_sent_and_noted(tmp_path: Path) -> None:
    store = rotten(tmp_path, 88, b"B")
    result = store.get("orders", 0, 0, 32)
    assert [message.damaged for message in messages(result)] == [False, False, True, False, False]
    assert result.damaged == []
    (found,) = store.damage.stretches
    assert "checksum" in found.reason
    store.close()


def test_bodies_are_left_alone_if_told_to_and_frames_are_not(tmp_path: Path) -> None:
    store = rotten(tmp_path / "body", 88, b"B", CrcOnRead.NEVER)
    assert store.get("orders", 0, 0, 32).count == COUNT
    assert not store.damage.stretches
    store.close()
    store = rotten(tmp_path / "frame", 4, b"\x00", CrcOnRead.NEVER)
    assert store.get("orders", 0, 0, 32).damaged == [BAD]
    store.close()


@pytest.mark.parametrize("how", list(CrcOnRead))
def test_what_this_process_wrote_is_checked_as_often_as_told(tmp_path: Path, how: CrcOnRead) -> None:
    store = open_store(tmp_path, check_crc_on_read=how)
    for number in range(COUNT):
        put(store, body=b"body %d" % number)
    store.flush()
    (offset,) = records_with(tmp_path, b"body %d" % BAD)
    damage(tmp_path, offset + 88, b"B")
    noted = []
    for _ in range(2 * SAMPLE):
        assert store.get("orders", 0, 0, 32).count == COUNT
        noted.append(len(store.damage))
    reads_before = {CrcOnRead.NEVER: 2 * SAMPLE, CrcOnRead.SAMPLED: SAMPLE, CrcOnRead.ALWAYS: 0}[how]
    assert sum(not count for count in noted) <= reads_before
    assert bool(noted[-1]) == (how is not CrcOnRead.NEVER)
    store.close()
