"""Records that are damaged or poisonous: each comes out with its fault, and those beside it come out whole."""

import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.message import Host, Message, ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.record import MIN_SIZE, encode_record, pack_record
from pyromq.protocol.records.salvage import salvage_record, salvage_records

HERE = Host("127.0.0.1", 10911)
FIRST = 7
BOUND = 64 * 1024
EXPANDING = CompressionType.ZLIB.flag, CompressionType.LZ4.flag, CompressionType.ZSTD.flag


def record(number: int, body: bytes = b"", properties: dict[str, str] | None = None, sys_flag: int = 0) -> bytes:
    message = ReceivedMessage(
        "orders",
        body or b"order %d" % number,
        properties if properties is not None else {"TAGS": "paid", "KEYS": f"o-{number}"},
        queue_offset=number,
        physical_offset=1000 * number,
        sys_flag=sys_flag,
        store_host=HERE,
        born_host=HERE,
    )
    return encode_record(message)


def raw(number: int, *, topic: bytes = b"orders", properties: bytes = b"") -> bytes:
    host = pack_host(HERE)
    return pack_record(topic, b"order %d" % number, properties, 0, number, 1000 * number, 1, host, 1, host)


def poisoned(bad: bytes) -> list[ReceivedMessage]:
    """What comes out of a response with sound records around a bad one; the sound ones are checked here."""
    data = b"".join((record(FIRST), bad, record(FIRST + 2)))
    found = salvage_records(data, low=FIRST, high=FIRST + 3, max_body=BOUND).messages
    assert [message.queue_offset for message in found] == [FIRST, FIRST + 1, FIRST + 2]
    assert found[0].body == b"order 7"
    assert found[2].body == b"order 9"
    assert not found[0].damaged
    assert not found[2].damaged
    return found


@pytest.mark.parametrize("flag", [1, *EXPANDING, 0x701], ids=["untyped", "zlib", "lz4", "zstd", "unknown type"])
def test_a_body_that_is_no_compressed_stream_comes_as_it_is_stored(flag: int) -> None:
    _, bad, _ = poisoned(record(FIRST + 1, b"no such stream", sys_flag=flag))
    assert bad.body == b"no such stream"
    assert bad.fault
    assert "broken" in bad.fault or "unknown compression type" in bad.fault
    assert bad.sys_flag & sysflag.COMPRESSED
    assert bad.tags == "paid"


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_bomb_stays_packed(kind: CompressionType) -> None:
    bomb = compress(bytes(50 * BOUND), kind)
    _, bad, _ = poisoned(record(FIRST + 1, bomb, sys_flag=kind.flag))
    assert bad.body == bomb
    assert bad.fault
    assert f"more than {BOUND}" in bad.fault


@pytest.mark.parametrize("kind", list(CompressionType))
def test_many_large_bodies_come_out_in_several_goes(kind: CompressionType) -> None:
    packed = compress(bytes(BOUND), kind)
    data = b"".join(record(number, packed, sys_flag=kind.flag) for number in range(4))
    found = salvage_records(data, max_body=BOUND, max_total=2 * BOUND, low=0, high=4)
    assert not found.complete
    assert [message.queue_offset for message in found.messages] == [0, 1]
    assert not any(message.damaged for message in found.messages)


def test_a_flipped_bit_in_a_body_is_told() -> None:
    broken = bytearray(record(FIRST + 1))
    broken[88] ^= 1
    _, bad, _ = poisoned(bytes(broken))
    assert bad.fault
    assert "checksum" in bad.fault
    assert bad.body == bytes([b"order 8"[0] ^ 1]) + b"rder 8"
    assert bad.keys == ("o-8",)


def test_properties_that_are_no_text_are_told_and_the_body_stays() -> None:
    _, bad, _ = poisoned(raw(FIRST + 1, properties=b"TAGS\x01\xff\xfe\x02colour\x01red\x02"))
    assert bad.fault == "the properties are not UTF-8"
    assert bad.body == b"order 8"
    assert bad.properties["colour"] == "red"


def test_a_topic_that_is_no_text_is_told() -> None:
    _, bad, _ = poisoned(raw(FIRST + 1, topic=b"\xff\xfe"))
    assert bad.fault == "the topic is not UTF-8"
    assert bad.topic == "��"


@pytest.mark.parametrize("body", [b"x", b"\x7f\xff\xff\xff" * 6, encode_batch([Message("t", b"1")])[:-1]])
def test_an_inner_batch_that_cannot_be_taken_apart_comes_as_one_message(body: bytes) -> None:
    _, bad, _ = poisoned(record(FIRST + 1, body, sys_flag=sysflag.WRAPPED_BATCH))
    assert bad.fault
    assert "inner batch" in bad.fault
    assert bad.body == body


def test_an_inner_batch_is_taken_apart_from_the_offset_asked_for() -> None:
    batch = encode_batch([Message("orders", b"%d" % number) for number in range(4)])
    data = record(5, batch, sys_flag=sysflag.WRAPPED_BATCH)
    found = salvage_records(data, low=7, high=9).messages
    assert [(message.queue_offset, message.body, message.fault) for message in found] == [
        (7, b"2", None),
        (8, b"3", None),
    ]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, b"\x7f\xff\xff\xff"), (0, b"\x00\x00\x00\x00"), (0, b"\x00\x00\x00\x60"), (4, b"\x00"), (84, b"\x7f")],
    ids=["size beyond the end", "size zero", "size too small", "magic", "body length"],
)
def test_a_broken_frame_comes_raw_and_in_its_place(at: int, value: bytes) -> None:
    broken = bytearray(record(FIRST + 1))
    broken[at : at + len(value)] = value
    _, bad, _ = poisoned(bytes(broken))
    assert bad.fault
    assert bad.body == bytes(broken)


@pytest.mark.parametrize("claimed", [0, FIRST, FIRST + 2, 10**15, -1])
def test_a_wrong_queue_offset_takes_nobodys_place(claimed: int) -> None:
    broken = bytearray(record(FIRST + 1))
    broken[20:28] = claimed.to_bytes(8, signed=True)
    data = b"".join((record(FIRST), broken, record(FIRST + 2)))
    found = salvage_records(data, low=FIRST, high=FIRST + 3).messages
    assert sorted(message.body for message in found) == [b"order 7", b"order 8", b"order 9"]
    assert [message.queue_offset for message in found] == [FIRST, FIRST + 1, FIRST + 2]
    assert sum(message.damaged for message in found) == 1


def test_offsets_of_a_moved_queue_count_from_where_it_was() -> None:
    found = salvage_records(record(3) + record(4), low=13, high=15, delta=10).messages
    assert [(message.queue_offset, message.fault) for message in found] == [(13, None), (14, None)]


def test_the_copy_of_a_damaged_message_is_still_damaged() -> None:
    copy = record(3, properties={Property.FAULT: "the body does not match its checksum 1"})
    assert salvage_record(copy).fault == "the body does not match its checksum 1"
    assert salvage_records(copy).messages[0].damaged


def test_one_record_by_itself() -> None:
    assert salvage_record(record(3)).body == b"order 3"
    poison = salvage_record(record(3, b"junk", sys_flag=1))
    assert (poison.body, poison.damaged) == (b"junk", True)
    assert salvage_record(b"").damaged
    assert "damaged" in repr(poison)


SOUND = [record(number, sys_flag=0) for number in range(4)] + [
    record(4, compress(b"text " * 50, kind), sys_flag=kind.flag) for kind in CompressionType
]


@given(
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    seed=st.sampled_from(SOUND),
    at=st.integers(4, 400),
    value=st.binary(min_size=1, max_size=16),
)
@example(before=1, after=1, seed=SOUND[0], at=84, value=b"\x7f\xff\xff\xff")
@example(before=1, after=1, seed=SOUND[0], at=36, value=b"\xff\xff\xff\xff")
def test_whatever_one_record_says_the_others_come_out(
    before: int, after: int, seed: bytes, at: int, value: bytes
) -> None:
    """The size is intact, everything else may be anything."""
    broken = bytearray(seed)
    at = min(at, len(broken) - 1)
    value = value[: len(broken) - at]
    broken[at : at + len(value)] = value
    records = [record(100 + number) for number in range(before)]
    rest = [record(200 + number) for number in range(after)]
    found = salvage_records(b"".join((*records, broken, *rest)), low=0, high=1000, max_body=BOUND).messages
    bodies = [message.body for message in found if not message.damaged]
    expected = [b"order %d" % (100 + number) for number in range(before)]
    expected += [b"order %d" % (200 + number) for number in range(after)]
    assert [body for body in bodies if body in expected] == expected
    assert len({message.queue_offset for message in found}) == len(found)
    assert all(len(message.body) <= max(BOUND, len(broken)) for message in found)


@given(st.binary(max_size=600), st.lists(st.integers(0, 3), max_size=4))
def test_any_bytes_come_out_one_way_or_another(junk: bytes, numbers: list[int]) -> None:
    found = salvage_records(junk + b"".join(record(number) for number in numbers), low=0, high=1000).messages
    assert all(0 <= message.queue_offset < 1000 for message in found)
    assert bool(found) == bool(junk or numbers)
    whole = [message.body for message in found if not message.damaged]
    assert len(whole) <= len(numbers) + len(junk) // MIN_SIZE


@given(st.binary(max_size=200), st.sampled_from(EXPANDING), st.integers(0, 500))
def test_nothing_inflates_beyond_its_bound(start: bytes, flag: int, bound: int) -> None:
    kind = CompressionType.of(flag)
    body = compress(start + bytes(1000), kind)
    found = salvage_record(record(0, body, sys_flag=flag), max_body=bound)
    assert found.damaged
    assert found.body == body


def test_a_stream_that_ends_early_is_no_shorter_message() -> None:
    cut = zlib.compress(b"all of it " * 100)[:-7]
    assert salvage_record(record(0, cut, sys_flag=1)).damaged
