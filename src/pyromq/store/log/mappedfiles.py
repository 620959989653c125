"""A sequence of equal-sized mapped files, each named by the offset of its first byte (20 digits).

Knows how to find, extend, cut and drop files, not what the bytes mean. Invariant: file starts follow each other without
a gap, so an offset finds its file by arithmetic; all files but the last are full.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pyromq import disk
from pyromq.store.errors import StoreFormatError
from pyromq.store.log.mappedfile import MappedFile


def file_name(start: int) -> str:
    """S-03: the name of the file whose first byte has the offset `start`."""
    return f"{start:020d}"


class MappedFiles:
    """The files of one directory, oldest first in `files`.

    `step` is how far blocks are allocated ahead. `dispose` gets a file that retention dropped and must close and delete
    it; inject one that does so in another thread where deleting a large file must not stall the owner.
    """

    __slots__ = ("directory", "dispose", "file_size", "files", "step")

    def __init__(
        self,
        directory: Path,
        file_size: int,
        *,
        step: int = 1 << 20,
        dispose: Callable[[MappedFile], None] = MappedFile.destroy,
    ) -> None:
        self.directory = directory
        self.file_size = file_size
        self.step = step
        self.dispose = dispose
        self.files: list[MappedFile] = []

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[MappedFile]:
        return iter(self.files)

    @staticmethod
    def scan(directory: Path, file_size: int) -> list[tuple[int, Path]]:
        """The (start, path) of every file in a directory, checked but neither opened nor changed; [] without one.

        Raises StoreFormatError for a name that is not an offset, a length that is not `file_size` (except an empty
        last file, left by a crash while it was created) and a gap in the sequence.
        """
        found = [Path(entry.path) for entry in disk.entries(directory) if not entry.is_dir()]
        result: list[tuple[int, Path]] = []
        for path in found:
            if not (path.name.isascii() and path.name.isdigit() and len(path.name) == 20):
                raise StoreFormatError(f"{path} is not a file of this store: its name is not an offset; move it away")
            start, length = int(path.name), path.stat().st_size
            if length != file_size and not (length == 0 and path is found[-1]):
                raise StoreFormatError(
                    f"{path} has {length} bytes but files here have {file_size}: the store was written with another "
                    f"file size, or the file was cut; set the size it was written with"
                )
            if start % file_size:
                raise StoreFormatError(f"{path} does not begin at a multiple of the file size {file_size}")
            if result and start != result[-1][0] + file_size:
                raise StoreFormatError(f"a file is missing between {result[-1][1].name} and {path}")
            result.append((start, path))
        return result

    def load(self, *, writable: bool = True) -> None:
        """Map what is there. Every file counts as full (`position == size`) until recovery moves `position`.

        Deletes an empty last file, unless all is only read. Raises StoreFormatError as `scan` does, before anything was
        changed.
        """
        for start, path in self.scan(self.directory, self.file_size):
            if path.stat().st_size:
                self.files.append(MappedFile.open(path, start=start, step=self.step, writable=writable))
            elif writable:
                disk.delete(path)

    @property
    def first(self) -> MappedFile | None:
        return self.files[0] if self.files else None

    @property
    def last(self) -> MappedFile | None:
        return self.files[-1] if self.files else None

    @property
    def min_offset(self) -> int:
        """Start of the first file; -1 without files."""
        return self.files[0].start if self.files else -1

    @property
    def max_offset(self) -> int:
        """Offset of the next byte to write; 0 without files."""
        return self.files[-1].limit if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds the byte at `offset`, written or not; None outside of all files."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def view(self, offset: int, length: int) -> memoryview | None:
        """`length` written bytes from `offset`, without copying; None when they are not all there in one file."""
        file = self.find(offset)
        if file is None or length < 0:
            return None
        begin = offset - file.start
        if begin + length > file.position:
            return None
        return file.view(begin, begin + length)

    def extend(self, offset: int = 0) -> MappedFile:
        """Create the next file; without files, the one that will hold `offset`. Raises DiskFullError or OSError."""
        start = self.files[-1].end if self.files else offset - offset % self.file_size
        file = MappedFile.create(self.directory / file_name(start), self.file_size, start=start, step=self.step)
        self.files.append(file)
        return file

    def truncate(self, offset: int) -> int:
        """Cut so that `max_offset == offset`: delete later files, zero the rest of the file that holds it.

        Zeroing matters: readers find the end of data by what is not valid, and stale bytes may look valid. Returns how
        many bytes had to be zeroed (0: the tail was clean). Not durable until `sync`.
        """
        while self.files and self.files[-1].start >= offset:
            if self.files[-1].start == offset and len(self.files) == 1:
                break  # keep an empty first file: it carries the offset at which the sequence goes on
            self.files.pop().destroy()
        last = self.last
        if last is None:
            return 0
        last.position = min(max(offset - last.start, 0), last.size)
        last.reserved = min(last.reserved, last.position)
        return last.zero(last.position)

    def drop_first(self) -> None:
        """Give the oldest file to `dispose`. Slices of it in flight stay readable."""
        self.dispose(self.files.pop(0))

    def sync(self, begin: int = 0) -> None:
        """Put on disk every file with bytes at or after `begin`. Raises OSError."""
        for file in list(self.files):
            if file.end > begin:
                file.sync()

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files.clear()

    def destroy(self) -> None:
        """Close and delete all files, and the directory if that leaves it empty."""
        while self.files:
            self.files.pop().destroy()
        disk.remove_folder(self.directory)
