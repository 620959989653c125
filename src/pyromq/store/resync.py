"""Finding the next sound record behind bytes that are none.

A record is believed here only when everything about it agrees: magic, lengths, checksum, and that it says it lies where
it lies. A copy of a record within a body fails the last.
"""

import re
from struct import Struct

from pyromq.protocol.record import MIN_SIZE, PHYSICAL_OFFSET_AT, Blank, RecordError, check_record
from pyromq.store.files import MappedFiles
from pyromq.store.mapped import MappedFile

_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_MAGIC_AT = 4
_PLACE = Struct(">q")


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
        while (found := _MAGIC.search(view, at, min(last + _MAGIC_AT, limit))) is not None:
            place = found.start() - _MAGIC_AT
            if is_sound(file, view, place, limit):
                return place
            at = found.start() + 1
    return None


def is_sound(file: MappedFile, view: memoryview, at: int, limit: int) -> bool:
    """Whether a record that can be believed begins at a position of a file."""
    if at + MIN_SIZE > limit or _PLACE.unpack_from(view, at + PHYSICAL_OFFSET_AT)[0] != file.start + at:
        return False
    try:
        return not isinstance(check_record(view, at, limit, verify_crc=True), Blank)
    except RecordError:
        return False
