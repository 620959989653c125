"""Reading a commit log from end to end, whatever its queues say: every record, in the order in which it was stored.

A stretch may begin anywhere: the first record is found by its magic number, and believed when the two that follow it
are sound as well. A stretch owns the records that begin within it.
"""

from collections.abc import Iterator
from struct import Struct

import numpy as np

from pyromq.arrow.errors import ReadError
from pyromq.protocol.errors import MessageError
from pyromq.protocol.records.record import MAGIC_BLANK, MAGIC_BYTES, MAGIC_V1, MAGIC_V2, MIN_SIZE, Blank, check_record
from pyromq.spark.log.storefiles import LogFile
from pyromq.spark.log.windows import Window

CHUNK = MAX_RECORD = 8 << 20
"""Bytes read at a time. A record that claims more is damage, so a chunk holds at least one."""
BELIEVED = 3
CUT_OFF = "a record that is cut off"

_ZEROS = 3  # bytes of a record's size that may be zero, and so belong to a hole before the rest of it
_HEAD = Struct(">ii").unpack_from


def walk_file(file: LogFile, begin: int, end: int, *, is_last: bool, skip_corrupt: bool) -> Iterator[Window]:
    """The records that begin in [begin, end) of a file, some megabytes at a time.

    In the last file, what is no record is the end of the log. Elsewhere it is damage: raises ReadError, or continues
    at the next record when told to skip.
    """
    position = begin if begin == file.start else _first(file, begin, end)
    while position is not None and position < end:
        data = file.read(position, CHUNK)
        starts, length, problem = _chain(data, end - position)
        if starts:
            yield Window(data, np.array(starts, np.int64), 0)
        position += length
        if problem is None or (starts and len(data) == CHUNK and (problem == CUT_OFF or length > CHUNK - 8)):
            continue  # what did not fit begins the next chunk
        if problem == "" or is_last:
            return
        if not skip_corrupt:
            raise ReadError(f"{file.path}: {problem} at {position}; corruptRecords=skip goes on behind it")
        position = _first(file, position + 1, end)


def _chain(data: bytes, limit: int) -> tuple[list[int], int, str | None]:
    """Starts of records from the beginning of the data on, where they end, and why.

    The reason is None at the limit, "" at the end of the file, else what is wrong.
    """
    starts: list[int] = []
    position, size = 0, len(data)
    while position < limit:
        if position > size - 8:
            return starts, position, ""
        length, magic = _HEAD(data, position)
        if magic == MAGIC_BLANK:
            return starts, position, ""
        if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_SIZE <= length <= MAX_RECORD:
            return starts, position, "no record"
        if position + length > size:
            return starts, position, CUT_OFF
        starts.append(position)
        position += length
    return starts, position, None


def _first(file: LogFile, begin: int, end: int) -> int | None:
    """Where the first record at or behind `begin` starts, None if there is none before `end`."""
    position = begin
    while (position := max(position, file.next_data(position) - _ZEROS)) < end:
        data = file.read(position, CHUNK + BELIEVED * MAX_RECORD)
        if len(data) < MIN_SIZE:
            return None
        at = 4
        while (at := _next_magic(data, at)) >= 0 and at - 4 < min(CHUNK, end - position):
            if _is_believable(data, at - 4, file.start + file.size - position):
                return position + at - 4
            at += 1
        position += CHUNK
    return None


def _next_magic(data: bytes, start: int) -> int:
    found = [at for at in (data.find(magic, start) for magic in MAGIC_BYTES) if at >= 0]
    return min(found, default=-1)


def _is_believable(data: bytes, at: int, left: int) -> bool:
    """Whether a record begins here and sound ones follow, as far as the log goes."""
    for number in range(BELIEVED):
        if at + 8 > min(len(data), left) or (number and data[at : at + 8] == bytes(8)):
            return number > 0
        try:
            found = check_record(data, at, len(data), verify_crc=True)
        except MessageError:
            return False
        if isinstance(found, Blank):
            return number > 0
        at += found.size
    return True
