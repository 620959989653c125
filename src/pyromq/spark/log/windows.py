"""Records of a commit log by position, window by window: what a queue points to is spread over the log.

A window is mapped once and given back; only the pages that are touched are read. The last file is read with `pread`
instead: a broker that recovers may cut it, and a map of what is cut away would kill the process.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyromq.spark.errors import ReadError
from pyromq.spark.layout import Longs
from pyromq.spark.log.storefiles import LogFile, StoreFiles

WINDOW = 64 << 20
DENSE = 4
"""A stretch is read as a whole when at least one in so many of its bytes is wanted."""


@dataclass(frozen=True)
class Window:
    """A buffer that holds records at ascending starts; `first` is the index of the first of them."""

    buffer: memoryview | bytes
    starts: Longs
    first: int


def windows(store: StoreFiles, positions: Longs, sizes: Longs, *, rows: int, size: int) -> Iterator[Window]:
    """The records at ascending positions, at most about so many rows and bytes at a time.

    A window is good until the next one is asked for. Raises ReadError when a file is gone or a position lies outside.
    """
    files = store.log_files()
    begin = 0
    while begin < len(positions):
        position = int(positions[begin])
        file = next((each for each in files if each.start <= position < each.start + each.size), None)
        if file is None:
            raise ReadError(f"the log of {store.root} has nothing at {position}: deleted, or the queue is damaged")
        limit = min(position + WINDOW, file.start + file.size)
        end = begin + int(np.searchsorted(positions[begin:] + sizes[begin:], limit, side="right"))
        if end == begin:
            raise ReadError(f"the record at {position} of {store.root} reaches beyond its file")
        try:
            yield from _cut(file, file is files[-1], positions[begin:end], sizes[begin:end], begin, rows, size)
        except FileNotFoundError:
            raise ReadError(f"{file.path} was deleted while it was read") from None
        begin = end


def _cut(
    file: LogFile, is_last: bool, positions: Longs, sizes: Longs, first: int, rows: int, size: int
) -> Iterator[Window]:
    base = int(positions[0])
    span = int(positions[-1] + sizes[-1]) - base
    sums = np.cumsum(sizes)
    mapped = None if is_last else _map(file, base, span)
    begin = 0
    try:
        while begin < len(positions):
            before = int(sums[begin - 1]) if begin else 0
            end = max(begin + 1, min(begin + rows, int(np.searchsorted(sums, before + size, side="right"))))
            if mapped is not None:
                view, offset = mapped
                yield Window(memoryview(view), positions[begin:end] - base + offset, first + begin)
            else:
                yield _fetched(file, positions[begin:end], sizes[begin:end], first + begin)
            begin = end
    finally:
        del mapped  # unmapped as soon as nobody looks at it any more


def _map(file: LogFile, base: int, span: int) -> tuple[mmap.mmap, int]:
    start = (base - file.start) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    offset = base - file.start - start
    with file.path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), offset + span, offset=start, access=mmap.ACCESS_READ), offset


def _fetched(file: LogFile, positions: Longs, sizes: Longs, first: int) -> Window:
    base = int(positions[0])
    span = int(positions[-1] + sizes[-1]) - base
    if span <= DENSE * int(sizes.sum()):
        return Window(file.read(base, span), positions - base, first)
    pieces = [file.read(*place) for place in zip(positions.tolist(), sizes.tolist(), strict=True)]
    return Window(b"".join(pieces), np.cumsum([0, *map(len, pieces[:-1])]).astype(np.int64), first)
