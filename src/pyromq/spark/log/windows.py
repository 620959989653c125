"""Records of a commit log by position, some megabytes at a time.

Where most of a stretch is wanted it is read as a whole, into one buffer that is used again and again. Where little of
it is, it is mapped, so that only the pages with wanted records are touched. The last file is never mapped: a broker
that recovers may cut it, and a map of what is cut away would kill the process.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyromq.arrow.errors import ReadError
from pyromq.arrow.recordlayout import Longs
from pyromq.spark.log.storefiles import LogFile, StoreFiles

SPAN = 64 << 20
"""Bytes of the log, wanted or not, that one window covers at most."""
DENSE = 4
"""A stretch is read as a whole when at least one in so many of its bytes is wanted."""


@dataclass(frozen=True)
class Window:
    """A buffer that holds records at ascending starts; `first` is the index of the first of them."""

    buffer: memoryview | bytes
    starts: Longs
    first: int


def windows(store: StoreFiles, positions: Longs, sizes: Longs, *, rows: int, size: int) -> Iterator[Window]:
    """The records at ascending positions, at most so many rows and about so many bytes at a time.

    A window is good until the next one is asked for. Raises ReadError when a file is gone or a position lies outside.
    """
    files = store.log_files()
    begin = 0
    while begin < len(positions):
        position = int(positions[begin])
        file = next((each for each in files if each.start <= position < each.start + each.size), None)
        if file is None:
            raise ReadError(f"the log of {store.root} has nothing at {position}: deleted, or the queue is damaged")
        end = int(np.searchsorted(positions, file.start + file.size))
        beyond = positions[begin:end] + sizes[begin:end] > file.start + file.size
        if beyond.any():
            position = int(positions[begin + np.argmax(beyond)])
            raise ReadError(f"the record at {position} of {store.root} reaches beyond its file")
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ReadError(f"{file.path} was deleted while it was read") from None
        try:
            reader = _Reader(file, fd, may_map=file is not files[-1])
            for start, stop in _cuts(positions[begin:end], sizes[begin:end], rows, size):
                part = slice(begin + start, begin + stop)
                yield Window(*reader.read(positions[part], sizes[part]), part.start)
        finally:
            os.close(fd)
        begin = end


def _cuts(positions: Longs, sizes: Longs, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Where to cut so that no piece has too many rows, too many bytes, or too wide a span."""
    sums, ends = np.cumsum(sizes), positions + sizes
    begin = 0
    while begin < len(positions):
        before = int(sums[begin - 1]) if begin else 0
        by_bytes = int(np.searchsorted(sums, before + size, side="right"))
        by_span = int(np.searchsorted(ends, positions[begin] + SPAN, side="right"))
        end = max(begin + 1, min(begin + rows, by_bytes, by_span))
        yield begin, end
        begin = end


class _Reader:
    """Reads from one open file."""

    def __init__(self, file: LogFile, fd: int, *, may_map: bool) -> None:
        self._start = file.start
        self._fd = fd
        self._may_map = may_map
        self._space = memoryview(b"")

    def read(self, positions: Longs, sizes: Longs) -> tuple[memoryview | bytes, Longs]:
        """A buffer with these records, and where they start in it."""
        base = int(positions[0])
        span = int(positions[-1] + sizes[-1]) - base
        if span <= DENSE * int(sizes.sum()):
            return self._stretch(base - self._start, span), positions - base
        if self._may_map:
            return self._mapped(base - self._start, span, positions - base)
        pieces = [
            os.pread(self._fd, size, position - self._start)
            for position, size in zip(positions.tolist(), sizes.tolist(), strict=True)
        ]
        return b"".join(pieces), np.cumsum([0, *map(len, pieces[:-1])]).astype(np.int64)

    def _stretch(self, offset: int, length: int) -> memoryview:
        if len(self._space) < length:
            self._space = np.empty(length, np.uint8).data  # unlike a bytearray, not zeroed first
        filled = 0
        while filled < length and (count := os.preadv(self._fd, [self._space[filled:length]], offset + filled)):
            filled += count
        return self._space[:filled]

    def _mapped(self, offset: int, length: int, places: Longs) -> tuple[memoryview, Longs]:
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        ahead = offset - start
        view = mmap.mmap(self._fd, ahead + length, offset=start, access=mmap.ACCESS_READ)
        return memoryview(view), places + ahead
