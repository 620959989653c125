"""Records become the same Arrow columns, faults and errors with the core and without it."""

import gc
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq import native
from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.decoder import Rows, arrow_columns, decode, pulled_columns
from pyromq.arrow.errors import RowsError
from pyromq.arrow.policy import CorruptRecords
from pyromq.arrow.pulled import Pulled
from pyromq.arrow.recordlayout import plain_starts, walk
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import RowSpec, Segment
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import encode_record, pack_record
from tests.unit.arrow.test_decoder import records
from tests.unit.native import samples
from tests.unit.native.twins import agree, needs_core, twins

pytestmark = needs_core

HOST = pack_host(Host("127.0.0.1", 10911))
BUFFERS = samples.damaged(st.one_of(samples.PULLED, st.lists(records(), max_size=6).map(b"".join)))
SPECS = st.builds(
    RowSpec,
    st.lists(st.sampled_from(list(COLUMNS)), unique=True).map(tuple) | st.just(tuple(COLUMNS)),
    text_properties=st.booleans(),
    text_body=st.booleans(),
    decompress=st.booleans(),
    verify_crc=st.booleans(),
    corrupt=st.sampled_from(CorruptRecords),
    tags=st.none() | st.frozensets(st.sampled_from(["t", "a", "größe", ""]), max_size=2),
)
OFFSETS = st.sampled_from([-(1 << 63), -5, 0, 1, 2, 20, (1 << 63) - 1])
TOPICS = st.sampled_from(["orders", "größe", "", None])
SEGMENTS = st.lists(
    st.builds(Segment, st.just(0), TOPICS, st.sampled_from(["a", "ß"]), OFFSETS, OFFSETS, st.sampled_from([0, 1, -7])),
    min_size=1,
    max_size=3,
)


class Outcome(NamedTuple):
    """What came of one call."""

    length: int
    columns: list[tuple[str, pa.DataType, list[Any]]]
    corrupt: int
    faults: list[str]
    error: tuple[type[Exception], str] | None = None


def outcome(*arguments: Any, core: bool) -> Outcome:
    native.core.on = core
    try:
        rows: Rows = decode(*arguments)
    except (RowsError, OverflowError) as error:
        return Outcome(0, [], 0, [], (type(error), str(error)))
    finally:
        native.core.on = True
    for column in rows.columns.values():
        column.validate(full=True)
    columns = [(name, column.type, column.to_pylist()) for name, column in rows.columns.items()]
    return Outcome(rows.length, columns, rows.corrupt, list(rows.faults))


def same(buffer: bytes, starts: Any, segments: list[Segment], spec: RowSpec, owner: Any) -> Outcome:
    """What both do."""
    expected = outcome(buffer, starts, segments, spec, owner, core=False)
    assert outcome(buffer, starts, segments, spec, owner, core=True) == expected
    return expected


@given(BUFFERS, SPECS, SEGMENTS, st.data())
def test_any_bytes_make_the_same_rows(
    buffer: bytes, spec: RowSpec, segments: list[Segment], data: st.DataObject
) -> None:
    starts = walk(buffer)
    owner = data.draw(st.lists(st.integers(0, len(segments) - 1), min_size=len(starts), max_size=len(starts)))
    same(buffer, starts, segments, spec, np.array(owner, np.int64))


@given(st.lists(records(), min_size=1, max_size=6), SPECS, st.data())
def test_records_that_were_damaged_since_they_were_found(made: list[bytes], spec: RowSpec, data: st.DataObject) -> None:
    buffer = bytearray(b"".join(made))
    starts = walk(bytes(buffer))
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    segments = [Segment(len(starts), data.draw(TOPICS), "broker-a", start=-(2**63))]
    same(bytes(buffer), starts, segments, spec, np.zeros(len(starts), np.int64))


@given(st.lists(BUFFERS, min_size=1, max_size=3), SPECS, st.data())
def test_answers_to_pulls_make_the_same_rows(bodies: list[bytes], spec: RowSpec, data: st.DataObject) -> None:
    shape = RowShape(pa.schema([(name, kind_of(name, spec)) for name in spec.columns]), spec, None)
    places = [data.draw(SEGMENTS)[0] for _ in bodies]

    def made(*, core: bool) -> Any:
        native.core.on = core
        pulled = Pulled()
        try:
            for body, (_, topic, broker, start, end, delta) in zip(bodies, places, strict=True):
                pulled.add(memoryview(body), topic or "t", broker, start, end, delta)
            return [batch.to_pylist() for batch in pulled.batches(shape)]
        except (RowsError, OverflowError) as error:
            return type(error), str(error)
        finally:
            native.core.on = True

    assert made(core=True) == made(core=False)


def kind_of(name: str, spec: RowSpec) -> pa.DataType:
    texts = {"properties"} if spec.text_properties else set()
    return pa.string() if name in texts or (name == "body" and spec.text_body) else COLUMNS[name]


def test_answers_are_taken_whole_or_not_at_all() -> None:
    spec, two = RowSpec(tuple(COLUMNS), verify_crc=True), [Segment(1, "t", "a"), Segment(1, "u", "b")]
    call = twins(pulled_columns).native
    plain = list(PLAIN.values())[:2]
    found = pa.record_batch(call(plain, two, spec))
    assert found.column("topic").to_pylist() == ["t", "u"]
    assert found.column("brokerName").to_pylist() == ["a", "b"]
    assert call(plain, two[:1], spec) is None
    assert len(call([], [], spec)) == 0
    odd_ones = [made for name, made in ODD.items() if name != "topic"]  # which segments say here
    for odd in (*odd_ones, plain[0][:-1], plain[0] + b"\0\0\0"):
        assert call([plain[0], odd], two, spec) is None


@given(BUFFERS, st.integers(0, 100))
@example(b"", 0)
@example(b"\0" * 91, 0)
def test_starts(buffer: bytes, start: int) -> None:
    agree(plain_starts, buffer, start)
    agree(plain_starts, memoryview(buffer), start)


def record(properties: bytes, body: bytes = b"x", *, flag: int = 0, host: bytes = HOST, topic: bytes = b"t") -> bytes:
    return pack_record(topic, body, properties, 1, 2, 3, 1_700_000_000_000, HOST, -(2**63), host, flag)


PLAIN = {
    "no properties": record(b""),
    "a name twice": record(b"a\x011\x02TAGS\x01t\x02a\x012\x02TAGS\x01u\x02"),
    "a long topic": record(b"", topic=b"t" * 200),
    "JSON": record(bytes(range(3, 32)) + b'"\\\x7f\x01\xc3\xa4"\\/ \x1f\x02'),
}
ODD = {
    "compressed": record(b"", b"no stream", flag=sysflag.COMPRESSED),
    "inner batch": record(b"", b"", flag=sysflag.WRAPPED_BATCH),
    "IPv6": record(b"", host=pack_host(Host("::1", 1))),
    "properties": record(b"a\x01\xff\x02"),
    "many properties": record(b"".join(b"%d\x011\x02" % number for number in range(65))),
    "topic": record(b"", topic=b"\xff"),
    "magic": record(b"")[:4] + b"\0" + record(b"")[5:],
    "checksum": record(b"", b"hello").replace(b"hello", b"jello"),
}


@pytest.mark.parametrize("made", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("text", [False, True])
def test_what_is_plain_is_left_to_the_core(made: bytes, text: bool) -> None:
    spec = RowSpec(tuple(COLUMNS), verify_crc=True, text_properties=text, text_body=text)
    rows = np.zeros(1, np.int64).view(np.uint8)
    found = twins(arrow_columns).native(made, rows, rows, [Segment(1, None, "a")], spec)
    assert len(found[0]) == 1
    assert found[1:] == (bytes(8), b"")
    assert same(made, walk(made), [Segment(1, None, "a")], spec, np.zeros(1, np.int64)).length == 1


@pytest.mark.parametrize("made", ODD.values(), ids=ODD)
def test_what_is_odd_is_left_to_python(made: bytes) -> None:
    spec = RowSpec(tuple(COLUMNS), verify_crc=True, corrupt=CorruptRecords.KEEP)
    rows = np.zeros(1, np.int64).view(np.uint8)
    assert twins(arrow_columns).native(made, rows, rows, [Segment(1, None, "a")], spec)[1:] == (b"", bytes(8))
    among = b"".join((PLAIN["a name twice"], made, PLAIN["no properties"], made))
    for each in (spec, replace(spec, corrupt=CorruptRecords.FAIL), replace(spec, corrupt=CorruptRecords.SKIP)):
        same(among, walk(among), [Segment(4, None, "a")], each, np.zeros(4, np.int64))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 400), max_size=4))
def test_starts_may_be_anywhere(starts: list[int]) -> None:
    buffer = record(b"a\x01b\x02") * 3
    rows = np.array(starts, np.int64).view(np.uint8)
    owners = np.zeros(len(starts), np.int64).view(np.uint8)
    columns, kept, left = twins(arrow_columns).native(
        buffer, rows, owners, [Segment(0, "t", "a")], RowSpec(tuple(COLUMNS))
    )
    assert len(columns) * 8 == len(kept)
    assert len(kept) + len(left) == 8 * len(starts)


def test_owners_without_a_segment_are_nothing_to_the_core() -> None:
    one = np.ones(1, np.int64).view(np.uint8)
    call = twins(arrow_columns).native
    spec = RowSpec(("body",))
    assert call(b"", one, one, [Segment(1, "t", "a")], spec) is None
    assert call(b"", one, one[:0], [Segment(1, "t", "a")], spec) is None
    assert call(b"", one, one, [], spec) is None
    assert call(b"", one[:0], one[:0], [], RowSpec(("unheard of",))) is None


def test_columns_may_be_taken_any_number_of_times_and_outlive_all_else() -> None:
    buffer = b"".join(
        encode_record(ReceivedMessage("t", b"%d" % number, {"a": str(number)}, queue_offset=number))
        for number in range(3)
    )
    starts = walk(buffer)
    arguments = starts.view(np.uint8), np.zeros(3, np.int64).view(np.uint8), [Segment(3, "t", "a")]
    columns = twins(arrow_columns).native(buffer, *arguments, RowSpec(("body", "properties")))[0]
    columns.__arrow_c_array__()  # nobody takes what is in these
    columns.__arrow_c_schema__()
    first, second = pa.record_batch(columns), pa.record_batch(columns)
    schema = pa.schema(columns)
    bodies = first.column("body")
    del columns, first, buffer
    gc.collect()
    assert bodies.to_pylist() == [b"0", b"1", b"2"]
    assert second.column("properties").to_pylist() == [[("a", str(number))] for number in range(3)]
    assert schema == pa.schema([("body", COLUMNS["body"]), ("properties", COLUMNS["properties"])])
    assert second.schema == schema
