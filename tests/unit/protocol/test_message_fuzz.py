"""Mutated records, batches, properties and compressed bodies: each is read, or raises the protocol's own error."""

import random
from collections.abc import Callable, Sequence

import pytest

from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.message import Host, Message, ReceivedMessage
from pyromq.protocol.properties import decode_properties, find_property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch, iter_batch
from pyromq.protocol.records.compression import CompressionType, compress, decompress
from pyromq.protocol.records.record import RecordError, check_record, decode_record, decode_records, encode_record

CASES = 8_000
LONG_FACTOR = 25
EDGES = (
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x01\x00\x00",
    b"\x7f\xff",
)


def mutate(random_: random.Random, seed: bytes) -> bytes:
    """A few flipped bytes, edge values, cuts, repeats and insertions."""
    data = bytearray(seed)
    for _ in range(random_.randint(1, 4)):
        at = random_.randint(0, len(data))
        match random_.randrange(6):
            case 0 | 1 if data:
                data[min(at, len(data) - 1)] = random_.randrange(256)
            case 2:
                edge = random_.choice(EDGES)
                data[at : at + len(edge)] = edge
            case 3:
                del data[at:]
            case 4:
                data[at:at] = data[: random_.randint(0, 64)]
            case _:
                data[at:at] = random_.randbytes(random_.randint(1, 9))
    return bytes(data)


def records() -> list[bytes]:
    host, host6 = Host("10.0.0.1", 10911), Host("2001:db8::1", 10911)
    body = b"Hello RocketMQ " * 20
    batch = encode_batch([Message("t", b"m1", tags="A"), Message("t", b"m2", keys="k")])
    plain = ReceivedMessage("TopicTest", body, {"TAGS": "A", "UNIQ_KEY": "0A" * 16}, store_host=host, born_host=host6)
    long_topic = ReceivedMessage("%RETRY%" + "g" * 130, b"x", {}, store_host=host6)
    inner = ReceivedMessage("t", batch, {"INNER_NUM": "2"}, sys_flag=sysflag.WRAPPED_BATCH)
    packed = [ReceivedMessage("t", compress(body, kind), {"a": "b"}, sys_flag=kind.flag) for kind in CompressionType]
    wrapped = ReceivedMessage("t", compress(batch, CompressionType.ZSTD), {}, sys_flag=0xC0 | CompressionType.ZSTD.flag)
    encoded = [encode_record(message) for message in (plain, long_topic, inner, *packed, wrapped)]
    return [*encoded, b"".join(encoded), encode_record(plain, record_crc=True)]


def run(seeds: Sequence[bytes], read: Callable[[bytes], object], cases: int) -> tuple[int, int]:
    """How many mutations were read and how many refused; anything but a ProtocolError fails the test."""
    random_ = random.Random(20240717)
    refusals: list[str] = []
    for number in range(cases):
        data = mutate(random_, seeds[number % len(seeds)])
        try:
            read(data)
        except ProtocolError as error:
            refusals.append(str(error))
    assert all(refusals)
    return cases - len(refusals), len(refusals)


def read_all(data: bytes) -> None:
    try:
        decoded = decode_records(data)
    except RecordError as error:
        decoded = error.decoded
        raise
    finally:
        assert all(repr(message) for message in decoded)


@pytest.mark.parametrize(
    "read",
    [
        read_all,
        decode_record,
        lambda data: decode_record(memoryview(b"xyz" + data), 3, check_crc=True),
        lambda data: check_record(data, 0, len(data), verify_crc=True, verify_record_crc=True),
    ],
    ids=["decode_records", "decode_record", "at an offset", "check_record"],
)
def test_records(read: Callable[[bytes], object], long_run: bool) -> None:
    accepted, refused = run(records(), read, CASES * (LONG_FACTOR if long_run else 1))
    assert accepted > 0
    assert refused > 0


def test_batches(long_run: bool) -> None:
    seeds = [encode_batch([Message("t", b"m%d" % n, tags="A", keys="k")] * n) for n in (1, 2, 5)]
    accepted, refused = run(seeds, lambda data: list(iter_batch(data)), CASES * (LONG_FACTOR if long_run else 1))
    assert accepted > 0
    assert refused > 0


@pytest.mark.parametrize("kind", list(CompressionType))
def test_compressed_bodies(kind: CompressionType, long_run: bool) -> None:
    noise = random.Random(1).randbytes(300)
    seeds = [compress(body, kind) for body in (b"x", b"Hello RocketMQ " * 20, noise, noise * 30, bytes(300_000))]

    def read(data: bytes) -> None:
        assert len(decompress(data, kind.flag, limit=400_000)) <= 400_000

    accepted, refused = run(seeds, read, CASES // 2 * (LONG_FACTOR if long_run else 1))
    assert accepted > 0
    assert refused > 0


def test_properties(long_run: bool) -> None:
    seeds = ["TAGS\x01A\x02KEYS\x01k1 k2\x02键\x01值\x02".encode(), b"a\x01b", b""]

    def read(data: bytes) -> None:
        properties = decode_properties(data)
        assert all(name and value for name, value in properties.items())
        for name in ("TAGS", "KEYS", "a"):
            assert find_property(data, name) == properties.get(name)

    assert run(seeds, read, CASES * (LONG_FACTOR if long_run else 1))[1] == 0


def test_ids(long_run: bool) -> None:
    seeds = [b"0A00000100002A9F000000000001E240", b"20010DB800000000000000000000000100002A9F000000000001E240"]

    def read(data: bytes) -> None:
        text = data.decode("latin-1")
        parse_offset_message_id(text)

    accepted, refused = run(seeds, read, CASES * (LONG_FACTOR if long_run else 1))
    assert accepted > 0
    assert refused > 0
