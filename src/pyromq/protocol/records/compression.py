"""Compressed message bodies: a zlib stream, an LZ4 frame or a Zstandard frame, told apart by bits of the system flag.

Inflating has a bound: a body that would exceed it raises MessageError before it takes much more memory than that.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import lz4.frame  # type: ignore[import-untyped] # the library has no annotations
import zstandard

from pyromq.protocol.errors import MessageError
from pyromq.protocol.records import sysflag

DEFAULT_LEVEL: Final = 5
MAX_INFLATED: Final = 64 * 1024 * 1024
"""Bound on one inflated body where the caller sets no other; a broker accepts 4 MiB unless configured otherwise."""

_ZSTD_MAX_WINDOW: Final = 1 << 27
_ZSTD_PIECE: Final = 256
_LZ4_CHUNK: Final = 64 * 1024


class InflatedSizeError(MessageError):
    """A body that is larger than allowed once it is inflated."""


class CompressionType(IntEnum):
    """Numbers as in bits 8 to 10 of the system flag."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def flag(self) -> int:
        """What to set in the system flag of a message whose body was compressed this way."""
        return sysflag.COMPRESSED | self << sysflag.COMPRESSION_SHIFT

    @classmethod
    def of(cls, sys_flag: int) -> "CompressionType":
        """The type a system flag names; senders that know no types mean zlib. Raises MessageError for unknown ones."""
        number = (sys_flag & sysflag.COMPRESSION_MASK) >> sysflag.COMPRESSION_SHIFT
        try:
            return cls(number) if number else cls.ZLIB
        except ValueError:
            raise MessageError(f"unknown compression type {number} in system flag {sys_flag:#x}") from None


_LEVELS: Final = {
    CompressionType.LZ4: range(17),
    CompressionType.ZSTD: range(1, 23),
    CompressionType.ZLIB: range(-1, 10),
}


def compress(body: bytes | memoryview, kind: CompressionType, level: int = DEFAULT_LEVEL) -> bytes:
    """The body in compressed form. Raises MessageError for a level that the type does not have."""
    if level not in _LEVELS[kind]:
        raise MessageError(f"{kind.name} has no compression level {level}")
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level, write_content_size=False).compress(body)
    return bytes(
        lz4.frame.compress(
            body,
            compression_level=level,
            block_size=lz4.frame.BLOCKSIZE_MAX4MB,
            block_linked=False,
            store_size=False,
        )
    )


def decompress(body: bytes | memoryview, sys_flag: int, *, limit: int = MAX_INFLATED) -> bytes:
    """The inflated body; `sys_flag` names the format. Raises MessageError for broken, cut off or too large ones."""
    kind = CompressionType.of(sys_flag)
    limit = max(limit, 0)
    try:
        inflated = _INFLATE[kind](body, limit)
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, ValueError) as error:
        raise MessageError(f"broken {kind.name} body of {len(body)} bytes: {error}") from None
    if len(inflated) > limit:
        raise InflatedSizeError(f"{kind.name} body of {len(body)} bytes inflates to more than {limit} bytes")
    return bytes(inflated)


def _inflate_zlib(body: bytes | memoryview, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    inflated = inflater.decompress(body, limit + 1)
    if not inflater.eof and len(inflated) <= limit:
        raise EOFError("the stream is cut off")
    return inflated


def _inflate_lz4(body: bytes | memoryview, limit: int) -> bytearray:
    # Asked for `limit` at once the library would allocate all of it.
    inflater = lz4.frame.LZ4FrameDecompressor()
    out = bytearray(inflater.decompress(bytes(body), max_length=_LZ4_CHUNK))
    while not inflater.eof and len(out) <= limit:
        piece = inflater.decompress(b"", max_length=max(_LZ4_CHUNK, len(out)))
        if not piece:
            break
        out += piece
    if not inflater.eof and len(out) <= limit:
        raise EOFError("the frame is cut off")
    return out


def _inflate_zstd(body: bytes | memoryview, limit: int) -> bytearray:
    # Frames written by Java carry no content size, so the one-shot call cannot read them.
    # Its streaming twin has no bound on its output; a few hundred bytes at a time keep the excess to a few MiB.
    inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW).decompressobj()
    out = bytearray()
    for start in range(0, len(body), _ZSTD_PIECE):
        out += inflater.decompress(body[start : start + _ZSTD_PIECE])
        if inflater.eof or len(out) > limit:
            return out
    raise EOFError("the frame is cut off")


_INFLATE: Final[dict[CompressionType, Callable[[bytes | memoryview, int], bytes | bytearray]]] = {
    CompressionType.ZLIB: _inflate_zlib,
    CompressionType.LZ4: _inflate_lz4,
    CompressionType.ZSTD: _inflate_zstd,
}
