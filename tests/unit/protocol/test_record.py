"""Stored records: golden bytes, round trips, checks that the store relies on."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import Host, Message, ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.record import (
    MAGIC_V1,
    MAGIC_V2,
    Blank,
    RecordError,
    RecordSummary,
    check_record,
    decode_record,
    decode_records,
    encode_record,
    pack_blank,
    pack_record,
    peek_record,
)
from tests.unit.protocol.test_ids import hosts
from tests.unit.protocol.test_properties import property_maps

V1 = bytes.fromhex(
    "000000b0daa320a769c865ed00000003000000000000000000000007000000000001e240000000000000018bcfe568000a0000090000d4310000018bcfe5687b"
    "0a00000100002a9f0000000000000000000000000000000e48656c6c6f20526f636b65744d5109546f70696354657374003e554e49515f4b4559013041303030"
    "303039313045313138423441414332303030303030303130303030025441475301546167410257414954017472756502"
)
V1_IPV6 = bytes.fromhex(
    "0000007adaa320a758932aac00000003000000000000000000000007000000000001e240000000300000018bcfe5680020010db8000000000000000000000009"
    "0000d4310000018bcfe5687b20010db800000000000000000000000100002a9f0000000000000000000000000000000268690154000461016202"
)
V2 = bytes.fromhex(
    "000000e1daa320ab0cdc168300000003000000000000000000000007000000000001e240000000000000018bcfe568000a0000090000d4310000018bcfe5687b"
    "0a00000100002a9f0000000000000000000000000000000178008425524554525925676767676767676767676767676767676767676767676767676767676767"
    "67676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767"
    "676767676767676767676767676767676767676767676767676767676767670000"
)
GOLDEN = pytest.mark.parametrize("record", [V1, V1_IPV6, V2], ids=["v1", "ipv6", "v2"])

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
PLAIN_BITS = ~(sysflag.COMPRESSED | sysflag.HOSTS_MASK | sysflag.WRAPPED_BATCH)
messages = st.builds(
    ReceivedMessage,
    topics,
    st.binary(max_size=300),
    property_maps.filter(lambda properties: "__CRC32#" not in properties),
    flag=i32,
    queue_id=i32,
    queue_offset=i64,
    physical_offset=i64,
    sys_flag=i32.map(lambda flag: flag & PLAIN_BITS),
    born_timestamp=i64,
    born_host=hosts,
    store_timestamp=i64,
    store_host=hosts,
    reconsume_times=i32,
    prepared_transaction_offset=i64,
)


def fields(message: ReceivedMessage) -> dict[str, object]:
    slots = ("topic", "body", "flag", "properties", "transaction_id", *ReceivedMessage.__slots__)
    return {name: getattr(message, name) for name in slots}


def stored(body: bytes, **changes: object) -> ReceivedMessage:
    message = ReceivedMessage("t", body, {"TAGS": "A"}, queue_offset=7)
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def test_v1_record() -> None:
    message = decode_record(V1, check_crc=True)
    assert fields(message) == {
        "topic": "TopicTest",
        "body": b"Hello RocketMQ",
        "flag": 0,
        "properties": {"UNIQ_KEY": "0A00000910E118B4AAC2000000010000", "TAGS": "TagA", "WAIT": "true"},
        "transaction_id": None,
        "broker_name": "",
        "queue_id": 3,
        "queue_offset": 7,
        "physical_offset": 123456,
        "sys_flag": 0,
        "born_timestamp": 1700000000000,
        "born_host": Host("10.0.0.9", 54321),
        "store_timestamp": 1700000000123,
        "store_host": Host("10.0.0.1", 10911),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_crc": 1774740973,
        "store_size": 176,
        "fault": None,
    }
    assert message.offset_message_id == "0A00000100002A9F000000000001E240"
    assert message.message_id == "0A00000910E118B4AAC2000000010000"


def test_ipv6_record() -> None:
    message = decode_record(V1_IPV6, check_crc=True)
    assert message.sys_flag == 0x30
    assert (message.born_host, message.store_host) == (Host("2001:db8::9", 54321), Host("2001:db8::1", 10911))
    assert (message.body_crc, crc32(b"hi")) == (1486039724, 3633523372)
    assert message.message_id == "20010DB800000000000000000000000100002A9F000000000001E240"


def test_v2_record() -> None:
    message = decode_record(V2, check_crc=True)
    assert message.topic == "%RETRY%" + "g" * 125
    assert (message.body, message.properties) == (b"x", {})
    assert peek_record(V2, 0).magic == MAGIC_V2


@GOLDEN
def test_golden_records_are_written_again(record: bytes) -> None:
    assert encode_record(decode_record(record)) == record


@GOLDEN
def test_golden_records_as_the_store_sees_them(record: bytes) -> None:
    log = memoryview(b"\xaa" * 5 + record + record)
    message = decode_record(record)
    summary = check_record(log, 5, len(log), verify_crc=True, verify_record_crc=True)
    assert isinstance(summary, RecordSummary)
    assert summary == peek_record(log, 5)
    assert bytes(log[summary.body_start : summary.body_end]) == message.body
    assert (summary.size, summary.topic) == (len(record), message.topic)
    for name in ("queue_id", "queue_offset", "physical_offset", "sys_flag", "store_timestamp", "body_crc", "flag"):
        assert getattr(summary, name) == getattr(message, name)
    assert record.endswith(summary.properties)
    again = pack_record(
        summary.topic.encode(),
        log[summary.body_start : summary.body_end],
        summary.properties,
        summary.queue_id,
        summary.queue_offset,
        summary.physical_offset,
        summary.store_timestamp,
        summary.store_host,
        summary.born_timestamp,
        summary.born_host,
        summary.sys_flag,
    )
    assert again == record


@given(messages, st.booleans())
def test_round_trip(message: ReceivedMessage, record_crc: bool) -> None:
    record = encode_record(message, record_crc=record_crc)
    check_record(record, 0, len(record), verify_crc=True, verify_record_crc=record_crc)
    decoded = decode_record(memoryview(b"!" + record + b"?"), 1, check_crc=True)
    assert (decoded.properties.pop("__CRC32#", None) is not None) == record_crc
    message.store_size = len(record)
    message.body_crc = crc32(message.body) & 0x7FFFFFFF
    message.sys_flag |= 0x10 if ":" in message.born_host.ip else 0
    message.sys_flag |= 0x20 if ":" in message.store_host.ip else 0
    assert fields(decoded) == fields(message)


def test_magic_follows_the_topic() -> None:
    assert peek_record(encode_record(stored(b"x", topic="t" * 127)), 0).magic == MAGIC_V1
    assert peek_record(encode_record(stored(b"x", topic="t" * 128)), 0).magic == MAGIC_V2
    # 43 characters but 129 bytes
    assert decode_record(encode_record(stored(b"x", topic="主" * 43))).topic == "主" * 43


# P-14
def test_address_bits_follow_the_addresses_in_both_directions() -> None:
    stale = encode_record(stored(b"x", sys_flag=0x3A))
    assert peek_record(stale, 0).sys_flag == 0x0A
    for born, store, bits in (("::1", "1.2.3.4", 0x10), ("1.2.3.4", "::1", 0x20), ("::1", "::2", 0x30)):
        record = encode_record(stored(b"x", born_host=Host(born, 1), store_host=Host(store, 2)))
        decoded = decode_record(record)
        assert decoded.sys_flag == bits
        assert (decoded.born_host.ip, decoded.store_host.ip) == (born, store)
    mapped = encode_record(stored(b"x", born_host=Host("::ffff:10.0.0.9", 1)))
    assert decode_record(mapped).born_host == Host("10.0.0.9", 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"flag": 2**31},
        {"queue_offset": 2**63},
        {"queue_id": -(2**31) - 1},
        {"topic": "t" * 40_000},
        {"topic": "t" * 70_000},
        {"topic": "\ud800"},
        {"properties": {"a": "x" * 32767}},
        {"born_host": Host("nowhere", 1)},
    ],
)
def test_what_does_not_fit_a_record(changes: dict[str, object]) -> None:
    with pytest.raises(MessageError):
        encode_record(stored(b"x", **changes))


def test_packing_refuses_properties_that_do_not_fit() -> None:
    host = pack_host(("10.0.0.1", 1))
    with pytest.raises(MessageError, match="cannot be written"):
        pack_record(b"t", b"x", b"p" * 32768, 0, 0, 0, 0, host, 0, host)
    with pytest.raises(MessageError, match="cannot be written"):
        pack_record(b"t", b"x", b"p" * 32760, 0, 0, 0, 0, host, 0, host, record_crc=True)


# P-90
@pytest.mark.parametrize("kind", list(CompressionType))
def test_compressed_bodies_are_inflated_and_the_bit_cleared(kind: CompressionType) -> None:
    body = b"Hello RocketMQ " * 400
    frame = compress(body, kind)
    record = encode_record(stored(frame, sys_flag=kind.flag))
    message = decode_record(record, check_crc=True)
    assert (message.body, message.sys_flag) == (body, kind.flag & ~sysflag.COMPRESSED)
    raw = decode_record(record, decompress=False)
    assert (raw.body, raw.sys_flag) == (frame, kind.flag)
    with pytest.raises(MessageError, match="more than 100 bytes"):
        decode_record(record, max_body=100)


def test_body_crc() -> None:
    broken = bytearray(V1)
    broken[88] ^= 1
    assert decode_record(broken).body == b"Iello RocketMQ"
    for call in (
        lambda: decode_record(broken, check_crc=True),
        lambda: decode_records(broken, check_crc=True),
        lambda: check_record(broken, 0, len(broken), verify_crc=True),
    ):
        with pytest.raises(RecordError, match="CRC"):
            call()
    check_record(broken, 0, len(broken), verify_crc=False)


def test_record_crc() -> None:
    host = pack_host(("10.0.0.1", 1))
    record = pack_record(b"t", b"body", b"a\x01b", 0, 0, 0, 0, host, 0, host, record_crc=True)
    head, entry = record[:-20], record[-20:]
    digits = str(crc32(head) & 0x7FFFFFFF).rjust(10, "0")[::-1]
    assert entry == b"__CRC32#\x01" + digits.encode() + b"\x02"
    assert decode_record(record).properties == {"a": "b", "__CRC32#": digits}
    check_record(record, 0, len(record), verify_crc=False, verify_record_crc=True)
    for position in range(8, len(head)):
        broken = bytearray(record)
        broken[position] ^= 0x04
        with pytest.raises(RecordError):
            check_record(broken, 0, len(broken), verify_crc=False, verify_record_crc=True)
    # A record without the checksum falls back to that of its body.
    broken = bytearray(V1)
    broken[88] ^= 1
    with pytest.raises(RecordError, match="CRC"):
        check_record(broken, 0, len(broken), verify_crc=True, verify_record_crc=True)


def test_blank() -> None:
    assert pack_blank(4096) == bytes.fromhex("00001000cbd43194")
    assert check_record(pack_blank(4096), 0, 8, verify_crc=True) == Blank(4096)
    log = V1 + pack_blank(8)
    assert check_record(log, len(V1), len(log), verify_crc=True) == Blank(8)
    with pytest.raises(RecordError, match="magic"):
        decode_records(V1 + pack_blank(200) + bytes(192))


@GOLDEN
def test_every_cut_is_noticed(record: bytes) -> None:
    for end in range(len(record)):
        for call in (decode_record, lambda buf: peek_record(buf, 0)):
            with pytest.raises(RecordError):
                call(record[:end])
        with pytest.raises(RecordError):
            check_record(record, 0, end, verify_crc=False)
        if end:
            with pytest.raises(RecordError):
                decode_records(record[:end])


def test_offsets_outside_the_buffer() -> None:
    for offset in (-1, -len(V1), 1, len(V1), 10**9):
        for call in (decode_record, peek_record, lambda buf, at: check_record(buf, at, len(buf), verify_crc=False)):
            with pytest.raises(RecordError):
                call(V1, offset)


def test_wrong_lengths_inside_a_record_tell_its_size() -> None:
    for position, value in ((87, 0x0F), (84, 0xFF), (84, 0x7F), (102, 0xFF), (102, 0x08), (112, 0xFF), (113, 0x3F)):
        broken = bytearray(V1)
        broken[position] = value
        with pytest.raises(RecordError) as caught:
            peek_record(broken, 0)
        assert caught.value.size == len(V1)
    broken = bytearray(V1)
    broken[7] = 0
    with pytest.raises(RecordError, match="0xdaa32000") as caught:
        peek_record(broken, 0)
    assert caught.value.size == 0
    bits = bytearray(encode_record(stored(b"")))
    bits[39] = 0x30
    with pytest.raises(RecordError, match="IPv6"):
        peek_record(bits, 0)


def test_topic_length_of_v1_is_a_signed_byte() -> None:
    long = encode_record(stored(b"x", topic="t" * 200))
    broken = (len(long) - 1).to_bytes(4) + MAGIC_V1.to_bytes(4, signed=True) + long[8:89] + long[90:]
    with pytest.raises(RecordError, match="topic of 200 bytes"):
        peek_record(broken, 0)


def test_topics_must_be_text() -> None:
    host = pack_host(("10.0.0.1", 1))
    record = pack_record(b"\xff\xfe", b"x", b"", 0, 0, 0, 0, host, 0, host)
    for call in (decode_record, lambda buf: peek_record(buf, 0)):
        with pytest.raises(RecordError, match="UTF-8") as caught:
            call(record)
        assert caught.value.size == len(record)


def test_pull_bodies() -> None:
    assert decode_records(b"") == []
    assert [m.topic[:6] for m in decode_records(memoryview(V1 + V1_IPV6 + V2))] == ["TopicT", "T", "%RETRY"]


def test_what_came_before_an_error_is_not_lost() -> None:
    with pytest.raises(RecordError) as caught:
        decode_records(V1 + V2 + V1_IPV6[:-1])
    assert [message.store_size for message in caught.value.decoded] == [len(V1), len(V2)]
    bomb = encode_record(stored(b"no zlib", sys_flag=sysflag.COMPRESSED))
    with pytest.raises(RecordError, match="ZLIB") as caught:
        decode_records(V1 + bomb + V1)
    assert len(caught.value.decoded) == 1


def test_inflated_bodies_of_one_buffer_have_a_common_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.protocol.records.record.MAX_INFLATED_RECORDS", 250_000)
    record = encode_record(stored(compress(bytes(100_000), CompressionType.ZLIB), sys_flag=CompressionType.ZLIB.flag))
    plain = encode_record(stored(bytes(300_000)))
    assert len(decode_records(plain + record * 2 + plain)) == 4
    with pytest.raises(RecordError, match="inflates to more than") as caught:
        decode_records(record * 9)
    assert len(caught.value.decoded) == 2


@pytest.mark.parametrize("compressed", [False, True])
def test_inner_batches_are_unwrapped(compressed: bool) -> None:
    body = encode_batch([Message("t", b"m1", tags="A"), Message("t", b"m2")])
    flag = sysflag.WRAPPED_BATCH
    if compressed:
        body, flag = compress(body, CompressionType.LZ4), flag | CompressionType.LZ4.flag
    record = encode_record(stored(body, sys_flag=flag))
    unwrapped = decode_records(V1 + record + V1)
    assert [(m.queue_offset, m.body, m.tags) for m in unwrapped[1:3]] == [(7, b"m1", "A"), (8, b"m2", None)]
    assert len(unwrapped) == 4
    assert decode_record(record).sys_flag & sysflag.WRAPPED_BATCH == sysflag.WRAPPED_BATCH
    # Only both bits together ask for it, and a body left compressed cannot be unwrapped.
    half = encode_record(stored(body, sys_flag=flag & ~sysflag.NEED_UNWRAP))
    assert len(decode_records(half)) == 1
    assert len(decode_records(record, decompress=False)) == (1 if compressed else 2)
    with pytest.raises(RecordError, match="batch") as caught:
        decode_records(V1 + encode_record(stored(b"no batch", sys_flag=sysflag.WRAPPED_BATCH)))
    assert len(caught.value.decoded) == 1
