"""The timer wheel: for each slot of time, the chain of timer log units that are due in it. One file, Apache's layout.

1 209 600 slots of 32 bytes: 0 time in units of the precision (int64) · 8 position of the first unit (int64) · 16 of the
last (int64) · 24 count (int32) · 28 unused (int32). A slot speaks of the time it names and of no other: the wheel goes
round every 1 209 600 units.

Changes stay in memory until they are saved, so the file never points at units that a crash could still take from the
log. Invariant: file, then `_saving`, then `_fresh`, each over the one before, are the wheel.
"""

from pathlib import Path
from struct import Struct
from typing import NamedTuple

from pyromq import disk
from pyromq.store.errors import StoreFormatError
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.space import write_at

DAYS = 7
SLOTS = DAYS * 86_400
"""How far ahead a message may be, and how long the broker may be down, in units of the precision."""
_TOTAL = 2 * SLOTS
_SLOT = Struct(">qqqii")
LENGTH = _TOTAL * _SLOT.size
_NOTHING = _SLOT.pack(-1, -1, -1, 0, 0)


class Slot(NamedTuple):
    """Positions of the first and last unit in the timer log, and how many messages wait."""

    first: int
    last: int
    waiting: int


class TimerWheel:
    """`precision` is the length of a slot in milliseconds. Belongs to the owner's thread, except `write`."""

    def __init__(self, path: Path, precision: int) -> None:
        self.path = path
        self._precision = precision
        self._file: MappedFile | None = None
        self._fresh: dict[int, bytes] = {}
        self._saving: dict[int, bytes] = {}

    def load(self) -> bool:
        """Map the file; False when there is none yet. Raises StoreFormatError for another length."""
        try:
            length = self.path.stat().st_size
        except FileNotFoundError:
            return False
        if length == 0:  # left by a crash while it was created
            disk.delete(self.path)
            return False
        if length != LENGTH:
            raise StoreFormatError(f"{self.path} has {length} bytes, but a timer wheel has {LENGTH}: move it away")
        self._file = MappedFile.open(self.path)
        return True

    def get(self, time: int) -> Slot | None:
        """The slot that a time in milliseconds falls into; None when nothing waits in it."""
        unit = time // self._precision
        stored, first, last, count, _ = self._slot(unit % _TOTAL)
        return Slot(first, last, count) if stored == unit and last >= 0 else None

    def set(self, time: int, slot: Slot) -> None:
        """Replace a slot."""
        unit = time // self._precision
        self._fresh[unit % _TOTAL] = _SLOT.pack(unit, slot.first, slot.last, slot.waiting, 0)

    def clear(self, time: int) -> None:
        """Nothing waits in a slot any more."""
        self._fresh[time // self._precision % _TOTAL] = _NOTHING

    @property
    def changed(self) -> bool:
        return bool(self._fresh or self._saving)

    def clear_beyond(self, end: int) -> None:
        """Clear the slots that lead to a place in the log at or after its end. Reads all that were ever set."""
        if self._file is not None:
            for begin, stop in self._file.extents(0, LENGTH):
                first, behind = begin - begin % _SLOT.size, stop + -stop % _SLOT.size
                for unit, _, last, _, _ in _SLOT.iter_unpack(self._file.read(first, behind)):
                    if last >= end and unit > 0:
                        self.clear(unit * self._precision)

    def take(self) -> dict[int, bytes]:
        """What has to be written. Finish one `write` before the next `take`; after a failure, take again."""
        self._saving |= self._fresh
        self._fresh = {}
        return dict(self._saving)

    def write(self, slots: dict[int, bytes]) -> None:
        """Write and sync what was taken. May run in another thread. Raises DiskFullError or OSError.

        Not through the mapping, which only serves reading: a page that cannot be written yet would stop all threads,
        and one for which there is no space the process.
        """
        if not slots:
            return
        if self._file is None:
            self._file = MappedFile.create(self.path, LENGTH)
        fd = disk.open_file(self.path, writable=True)
        try:
            for index, slot in slots.items():
                write_at(fd, slot, index * _SLOT.size, self.path)
        finally:
            disk.close(fd)
        self._file.sync()
        self._saving = {}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _slot(self, index: int) -> tuple[int, int, int, int, int]:
        data = self._fresh.get(index) or self._saving.get(index)
        if data is not None:
            return _SLOT.unpack(data)
        if self._file is None:
            return _SLOT.unpack(_NOTHING)
        begin = index * _SLOT.size
        return _SLOT.unpack(self._file.read(begin, begin + _SLOT.size))
