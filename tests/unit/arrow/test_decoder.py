"""The vectorised decoder gives what the scalar one gives, for any record. # SP-02"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.arrow import scalar
from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.decoder import decode
from pyromq.arrow.errors import ReadError
from pyromq.arrow.policy import CorruptRecords
from pyromq.arrow.recordlayout import walk
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import RowSpec, Segment
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import decode_records, encode_record, pack_record
from pyromq.spark.options import read_options
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.task.rowplan import row_shape

ALL = RowSpec(tuple(COLUMNS))
HOSTS = st.sampled_from([Host("127.0.0.1", 10911), Host("10.2.3.4", 1), Host("::1", 9), Host("fe80::1:2", 65535)])
LONG = st.integers(-(2**63), 2**63 - 1)
OFFSET = st.integers(-(2**62), 2**62)
INT = st.integers(-(2**31), 2**31 - 1)
NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "größe", "x" * 40])
# Raw text: repeated names, empty values, missing separators, bytes that are not UTF-8.
RAW_PROPERTIES = st.one_of(
    st.lists(st.tuples(NAMES, st.text(max_size=8)), max_size=6).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode("utf-8", "replace")
    ),
    st.binary(max_size=24),
    st.lists(
        st.sampled_from([b"TAGS\x01t\x02", b"\x02", b"\x01", b"a\x01b", b"UNIQ_KEY\x01\x02", b"\xff\x01\xfe"])
    ).map(b"".join),
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=64))
    flag = draw(st.sampled_from([0, sysflag.COMMIT, sysflag.MULTI_TAGS]))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(CompressionType))
        body, flag = compress(body, kind), flag | sysflag.COMPRESSED | kind << sysflag.COMPRESSION_SHIFT
    elif draw(st.integers(0, 9)) == 0:
        items = [Message("t", draw(st.binary(max_size=9)), tags=draw(st.sampled_from([None, "t"]))) for _ in range(3)]
        body, flag = encode_batch(items), flag | sysflag.WRAPPED_BATCH
    topic = draw(st.one_of(st.sampled_from([b"orders", b"t" * 127, b"t" * 200]), st.text(max_size=9).map(str.encode)))
    return pack_record(
        topic,
        body,
        draw(RAW_PROPERTIES),
        draw(INT),
        draw(OFFSET),
        draw(LONG),
        draw(LONG),
        pack_host(draw(HOSTS)),
        draw(st.one_of(LONG, st.just(1_700_000_000_000))),
        pack_host(draw(HOSTS)),
        flag,
        draw(INT),
        draw(INT),
        draw(LONG),
    )


def rows_of(columns: dict[str, pa.Array]) -> dict[str, list[Any]]:
    return {name: column.to_pylist() for name, column in columns.items()}


def expected(buffer: bytes, names: tuple[str, ...] = ALL.columns) -> dict[str, list[Any]]:
    messages = decode_records(buffer)
    for message in messages:
        message.broker_name = "broker-a"
    return rows_of(scalar.arrays(messages, names))


@given(st.lists(records(), max_size=8))
def test_equals_the_scalar_decoder(made: list[bytes]) -> None:  # SP-02
    buffer = b"".join(made)
    starts = walk(buffer)
    rows = decode(buffer, starts, [Segment(len(starts), None, "broker-a", start=-(2**63))], ALL)
    for name, column in rows.columns.items():
        column.validate(full=True)
        assert column.type == COLUMNS[name]
    assert rows_of(rows.columns) == expected(buffer)


@given(st.lists(records(), min_size=1, max_size=8))
def test_rows_outlive_the_buffer(made: list[bytes]) -> None:
    space = bytearray(b"".join(made))  # the reader of files fills one again and again
    starts = walk(bytes(space))
    rows = decode(memoryview(space), starts, [Segment(len(starts), None, "broker-a", start=-(2**63))], ALL)
    before = expected(bytes(space))
    space[:] = bytes(len(space))
    assert rows_of(rows.columns) == before


def test_records_belong_to_segments_in_any_order() -> None:
    host = pack_host(Host("127.0.0.1", 1))
    made = [pack_record(b"t", b"%d" % number, b"", 0, number, 0, 5, host, 4, host) for number in range(6)]
    starts = np.repeat(walk(b"".join(made)), 2)  # one record may be in two queues, as Apache's light ones are
    segments = [Segment(0, "first", "a", 0, 4), Segment(0, "second", "b", 11, 16, delta=10)]
    spec = RowSpec(("topic", "brokerName", "queueOffset", "body"))
    rows = decode(b"".join(made), starts, segments, spec, np.tile(np.array([0, 1]), 6))
    assert list(zip(*rows_of(rows.columns).values(), strict=True)) == [
        (topic, broker, number + delta, b"%d" % number)
        for number in range(6)
        for topic, broker, delta, own in (("first", "a", 0, range(4)), ("second", "b", 10, range(1, 6)))
        if number in own
    ]


@given(st.lists(records(), min_size=1, max_size=5), st.data())
def test_damage_is_an_error_of_ours_or_a_row_less(made: list[bytes], data: st.DataObject) -> None:
    buffer = bytearray(b"".join(made))
    starts = walk(bytes(buffer))
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    segments = [Segment(len(starts), None, "broker-a", start=-(2**63))]
    skipping = RowSpec(tuple(COLUMNS), corrupt=CorruptRecords.SKIP, decompress=False)
    rows = decode(bytes(buffer), starts, segments, skipping)
    for column in rows.columns.values():
        column.validate(full=True)
    try:
        decode(bytes(buffer), starts, segments, RowSpec(tuple(COLUMNS), decompress=False))
    except ReadError:
        assert rows.corrupt
    else:
        assert not rows.corrupt


def message(offset: int, body: bytes = b"x", **properties: str) -> bytes:
    return encode_record(
        ReceivedMessage("orders", body, properties, queue_offset=offset, store_timestamp=1_700_000_000_123)
    )


def decoded(buffer: bytes, spec: RowSpec, **segment: Any) -> dict[str, list[Any]]:
    starts = walk(buffer)
    return rows_of(decode(buffer, starts, [Segment(len(starts), "orders", "broker-a", **segment)], spec).columns)


def test_keeps_the_range_only() -> None:
    buffer = b"".join(message(offset) for offset in range(10))
    assert decoded(buffer, RowSpec(("queueOffset",)), start=3, end=6) == {"queueOffset": [3, 4, 5]}
    assert decoded(buffer, RowSpec(("queueOffset",)), start=13, end=15, delta=10) == {"queueOffset": [13, 14]}


def test_compares_the_text_of_tags() -> None:  # SP-08
    buffer = message(0, TAGS="Aa") + message(1, TAGS="BB") + message(2)
    spec = RowSpec(("queueOffset", "tags"), tags=frozenset({"Aa"}))  # the hashes of Aa and BB are equal
    assert decoded(buffer, spec) == {"queueOffset": [0], "tags": ["Aa"]}


def test_no_body_is_touched_without_the_column() -> None:  # SP-07
    broken = message(0, b"not compressed at all")
    starts = walk(broken)
    flagged = bytearray(broken)
    flagged[39] |= sysflag.COMPRESSED
    segments = [Segment(1, "orders", "broker-a")]
    rows = decode(bytes(flagged), starts, segments, RowSpec(("queueOffset",)))
    assert rows.columns["queueOffset"].to_pylist() == [0]
    with pytest.raises(ReadError, match="broken ZLIB body"):
        decode(bytes(flagged), starts, segments, RowSpec(("body",)))


def test_checks_bodies_on_request() -> None:
    buffer = bytearray(message(0, b"hello"))
    buffer[buffer.index(b"hello")] ^= 1
    starts = walk(bytes(buffer))
    segments = [Segment(1, "orders", "broker-a")]
    assert decode(bytes(buffer), starts, segments, RowSpec(("queueOffset",))).length == 1
    with pytest.raises(ReadError, match="checksum"):
        decode(bytes(buffer), starts, segments, RowSpec(("queueOffset",), verify_crc=True))


def test_text_forms() -> None:
    buffer = message(0, b"gr\xc3\xb6\xc3\x9fe", a="b") + message(1, b"\xff")
    spec = RowSpec(("body", "properties"), text_properties=True, text_body=True)
    assert decoded(buffer, spec) == {"body": ["größe", "\ufffd"], "properties": ['{"a":"b"}', "{}"]}


def test_walk_finds_the_next_record_behind_a_broken_one() -> None:
    buffer = message(0) + message(1)
    half = len(buffer) // 2
    assert walk(buffer).tolist() == [0, half]
    assert walk(buffer[:-1]).tolist() == [0, half]
    assert walk(buffer + b"\0").tolist() == [0, half, len(buffer)]
    assert walk(b"\0" * 100).tolist() == [0]
    for size in (0, 50, 2**31 - 1):
        assert walk(size.to_bytes(4) + buffer[4:] + buffer).tolist() == [0, half, 2 * half, 3 * half]
    assert walk(b"").tolist() == []
    assert isinstance(walk(b""), np.ndarray)


KEPT = RowSpec(("queueOffset", "body", "fault"), verify_crc=True, corrupt=CorruptRecords.KEEP)


def packed(offset: int, body: bytes, flag: int) -> bytes:
    return encode_record(ReceivedMessage("orders", body, {}, queue_offset=offset, sys_flag=flag))


def flipped(record: bytes, at: int, value: bytes) -> bytes:
    return record[:at] + value + record[at + len(value) :]


BOMB = compress(bytes(70 << 20), CompressionType.ZLIB)
BAD = {
    "no stream": packed(1, b"no stream", sysflag.COMPRESSED),
    "unknown compression": packed(1, b"no stream", sysflag.COMPRESSED | 0x700),
    "bomb": packed(1, BOMB, CompressionType.ZLIB.flag),
    "body": flipped(message(1, b"hello"), 88, b"j"),
    "no inner batch": packed(1, b"no batch", sysflag.WRAPPED_BATCH),
    "size zero": flipped(message(1), 0, bytes(4)),
    "size huge": flipped(message(1), 0, b"\x7f\xff\xff\xff"),
    "magic": flipped(message(1), 4, b"\x00"),
    "body length": flipped(message(1), 84, b"\x7f"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_damaged_record_is_kept_skipped_or_ends_the_query(bad: bytes) -> None:
    buffer = message(0, b"first") + bad + message(2, b"last")
    rows = decoded(buffer, KEPT, start=0, end=3)
    assert rows["queueOffset"] == [0, 1, 2]
    assert (rows["body"][0], rows["body"][2]) == (b"first", b"last")
    assert rows["body"][1] in bad
    assert [fault is None for fault in rows["fault"]] == [True, False, True]
    skipping = replace(KEPT, corrupt=CorruptRecords.SKIP)
    assert decoded(buffer, skipping, start=0, end=3)["body"] == [b"first", b"last"]
    with pytest.raises(ReadError, match="corruptRecords=keep"):
        decoded(buffer, replace(KEPT, corrupt=CorruptRecords.FAIL), start=0, end=3)


def test_damaged_json_bodies_are_not_looked_into() -> None:
    buffer = message(0, b'{"id": 1}') + flipped(message(1, b'{"id": 2}'), 88 + 7, b"3") + message(2, b'{"id": 4}')
    schema = pa.schema([("id", pa.int64()), ("_error", pa.string()), ("_body", pa.binary())])
    options = read_options(
        SourceOptions,
        {"nameServer": "a:1", "topic": "orders", "bodyFormat": "json", "bodySchema": "id bigint", "badRecords": "keep"},
    )
    shape = row_shape(options, schema, corrupt=options.corrupt_records)
    batch = shape.batch(buffer, walk(buffer), [Segment(3, "orders", "broker-a")])
    assert batch.column("id").to_pylist() == [1, None, 4]
    assert "checksum" in batch.column("_error")[1].as_py()
    assert batch.column("_body").to_pylist() == [None, b'{"id": 3}', None]


def test_bodies_that_are_too_much_for_one_go_come_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.arrow.decoder.MAX_INFLATED", 1 << 20)
    monkeypatch.setattr("pyromq.arrow.decoder.MAX_INFLATED_RECORDS", 3 << 20)
    body = compress(bytes(1 << 20), CompressionType.ZLIB)
    buffer = b"".join(packed(number, body, CompressionType.ZLIB.flag) for number in range(8))
    shape = RowShape(pa.schema([("body", pa.binary())]), RowSpec(("body",)), None)
    found = list(shape.batches(buffer, walk(buffer), [Segment(8, "orders", "broker-a")]))
    assert len(found) > 1
    assert [len(row) for batch in found for row in batch.column("body").to_pylist()] == [1 << 20] * 8
