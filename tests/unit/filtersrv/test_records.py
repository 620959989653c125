"""Records on their way through a filter server."""

import pytest

from pyromq.filtersrv.records import BATCH_BYTES, BATCH_MESSAGES, batches
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.host import Host
from pyromq.protocol.records.record import decode_records, encode_record

HOST = Host("10.0.0.1", 10911)


def record(body: bytes, offset: int = 0, sys_flag: int = 0) -> bytes:
    return encode_record(
        ReceivedMessage(
            "t", body, {"TAGS": "a"}, queue_offset=offset, sys_flag=sys_flag, born_host=HOST, store_host=HOST
        )
    )


def test_what_passes_unchanged_goes_on_byte_for_byte() -> None:
    # F-05
    stored = [record(b"small", 0), record(compress(b"x" * 20_000, CompressionType.LZ4), 1, CompressionType.LZ4.flag)]
    (batch,) = batches(b"".join(stored))
    assert [candidate.seen().body for candidate in batch] == [b"small", b"x" * 20_000]
    assert [bytes(candidate.encode(8192, 5)) for candidate in batch] == stored


@pytest.mark.parametrize(("size", "compressed"), [(8191, False), (8192, True)])
def test_large_plain_bodies_are_compressed(size: int, compressed: bool) -> None:
    # F-05
    ((candidate,),) = batches(record(b"y" * size))
    encoded = candidate.encode(8192, 5)
    (kept,) = decode_records(encoded, decompress=False, check_crc=True)
    assert bool(kept.sys_flag & sysflag.COMPRESSED) is compressed
    (read,) = decode_records(encoded)
    assert (read.body, read.tags) == (b"y" * size, "a")


def test_messages_of_an_inner_batch_pass_one_by_one() -> None:
    wrapped = record(encode_batch([Message("t", b"1"), Message("t", b"2")]), 7, sysflag.WRAPPED_BATCH)
    (batch,) = batches(wrapped)
    assert [(each.seen().body, each.seen().queue_offset) for each in batch] == [(b"1", 7), (b"2", 8)]
    (second,) = decode_records(batch[1].encode(8192, 5))
    assert (second.body, second.queue_offset) == (b"2", 8)


def test_questions_are_bounded_in_bytes_and_messages() -> None:
    large = record(bytes(BATCH_BYTES // 4))
    assert [len(batch) for batch in batches(large * 5)] == [2, 2, 1]
    assert [len(batch) for batch in batches(record(b"") * (BATCH_MESSAGES + 3))] == [BATCH_MESSAGES, 3]
    assert list(batches(b"")) == []


def test_a_torn_record_is_marked_as_damaged() -> None:
    (batch,) = batches(record(b"whole") + record(b"torn")[:-1])
    assert [candidate.message.damaged for candidate in batch] == [False, True]


def test_a_body_that_inflates_beyond_measure_stays_as_it_is() -> None:
    bomb = record(compress(bytes(32 << 20), CompressionType.ZLIB), 0, CompressionType.ZLIB.flag)
    ((candidate,),) = batches(bomb)
    assert candidate.message.damaged
    assert candidate.encode(1, 5) == bomb


@pytest.mark.parametrize(
    ("at", "value"), [(39, b"\x01"), (88, b"\xff"), (0, bytes(4)), (4, b"\x00"), (0, b"\x7f\xff\xff\xff")]
)
def test_a_damaged_record_goes_on_byte_for_byte_and_spoils_no_other(at: int, value: bytes) -> None:
    first, last = record(b"first"), record(b"last", 2)
    broken = bytearray(record(b"damaged", 1))
    broken[at : at + len(value)] = value
    (batch,) = batches(first + broken + last)
    assert [candidate.message.damaged for candidate in batch] == [False, True, False]
    assert [bytes(candidate.encode(1, 5)) for candidate in batch][1] == bytes(broken)
