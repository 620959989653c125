"""One fixed-length file, mapped into memory. Knows bytes and blocks, not what they mean.

Three invariants keep the process alive:
- A byte is written through the mapping only after `reserve` made the file own its block, because writing into a hole of
  a mapped file on a full disk is SIGBUS, not an exception.
- What may be a hole is not read through the mapping either but with `read`: a file system in memory needs a block for
  that, too. `owned` and `extents` say where none is.
- A mapping is never taken away under a reader: closing or deleting a file while slices of it are in flight only drops
  this object's own hold; the memory goes with the last slice.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from pyromq import disk, durable
from pyromq.disk import Bytes
from pyromq.store.space import translated

_ZEROS = bytes(1 << 20)
_PIECE = 1 << 18
"""Bytes whose pages are asked for at a time: asking holds up whoever wants to map a file."""


class MappedFile:
    """A file of exactly `size` bytes whose first byte has the offset `start` in its sequence.

    `position` is the next byte to write (0 for a created file, `size` for an opened one until recovery knows better);
    it is a plain attribute that the owner moves. `raw` is the mapping itself, for `struct.pack_into(file.raw, …)` and
    `file.raw[a:b] = data` on hot paths; call `reserve(b)` first. All methods belong to the owner's thread, except
    `sync`, `reserve` and `populate`, which any one other thread may call.
    """

    __slots__ = ("_durable_entry", "_fd", "_view", "path", "position", "raw", "reserved", "size", "start", "step")

    def __init__(self, path: Path, size: int, *, start: int, step: int, fd: int, writable: bool) -> None:
        self.path = path
        self.size = size
        self.start = start
        self.step = step
        self.position = 0
        self.reserved = 0
        self._fd = fd
        self._durable_entry = False
        self.raw = disk.map_file(fd, size, writable=writable)
        self._view = memoryview(self.raw)

    @classmethod
    def create(cls, path: Path, size: int, *, start: int = 0, step: int = 1 << 20) -> Self:
        """Make a file of full length at once (sparse) and map it. `step` is how many bytes get blocks at a time.

        Raises DiskFullError, or OSError when the directory cannot be written; leaves no partial file behind then.
        """
        durable.make_folder(path.parent)
        fd = disk.open_file(path, writable=True, fresh=True)
        try:
            disk.set_length(fd, size)
            return cls(path, size, start=start, step=step, fd=fd, writable=True)
        except OSError as error:
            disk.close(fd)
            disk.delete(path)
            raise translated(error, path) from error

    @classmethod
    def open(cls, path: Path, *, start: int = 0, step: int = 1 << 20, writable: bool = True) -> Self:
        """Map an existing file, whatever its length (not zero). `position` starts at the end of the file."""
        fd = disk.open_file(path, writable=writable)
        try:
            size = disk.length(fd)
            file = cls(path, size, start=start, step=step, fd=fd, writable=writable)
        except (OSError, ValueError):
            disk.close(fd)
            raise
        file.position = size
        return file

    @property
    def end(self) -> int:
        """Offset after the last byte of the file, written or not."""
        return self.start + self.size

    @property
    def limit(self) -> int:
        """Offset after the last byte written."""
        return self.start + self.position

    @property
    def full(self) -> bool:
        return self.position >= self.size

    @property
    def modified(self) -> float:
        """Modification time of the file in seconds, which is what retention goes by."""
        return disk.modified(self._fd)

    def reserve(self, end: int) -> None:
        """Make bytes [position, end) own their blocks, a whole step ahead. Raises DiskFullError; keeps what is written.

        Cheap when already reserved. Existing bytes are never changed.
        """
        if end <= self.reserved:
            return
        begin = max(self.reserved, self.position if self.position < self.size else 0)
        goal = min(self.size, max(end, begin + self.step))
        try:
            disk.allocate(self._fd, begin, goal - begin)
        except OSError as error:
            if error.errno not in disk.NO_SPACE or goal == end:
                raise translated(error, self.path) from error
            goal = end
            try:
                disk.allocate(self._fd, begin, goal - begin)
            except OSError as last:
                raise translated(last, self.path) from last
        self.reserved = max(self.reserved, goal)

    def populate(self, begin: int, end: int) -> None:
        """Have the pages of [begin, end), which own their blocks, in memory before they are written to.

        Else each write to a new page waits for it, which takes longer than copying a large message. What the owner has
        reached meanwhile is left out.
        """
        while (begin := max(begin, self.position)) < end:
            stop = min(begin + _PIECE, end)
            disk.populate(self.raw, begin, stop)
            begin = stop

    def append(self, data: Bytes) -> int:
        """Write at `position` and move it; returns where the data begins in this file. The caller checked the space."""
        begin = self.position
        end = begin + len(data)
        if end > self.reserved:
            self.reserve(end)
        self.raw[begin:end] = data
        self.position = end
        return begin

    def append_records(self, records: Iterable[Bytes], end: int) -> None:
        """Write records at `position`, each whole before the next is begun, and move it to `end`, which is reserved.

        One copy for them all would do it in any order, the first bytes last as a rule: a process that is killed
        meanwhile would leave sound records behind one that is not.
        """
        raw = self.raw
        raw.seek(self.position)
        write = raw.write
        for record in records:
            write(record)
        self.position = end  # last: the flush thread believes it

    def view(self, begin: int, end: int) -> memoryview:
        """Bytes [begin, end) of this file without copying. Stays valid after `close` and `destroy`."""
        return self._view[begin:end]

    def read(self, begin: int, end: int) -> bytes:
        """A copy of bytes [begin, end), of which any may lie in a hole."""
        return disk.read_at(self._fd, end - begin, begin)

    def owned(self, begin: int, end: int) -> int:
        """Up to where in [begin, end] the mapping may be read because the file owns its blocks there."""
        if end <= self.reserved:
            return end
        first, last = next(self.extents(begin, end), (end, end))
        return last if first == begin else begin

    def zero(self, begin: int) -> int:
        """Zero everything from `begin` to the end of the file, touching only what is not zero; returns bytes changed.

        Holes and blocks that were never written are skipped, so this is quick for a mostly empty file.
        """
        changed = 0
        for first, last in self.extents(begin, self.size):
            position = first
            while position < last:
                stop = min(last, position + len(_ZEROS))
                zeros = _ZEROS if stop - position == len(_ZEROS) else bytes(stop - position)
                if self._view[position:stop] != zeros:
                    self.raw[position:stop] = zeros
                    changed += stop - position
                position = stop
        return changed

    def extents(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [begin, end) that may hold something; between them the file has no blocks, or only new ones."""
        return disk.extents(self._fd, begin, end)

    def sync(self) -> None:
        """Put all bytes written so far on disk (fdatasync, which lets other threads run). Raises OSError.

        The first sync of a file also makes its directory entry durable.
        """
        disk.sync_data(self._fd)
        if not self._durable_entry:
            durable.sync_folder(self.path.parent)
            self._durable_entry = True

    def close(self) -> None:
        """Let go of file and mapping. Slices handed out stay readable. Closing twice is harmless."""
        if self._fd < 0:
            return
        self._view.release()
        with suppress(BufferError):  # a reader holds a slice: the mapping ends with it
            self.raw.close()
        disk.close(self._fd)
        self._fd = -1

    def destroy(self) -> None:
        """Close and delete. The space is free once the last slice in flight is gone."""
        self.close()
        disk.delete(self.path)
