"""Finding the next sound record behind bytes that are none.

A record is believed here only when everything about it agrees: magic, lengths, checksum, and that it says it lies where
it lies. A copy of a record within a body fails the last.
"""

import re
from struct import Struct

from pyromq.protocol.records.record import (
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    Blank,
    RecordError,
    check_record,
)
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.mappedfiles import MappedFiles

_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_MAGIC_AT = 4
_PLACE = Struct(">q")
_HEAD = Struct(">ii")


def next_record(files: MappedFiles, begin: int, end: int | None = None) -> int | None:
    """The offset of the first sound record at or after `begin` that ends at or before `end`; None without one."""
    for file in files:
        if file.end <= begin or (end is not None and file.start >= end):
            continue
        limit = file.position if end is None else min(file.position, end - file.start)
        found = _in_file(file, max(begin - file.start, 0), limit)
        if found is not None:
            return file.start + found
    return None


def end_of_data(files: MappedFiles) -> int:
    """The offset behind the last byte of the log that is not zero."""
    for file in reversed(files.files):
        for begin, last in reversed(list(file.extents(0, file.position))):
            end = last
            while end > begin:
                piece = max(begin, end - (1 << 20))
                if used := len(bytes(file.view(piece, end)).rstrip(b"\0")):
                    return file.start + piece + used
                end = piece
    return files.min_offset


def _in_file(file: MappedFile, begin: int, limit: int) -> int | None:
    view = file.view(0, limit)
    for first, last in file.extents(begin, limit):
        at = max(first - _MAGIC_AT, begin) + _MAGIC_AT
        while (found := _MAGIC.search(view, at, last)) is not None:  # it has no zeros, so it does not reach into a hole
            place = found.start() - _MAGIC_AT
            if is_sound(file, view, place, limit):
                return place
            at = found.start() + 1
    return None


def is_sound(file: MappedFile, view: memoryview, at: int, limit: int) -> bool:
    """Whether a record that can be believed begins at a position of a file."""
    if at + MIN_SIZE > limit:
        return False
    data, begin, limit = whereabouts(file, view, at, limit)
    if _PLACE.unpack_from(data, begin + PHYSICAL_OFFSET_AT)[0] != file.start + at:
        return False
    try:
        return not isinstance(check_record(data, begin, limit, verify_crc=True), Blank)
    except RecordError:
        return False


def whereabouts(file: MappedFile, view: memoryview, at: int, limit: int) -> tuple[memoryview | bytes, int, int]:
    """Where to look at what may be a record at a position: bytes, its position in them, and their limit.

    That is the view of the file, or a copy if the record reaches into a hole.
    """
    owned = file.owned(at, limit)
    if owned >= min(at + MIN_SIZE, limit):
        size = _HEAD.unpack_from(view, at)[0] if at + _HEAD.size <= limit else 0
        if size > limit - at or at + size <= owned:  # one that is too long is refused without a look at its end
            return view, at, limit
    head = file.read(at, min(at + MIN_SIZE, limit))
    if len(head) == MIN_SIZE:
        size, magic = _HEAD.unpack_from(head)
        if magic in (MAGIC_V1, MAGIC_V2) and MIN_SIZE < size <= limit - at:
            return file.read(at, at + size), 0, size
    return head, 0, len(head)
