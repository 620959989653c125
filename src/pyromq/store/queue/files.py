"""The files of one consume queue: bytes at positions, no meaning. Written with `pwrite`, read with `pread`, not mapped.

Ten thousand queues must fit into a few hundred descriptors, and a map costs one each. So descriptors are borrowed from
a shared cache, files have their full length from the start (sparse), and a full disk is an error of the write itself.
"""

import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq import disk, durable
from pyromq.disk import Bytes
from pyromq.store.errors import StoreFormatError
from pyromq.store.space import translated, write_at

log = logging.getLogger(__name__)

_NAME_LENGTH = 20
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)
_MANY = 64  # files above which one sync of the file system is quicker than one for each
_THREADS = 8  # that sync so many
_MAX_READING = 256  # queues that keep what they read ahead, some kilobytes each


def sync_files(paths: Iterable[str]) -> None:
    """Put files, and the directory entries by which they are found, on disk. For any thread. Raises OSError."""
    paths = list(paths)
    if len(paths) > _MANY:
        # Each file is still asked below, which costs little then and reports errors.
        _sync_with(disk.sync_file_system, paths[0])
    directories = {Path(folder) for folder in {os.path.dirname(path) for path in paths}}  # noqa: PTH120 - thousands
    topics = {directory.parent for directory in directories}
    _each(_sync_file, paths)
    for level in (directories, topics, {topic.parent for topic in topics}):
        _each(_sync_folder, level)


def _each(sync: Callable[[Any], None], these: Collection[Any]) -> None:
    """Sync one after the other, or many in a few threads: most of the time each waits for the disk."""
    if len(these) <= _MANY:
        for each in these:
            sync(each)
        return
    with ThreadPoolExecutor(_THREADS, "pyromq-store-sync") as threads:
        for _ in threads.map(sync, these):
            pass


def _sync_file(path: str) -> None:
    _sync_with(disk.sync_data, path)


def _sync_with(sync: Callable[[int], None], path: str) -> None:
    try:
        fd = disk.open_file(path, writable=True)
    except FileNotFoundError:  # deleted meanwhile
        return
    try:
        sync(fd)
    finally:
        disk.close(fd)


def _sync_folder(path: Path) -> None:
    with suppress(FileNotFoundError):
        durable.sync_folder(path)


class Descriptors:
    """Open files by path, at most `limit`; the one used longest ago is closed first. For the owner's thread.

    Also bounds how many queues keep what they read ahead.
    """

    __slots__ = ("_limit", "_open", "_reading")

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 1)
        self._open: OrderedDict[str, int] = OrderedDict()
        self._reading: deque[QueueFiles] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> int:
        """A descriptor for an existing file; valid until the next call. Raises OSError."""
        fd = self._open.get(path)
        if fd is not None:
            self._open.move_to_end(path)
            return fd
        while len(self._open) >= self._limit:
            disk.close(self._open.popitem(last=False)[1])
        fd = self._open[path] = disk.open_file(path, writable=True)
        return fd

    def keep_ahead(self, files: "QueueFiles") -> None:
        """A queue that kept nothing keeps what it read ahead; the one that began to do so longest ago drops it."""
        if len(self._reading) >= _MAX_READING:
            self._reading.popleft().forget_ahead()
        self._reading.append(files)

    def drop(self, path: str) -> None:
        fd = self._open.pop(path, None)
        if fd is not None:
            disk.close(fd)

    def close(self) -> None:
        while self._open:
            disk.close(self._open.popitem()[1])


class QueueFiles:
    """Files of `size` bytes that follow each other without a gap: `first` and `end` are the range they cover.

    `touched` are the paths written since the owner last took them for syncing.
    """

    __slots__ = ("_descriptors", "_folder", "_reads_ahead", "ahead", "ahead_at", "end", "first", "size", "touched")

    def __init__(self, directory: Path | str, size: int, descriptors: Descriptors) -> None:
        self._folder = str(directory)  # as text: there are thousands, and a path is made of each at every start
        self.size = size
        self.first = self.end = 0
        self.touched: set[str] = set()
        self._descriptors = descriptors
        self.ahead = b""
        """What was read ahead, from the position `ahead_at` on."""
        self.ahead_at = 0
        self._reads_ahead = False

    def load(self) -> bool:
        """Take what is in the directory; False when a part is missing or cut, which can come from the log.

        What does not follow the sound files without a gap is deleted. Raises StoreFormatError when the files were
        written with another file size.
        """
        lengths = self._lengths()
        starts = sorted(lengths)
        if not starts:
            return True
        self.first = self.end = starts[0]
        for start in starts:
            if start == self.end and lengths[start] == self.size:
                self.end += self.size
            else:
                log.warning("%s is cut or behind a gap; deleted, its entries come from the log", self._path(start))
                disk.delete(self._path(start))
        return self.end == starts[-1] + self.size

    def _lengths(self) -> dict[int, int]:
        """The length of each file by its start."""
        found: dict[int, int] = {}
        for item in disk.entries(self._folder):
            if not (item.name.isascii() and item.name.isdigit() and len(item.name) == _NAME_LENGTH):
                log.warning("%s is not a file of a consume queue; ignored", item.path)
                continue
            start, length = int(item.name), item.stat().st_size
            if start % self.size or length > self.size:
                raise StoreFormatError(
                    f"{item.path} has {length} bytes, but consume-queue files here have {self.size}: set the "
                    f"mappedFileSizeConsumeQueue it was written with, or delete {self.directory.parent.parent}"
                )
            found[start] = length
        return found

    @property
    def directory(self) -> Path:
        return Path(self._folder)

    @property
    def exist(self) -> bool:
        return self.end > self.first

    def read(self, begin: int, end: int) -> bytes:
        """Bytes [begin, end), fewer where files end or one has vanished."""
        parts = []
        end = min(end, self.end)
        while self.first <= begin < end:
            stop = min(end, begin - begin % self.size + self.size)
            try:
                parts.append(disk.read_at(self._descriptors.get(self._path(begin)), stop - begin, begin % self.size))
            except FileNotFoundError:
                break
            begin = stop
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_ahead(self, begin: int, end: int) -> None:
        """Have bytes [begin, end) in `ahead`, as far as files go."""
        self.ahead = self.read(begin, end)
        self.ahead_at = begin
        if not self._reads_ahead:
            self._reads_ahead = True
            self._descriptors.keep_ahead(self)

    def forget_ahead(self) -> None:
        """Another queue needs the memory."""
        self._reads_ahead, self.ahead = False, b""

    def write(self, begin: int, data: Bytes) -> None:
        """Write at a position within the files or right behind them. Raises DiskFullError or OSError.

        After an error any part may have been written: write the same again.
        """
        if begin < self.ahead_at + len(self.ahead):
            self.ahead = b""
        view = memoryview(data)
        while view:
            if not self.exist:
                self.first = self.end = begin - begin % self.size
            if begin >= self.end:
                self._extend()
            path = self._path(begin)
            part = view[: self.size - begin % self.size]
            self.touched.add(path)
            write_at(self._descriptors.get(path), part, begin % self.size, path)
            begin += len(part)
            view = view[len(part) :]

    def cut(self, position: int) -> None:
        """Zero everything from a position on; later files go, the first one stays to keep the numbering."""
        self.ahead = b""
        while self.end - self.size >= max(position, self.first + 1):
            self._delete(self.end - self.size)
            self.end -= self.size
        if not self.first <= position < self.end:
            return
        path = self._path(position)
        fd = self._descriptors.get(path)
        for begin, hole in disk.extents(fd, position % self.size, self.size):
            at = begin
            while at < hole:
                block = disk.read_at(fd, min(_BLOCK, hole - at), at)
                if not _ZEROS.startswith(block):
                    stale = len(block.rstrip(b"\0"))  # no more than that, since writing zeros takes blocks too
                    self.touched.add(path)
                    write_at(fd, bytes(stale), at, path)
                at += len(block)

    def delete_first(self) -> None:
        self._delete(self.first)
        self.first += self.size

    def destroy(self) -> None:
        """Delete all files and the directory."""
        while self.exist:
            self.delete_first()
        self.first = self.end = 0
        disk.remove_folder(self.directory)

    def _extend(self) -> None:
        path = self._path(self.end)
        try:
            durable.add_folder(self.directory)
            fd = disk.open_file(path, writable=True, create=True)
            try:
                disk.set_length(fd, self.size)
            finally:
                disk.close(fd)
        except OSError as error:
            raise translated(error, path) from error
        self.end += self.size

    def _delete(self, start: int) -> None:
        self.ahead = b""
        path = self._path(start)
        self._descriptors.drop(path)
        self.touched.discard(path)
        disk.delete(path)

    def _path(self, position: int) -> str:
        return f"{self._folder}/{position - position % self.size:020d}"
