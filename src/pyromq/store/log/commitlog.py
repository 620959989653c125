"""The commit log: all messages of all topics, one after the other (S-01), in files of equal size.

Appends bytes that others encoded and hands out slices; knows records only as far as the blank one that ends a file.
Invariant: a file that is not full has at least 8 bytes left, so its end can always be marked.
"""

from collections.abc import Iterator
from concurrent.futures import Executor

from pyromq import durable
from pyromq.disk import Bytes
from pyromq.protocol.records.record import BLANK_SIZE, pack_blank
from pyromq.store.config import StoreConfig
from pyromq.store.errors import DiskFullError, StoreError, ensure
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.mappedfiles import MappedFiles, file_name

_PAGES_AHEAD = 4 << 20
"""How many bytes ahead of the end of the log the pages are in memory. A sync writes the zeros in them, so not more."""


class CommitLog:
    """`worker`, when given, is a one-thread executor that gets blocks and pages ahead and deletes files."""

    def __init__(self, config: StoreConfig, worker: Executor | None = None) -> None:
        self._worker = worker
        self.files = MappedFiles(
            config.commit_log_dir,
            config.mapped_file_size_commit_log,
            step=config.allocate_step_commit_log,
            dispose=self._dispose,
        )
        self.last: MappedFile | None = None
        """The file that is appended to."""
        self.limit = -1
        """Up to which position in it a record needs no `room`: its blocks are there, and a blank still fits behind."""
        self._populated = -1
        """Up to which position in it the worker was asked for pages; -1 before anything was written."""

    @property
    def min_offset(self) -> int:
        """Offset of the oldest byte kept; 0 for an empty log."""
        return max(self.files.min_offset, 0)

    @property
    def max_offset(self) -> int:
        """Offset of the next byte to be written."""
        last = self.last
        return last.start + last.position if last is not None else 0

    @property
    def file_size(self) -> int:
        return self.files.file_size

    @property
    def largest_record(self) -> int:
        return self.files.file_size - BLANK_SIZE

    def load(self) -> None:
        """Map what is there; recovery then says where it ends with `truncate`. Raises StoreFormatError."""
        self.files.load()
        self.last = self.files.last

    def truncate(self, offset: int) -> int:
        """Forget everything from `offset` on; returns how many stale bytes were zeroed."""
        if self._worker is not None:
            self._worker.submit(int).result()  # nothing may work on a file that goes away now
        zeroed = self.files.truncate(offset)
        self.last = self.files.last
        self.limit = self._populated = -1
        return zeroed

    def clear(self) -> None:
        """Delete every file; the log may go on at the start of any file."""
        if self._worker is not None:
            self._worker.submit(int).result()
        self.files.destroy()
        self.last = None
        self.limit = self._populated = -1

    def room(self, size: int) -> MappedFile:
        """The file, with blocks reserved, whose `position` is where a record of `size` bytes goes now.

        Ends the last file with a blank record and opens the next one when it does not fit (S-04). `size` must not be
        larger than `largest_record`. Raises DiskFullError or OSError; the log is then as it was.
        """
        file = self.last
        if file is None or size + BLANK_SIZE > file.size - file.position:
            file = self._roll(file, size)
        end = file.position + size
        if end > self.limit:
            self._reserve(file, end)
        return file

    def has_space(self) -> bool:
        """Whether the next allocation succeeds; tries it."""
        file = self.last
        try:
            if file is not None and not file.full:
                file.reserve(min(file.size, max(file.reserved, file.position) + file.step))
        except DiskFullError:
            return False
        return True

    def append_raw(self, offset: int, data: Bytes) -> None:
        """Append a master's bytes as they are, blank tails included. They must begin at `max_offset`.

        An empty log takes the offset it is given, which must be the start of a file. Raises StoreError otherwise, and
        DiskFullError.
        """
        if self.last is None:
            if offset % self.file_size:
                raise StoreError(f"an empty log cannot begin at {offset}, which is not the start of a file")
            self.last = self.files.extend(offset)
            durable.sync_folder(self.files.directory)
            self.limit = -1
        elif offset != self.max_offset:
            raise StoreError(f"the log ends at {self.max_offset}, bytes for {offset} do not follow")
        rest = memoryview(data)
        while rest:
            file = self.last
            if file.full:
                file = self.last = self.files.extend()
                self.limit, self._populated = -1, 0
            piece = rest[: file.size - file.position]
            self._reserve(file, file.position + len(piece))
            file.append_records(_records_in(piece), file.position + len(piece))
            rest = rest[len(piece) :]

    def read(self, offset: int, size: int) -> memoryview | None:
        """`size` bytes from `offset`, if they are all there in one file."""
        return self.files.view(offset, size)

    def read_raw(self, offset: int, limit: int) -> memoryview | None:
        """At most `limit` bytes from `offset`, never across a file; None when the offset is not in the log."""
        file = self.files.find(offset)
        if file is None or offset >= file.start + file.position:
            return None
        begin = offset - file.start
        return file.view(begin, min(begin + limit, file.position))

    def sync(self) -> None:
        self.files.sync()

    def close(self) -> None:
        self.files.close()
        self.last = None

    def _roll(self, file: MappedFile | None, size: int) -> MappedFile:
        """Nothing changes unless the next file exists and has blocks for the record."""
        files = self.files
        start = file.end if file is not None else 0
        fresh = MappedFile.create(files.directory / file_name(start), files.file_size, start=start, step=files.step)
        try:
            fresh.reserve(size)
            if file is None:  # queues that survive a power cut without any log would look like a store half copied
                durable.sync_folder(files.directory)
            elif not file.full:
                file.reserve(file.position + BLANK_SIZE)
        except BaseException:
            fresh.destroy()
            raise
        if file is not None and not file.full:
            file.append(pack_blank(file.size - file.position))
            file.position = file.size
        ensure(file is None or (file.full and file.end == fresh.start), f"{fresh.path} does not follow {file}")
        files.files.append(fresh)
        self.last = fresh
        self.limit, self._populated = -1, -1 if file is None else 0
        return fresh

    def _reserve(self, file: MappedFile, end: int) -> None:
        """Own the blocks up to `end`, and say at which position to ask again."""
        if end > file.reserved:
            file.reserve(end)
        usable = file.size - BLANK_SIZE
        if self._worker is None:
            self.limit = min(file.reserved, usable)
            return
        half = file.step // 2
        limit = file.reserved
        if limit < file.size:
            if end > limit - half:
                # In the second half of the reserved stretch: get the next one before it is needed.
                self._worker.submit(file.reserve, limit + 1)
            else:
                limit -= half
        self.limit = min(limit, max(end, self._populate(self._worker, file, end)), usable)

    def _populate(self, worker: Executor, file: MappedFile, end: int) -> int:
        """Get the next pages when less than half of those ahead are left; returns where to ask again.

        Not before as much has been written: a store at rest takes no memory for what may never come.
        """
        begin, half = max(self._populated, end), _PAGES_AHEAD // 2
        if self._populated < 0:
            self._populated = end
        elif end > self._populated - half:
            self._populated = min(end + _PAGES_AHEAD, file.reserved)
            worker.submit(file.populate, begin, self._populated)
        return max(self._populated - half, end + half)

    def _dispose(self, file: MappedFile) -> None:
        if self._worker is not None:
            self._worker.submit(file.destroy)
        else:
            file.destroy()


def _records_in(data: memoryview) -> Iterator[memoryview]:
    """One record after the other, of bytes that begin with one; what is no record comes in one piece."""
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4])
        end = position + size if BLANK_SIZE <= size <= len(data) - position else len(data)
        yield data[position:end]
        position = end
