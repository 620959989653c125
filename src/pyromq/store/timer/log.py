"""The timer log: one unit per timed message, chained backwards within its slot of the wheel. Apache's layout.

A unit has 52 bytes: 0 size (int32) · 4 position of the previous unit of the slot, -1 without (int64) · 12 magic (int32)
· 16 time of writing (int64) · 24 delay since then (int32) · 28 place of the message in the commit log (int64)
· 36 its size (int32) · 40 hash of the real topic (int32) · 44 zero (int64). A file ends with a blank: space left
(int32), 0 (int64), magic (int32).
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from pyromq.protocol.records.record import MAGIC_BLANK
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.mappedfiles import MappedFiles

NORMAL: Final = 1
ROLL: Final = 2
DELETE: Final = 4
_MAGICS = 0xF
_UNIT = Struct(">iqiqiqiiq")
UNIT_SIZE: Final = _UNIT.size
_SCANNED = Struct(">i8xiqiq16x")
_BLANK = Struct(">iqi")
_STEP = 1 << 20
_CHUNK = UNIT_SIZE << 12  # bytes read at a time


class TimerUnit(NamedTuple):
    """A timed message: when it is due, where it is, and what is to be done with it."""

    previous: int
    magic: int
    written: int
    delay: int
    physical_offset: int
    size: int
    topic_hash: int

    @property
    def time(self) -> int:
        return self.written + self.delay


Seen = Callable[[int, int, int], None]
"""Told position, time and place in the commit log of each unit."""


class TimerLog:
    """The files of the directory `timerlog`."""

    def __init__(
        self, directory: Path, file_size: int, dispose: Callable[[MappedFile], None] = MappedFile.destroy
    ) -> None:
        self._files = MappedFiles(directory, file_size, step=min(_STEP, file_size), dispose=dispose)
        self._used = (file_size - _BLANK.size) // UNIT_SIZE * UNIT_SIZE
        """Bytes of a file that units can take."""

    @property
    def min_offset(self) -> int:
        return max(self._files.min_offset, 0)

    @property
    def max_offset(self) -> int:
        """Position of the next unit, unless it opens a file."""
        return self._files.max_offset

    def load(self) -> None:
        """Map the files; `recover` finds their end. Raises StoreFormatError."""
        self._files.load()

    def recover(self, begin: int, seen: Seen, commit_log_end: int = 2**63 - 1) -> int:
        """Read all units from the file that holds `begin` on, and cut the log after the last one that is sound.

        A unit whose message is not in the commit log is not: another one will be in that place.
        Returns the end. The third number that `seen` gets grows from unit to unit.
        """
        end = self.min_offset
        for file in self._files:
            if file.end <= begin and file is not self._files.last:
                continue
            position = file.start
            for size, magic, written, delay, physical_offset in self._scan(file):
                if size != UNIT_SIZE or magic & ~_MAGICS or physical_offset >= commit_log_end:
                    break
                seen(position, written + delay, physical_offset)
                position += UNIT_SIZE
            end = position
            if position < file.start + self._used:
                break
        if self._files.files:
            self._files.truncate(end)
        return end

    def _scan(self, file: MappedFile) -> Iterator[tuple[int, int, int, int, int]]:
        for begin in range(0, self._used, _CHUNK):
            yield from _SCANNED.iter_unpack(file.read(begin, min(begin + _CHUNK, self._used)))

    def append(self, unit: TimerUnit) -> int:
        """Add a unit; returns its position. Raises DiskFullError or OSError; the log is then as it was."""
        file = self._files.last
        if file is None or file.position >= self._used:
            if file is not None and not file.full:
                file.reserve(min(file.size, file.position + _BLANK.size))
                file.append(_BLANK.pack(file.size - file.position, 0, MAGIC_BLANK))
                file.position = file.size
            file = self._files.extend()
        position = file.append(
            _UNIT.pack(
                UNIT_SIZE,
                unit.previous,
                unit.magic,
                unit.written,
                unit.delay,
                unit.physical_offset,
                unit.size,
                unit.topic_hash,
                0,
            )
        )
        return file.start + position

    def read(self, position: int) -> TimerUnit | None:
        """The unit at a position; None when there is none."""
        view = self._files.view(position, UNIT_SIZE)
        if view is None:
            return None
        size, previous, magic, written, delay, physical_offset, length, topic_hash, _ = _UNIT.unpack(view)
        if size != UNIT_SIZE or magic & ~_MAGICS:
            return None
        return TimerUnit(previous, magic, written, delay, physical_offset, length, topic_hash)

    def sync(self, begin: int) -> None:
        """Put on disk what was appended at or after `begin`. May run in another thread. Raises OSError."""
        self._files.sync(begin)

    def delete_before(self, commit_log_min: int) -> int:
        """Delete files, never the newest, all of whose messages left the commit log; returns how many."""
        deleted = 0
        while len(self._files) > 1:
            last = self.read(self._files.files[0].start + self._used - UNIT_SIZE)
            if last is not None and last.physical_offset >= commit_log_min:
                break
            self._files.drop_first()
            deleted += 1
        return deleted

    def close(self) -> None:
        self._files.close()


class Places:
    """Places in the commit log, added in ascending order; eight bytes each."""

    def __init__(self) -> None:
        self._places = array("q")

    def add(self, place: int) -> None:
        if not self._places or place > self._places[-1]:
            self._places.append(place)

    def __contains__(self, place: int) -> bool:
        index = bisect_left(self._places, place)
        return index < len(self._places) and self._places[index] == place
