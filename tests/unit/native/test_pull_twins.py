"""Pulls: the native core picks, checks, gathers and writes heads as Python does, whatever the bytes."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, Serialization, encode_head
from pyromq.protocol.headers.consume import PullMessageResponseHeader, pull_head
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.protocol.records.record import pack_record
from pyromq.store.queue.offsettime import FILLER_SIZE
from pyromq.store.queue.scan import TagCodes, are_sound, gather, scan_entries
from tests.unit.native.samples import INTS, LONGS, RECORDS, mutated
from tests.unit.native.twins import agree, needs_core

FILE_SIZE = 4096
HOST = Host("10.0.0.1", 10911)
CODES = st.sampled_from([0, 1, -1, 2598919, -2598919, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40])


@st.composite
def queues(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Entries as a broker makes them: places grow, with gaps, fillers and the ends of files."""
    place = draw(st.integers(0, 2 * FILE_SIZE))
    entries = []
    for _ in range(draw(st.integers(0, 80))):
        size = draw(st.integers(1, 400))
        if place // FILE_SIZE != (place + size - 1) // FILE_SIZE and draw(st.integers(0, 9)):
            place += FILE_SIZE - place % FILE_SIZE
        filler = draw(st.integers(0, 30)) == 0
        entries.append((0, FILLER_SIZE, 0) if filler else (place, size, draw(CODES)))
        if not filler:
            place += size + draw(st.sampled_from([0, 0, 0, 0, 7, FILE_SIZE]))
    return entries


HOSTILE = st.lists(
    st.tuples(
        st.one_of(LONGS, st.integers(0, 2 * FILE_SIZE)),
        st.one_of(INTS, st.integers(-1, 300), st.just(FILLER_SIZE)),
        st.one_of(LONGS, CODES),
    ),
    max_size=70,
)
LIMITS = st.tuples(st.integers(-1, 30_000), st.integers(-1, 70))


def _packed(entries: list[tuple[int, int, int]]) -> bytes:
    return b"".join(ENTRY.pack(*entry) for entry in entries)


@needs_core
@given(
    entries=st.one_of(queues(), HOSTILE).map(_packed),
    index=st.integers(0, 5),
    available=st.integers(0, 90),
    max_count=st.one_of(st.integers(-1, 70), INTS),
    limits=st.tuples(LIMITS, LIMITS),
    begin=st.integers(0, FILE_SIZE),
    length=st.one_of(st.just(1 << 20), st.integers(0, 40_000), st.just(1 << 40)),
    resident=st.one_of(st.just(1 << 40), st.integers(0, 20_000)),
    codes=st.one_of(st.none(), st.lists(CODES, max_size=9).map(lambda codes: TagCodes(codes).packed)),
    kind=st.sampled_from([bytes, bytearray, memoryview]),
)
def test_the_same_entries_are_picked(
    entries: bytes,
    index: int,
    available: int,
    max_count: int,
    limits: tuple[tuple[int, int], tuple[int, int]],
    begin: int,
    length: int,
    resident: int,
    codes: bytes | None,
    kind: type,
) -> None:
    log = begin, begin + length, resident, FILE_SIZE
    agree(scan_entries, kind(entries), index, available, max_count, *limits, log, codes)


@given(st.lists(CODES, max_size=9), st.one_of(LONGS, CODES))
def test_codes_are_packed_as_they_are_compared(codes: list[int], code: int) -> None:
    chosen = TagCodes(codes)
    entry = ENTRY.pack(0, 10, code)
    picked = scan_entries(entry, 0, 1, 1, (100, 10), (100, 10), (0, 10, 10, 10), chosen.packed)
    assert picked[3] == chosen(code)


@needs_core
@given(
    binary=st.booleans(),
    code=st.one_of(INTS, st.sampled_from([0, 19, 20, 21])),
    opaque=INTS,
    version=st.integers(0, 500),
    remark=st.sampled_from(["FOUND", "NO_MATCHED_MESSAGE", ""]),
    numbers=st.tuples(LONGS, LONGS, LONGS, LONGS),
    size=st.one_of(st.integers(0, 1 << 24), st.just(0)),
)
def test_heads_are_the_same_bytes(
    binary: bool, code: int, opaque: int, version: int, remark: str, numbers: tuple[int, ...], size: int
) -> None:
    agree(pull_head, binary, code, opaque, version, remark, numbers, size)


@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_head_is_what_a_reply_would_be(serialization: Serialization) -> None:
    request = Command(11, opaque=77, serialization=serialization)
    header = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=32, min_offset=1, max_offset=99)
    expected = encode_head(request.reply(ResponseCode.SUCCESS, header, remark="FOUND"), 1234)
    version = Command(0).version
    assert pull_head(bool(serialization), 0, 77, version, "FOUND", (0, 32, 1, 99), 1234) == expected


@needs_core
@given(
    head=st.binary(max_size=40),
    log=st.binary(max_size=200),
    start=st.integers(0, 1 << 40),
    runs=st.lists(st.tuples(st.integers(-5, 210), st.integers(0, 60)), max_size=6),
)
def test_records_are_gathered_alike(head: bytes, log: bytes, start: int, runs: list[tuple[int, int]]) -> None:
    places = [(start + begin, start + begin + size) for begin, size in runs]
    agree(gather, head, memoryview(log), start, places)


_OFFSETS = Struct(">qq")


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, bytes, int, int]:
    """Records, with gaps or none, their queue entries, where in the log they begin, and the number of the first."""
    start, first = draw(st.sampled_from([0, 1 << 30])), draw(st.integers(0, 1 << 40))
    log, entries = bytearray(), []
    for number in range(draw(st.integers(1, 6))):
        record = bytearray(draw(RECORDS))
        _OFFSETS.pack_into(record, 20, first + number, start + len(log))
        entries.append((start + len(log), len(record), 0))
        log += record + b"\0" * draw(st.sampled_from([0, 0, 0, 5]))
    return bytes(log), _packed(entries), start, first


@needs_core
@given(data=st.data(), made=logs(), verify=st.booleans(), skip=st.integers(0, 2))
def test_records_are_sound_to_both(
    data: st.DataObject, made: tuple[bytes, bytes, int, int], verify: bool, skip: int
) -> None:
    log, entries, start, first = made
    log = data.draw(st.one_of(st.just(log), mutated(st.just(log))))
    count = len(entries) // ENTRY_SIZE
    skip = min(skip, count - 1)
    numbers = data.draw(
        st.one_of(st.just(range(count - skip)), st.lists(st.integers(0, count - skip - 1), unique=True).map(sorted))
    )
    entries = data.draw(st.one_of(st.just(entries), st.just(entries[20:] + entries[:20])))
    shift = data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    agree(are_sound, memoryview(log), start + shift, entries, skip, first + skip, numbers, verify)


@needs_core
def test_what_a_store_writes_is_sound() -> None:
    log, entries, start, first = logs_of_one()
    assert agree(are_sound, memoryview(log), start, entries, 0, first, range(1), True).value is True
    broken = bytearray(log)
    broken[88] ^= 1
    assert agree(are_sound, memoryview(broken), start, entries, 0, first, range(1), True).value is False
    assert agree(are_sound, memoryview(broken), start, entries, 0, first, range(1), False).value is True


def logs_of_one() -> tuple[bytes, bytes, int, int]:
    """One plain record."""
    record = pack_record(b"t", b"body", b"", 0, 7, 0, 2, pack_host(HOST), 1, pack_host(HOST))
    return record, _packed([(0, len(record), 0)]), 0, 7
