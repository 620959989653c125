"""Files page by page: what differs between two of them, and how to carry some of it over. Holes stay holes."""

import os
from collections.abc import Callable, Iterator

PAGE = 4096
"""What a disk writes as a whole."""
_CHUNK = 16 * PAGE


def copy(source: int, target: int, takes: Callable[[], bool]) -> None:
    """Bring those pages of `target` to what `source` has which `takes` says yes to; asked for each that differs."""
    for start in sorted({*_chunks(source), *_chunks(target)}):
        new, old = (os.pread(each, _CHUNK, start) for each in (source, target))
        if new == old:
            continue
        for begin in range(0, max(len(new), len(old)), PAGE):
            page = new[begin : begin + PAGE]
            known = old[begin : begin + PAGE]
            # A longer old page that ends in zeros says the same as a file that ends earlier: sizes are another matter.
            if page.ljust(len(known), b"\0") != known.ljust(len(page), b"\0") and takes():
                os.pwrite(target, page.ljust(len(known), b"\0"), start + begin)


def size(fd: int) -> int:
    """Its length in bytes."""
    return os.fstat(fd).st_size


def _chunks(fd: int) -> Iterator[int]:
    """Where the file may hold something other than zeros."""
    position = 0
    while True:
        try:
            begin = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:  # nothing more
            return
        position = os.lseek(fd, begin, os.SEEK_HOLE)
        yield from range(begin // _CHUNK * _CHUNK, position, _CHUNK)
