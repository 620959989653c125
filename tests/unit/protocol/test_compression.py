"""Compressed bodies, including frames that Java wrote, and the bound on what they inflate to."""

import contextlib
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.compression import CompressionType, compress, decompress

WRITTEN_BY_JAVA = {
    CompressionType.ZLIB: "785eaba8a03d0000401b2ee1",
    CompressionType.LZ4: "04224d186070730b0000001f7801004b50787878787800000000",
    CompressionType.ZSTD: "28b52ffd005844000010787801003f012c010000",
}
kinds = st.sampled_from(CompressionType)
each_kind = pytest.mark.parametrize("kind", list(CompressionType))


# P-90
@each_kind
def test_frames_written_by_java(kind: CompressionType) -> None:
    frame = bytes.fromhex(WRITTEN_BY_JAVA[kind])
    assert decompress(frame, kind.flag) == b"x" * 100
    assert decompress(memoryview(frame), kind.flag, limit=100) == b"x" * 100


# P-90
def test_zlib_is_written_as_java_writes_it() -> None:
    assert compress(b"x" * 100, CompressionType.ZLIB).hex() == WRITTEN_BY_JAVA[CompressionType.ZLIB]


# P-14, P-90
def test_flags() -> None:
    assert [CompressionType[name].flag for name in ("LZ4", "ZSTD", "ZLIB")] == [0x101, 0x201, 0x301]
    assert CompressionType.of(sysflag.COMPRESSED) is CompressionType.ZLIB
    assert CompressionType.of(0x2FF) is CompressionType.ZSTD
    assert decompress(bytes.fromhex(WRITTEN_BY_JAVA[CompressionType.ZLIB]), sysflag.COMPRESSED) == b"x" * 100
    for number in range(4, 8):
        with pytest.raises(MessageError, match=f"type {number}"):
            decompress(b"", number << 8 | 1)


@given(st.binary(max_size=5000), kinds, st.integers(1, 9))
def test_round_trip(body: bytes, kind: CompressionType, level: int) -> None:
    assert decompress(compress(body, kind, level), kind.flag) == body


@each_kind
def test_large_round_trip(kind: CompressionType) -> None:
    body = os.urandom(300_000) + bytes(9_000_000) + os.urandom(70_000)
    frame = compress(memoryview(body), kind)
    assert decompress(frame, kind.flag, limit=len(body)) == body
    with pytest.raises(MessageError, match="inflates to more than"):
        decompress(frame, kind.flag, limit=len(body) - 1)


@each_kind
def test_bombs_stay_within_bounds(kind: CompressionType) -> None:
    frame = compress(bytes(96 << 20), kind)
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match="inflates to more than 1000000 bytes"):
            decompress(frame, kind.flag, limit=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20


@each_kind
@pytest.mark.parametrize("limit", [0, -1])
def test_no_room_is_no_room(kind: CompressionType, limit: int) -> None:
    assert decompress(compress(b"", kind), kind.flag, limit=limit) == b""
    with pytest.raises(MessageError, match="more than 0 bytes"):
        decompress(compress(b"x", kind), kind.flag, limit=limit)


@each_kind
def test_every_cut_is_noticed(kind: CompressionType) -> None:
    frame = compress(b"Hello RocketMQ " * 40, kind)
    for end in range(len(frame)):
        with pytest.raises(MessageError):
            decompress(frame[:end], kind.flag)


@each_kind
def test_levels(kind: CompressionType) -> None:
    with pytest.raises(MessageError, match="level 99"):
        compress(b"x", kind, 99)


@given(st.binary(max_size=200), kinds)
def test_noise_raises_our_own_error(noise: bytes, kind: CompressionType) -> None:
    with contextlib.suppress(MessageError):
        assert len(decompress(noise, kind.flag, limit=10_000)) <= 10_000
