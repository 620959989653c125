"""The files of a store as a reader from outside sees them. Nothing is written, locked or kept open longer than needed.

Files are preallocated, so their size is not the end of what they hold: queues end at the first entry of size 0, the log
where no record follows. Files may vanish (retention), and the last ones grow while they are read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyromq import disk
from pyromq.arrow.errors import ReadError
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.protocol.records.record import SYS_FLAG_AT
from pyromq.spark.errors import OptionError
from pyromq.store.queue.offsettime import FILLER_SIZE, Boundary, offset_by_time

ENTRY = np.dtype([("position", ">i8"), ("size", ">i4"), ("tag", ">i8")])
STORE_TIME_AT = 56  # behind an IPv4 address of the producer; an IPv6 one moves it
V6_EXTRA = 12
LOOK_BACK = 1 << 16
"""Entries read at a time when looking for one that is no filler."""

Entries = npt.NDArray[Any]


@dataclass(frozen=True)
class LogFile:
    """One file of a sequence; `start` is the offset of its first byte."""

    path: Path
    start: int
    size: int

    def read(self, begin: int, length: int) -> bytes:
        """Bytes at an offset of the sequence, fewer behind its end. Raises FileNotFoundError once it is deleted."""
        with self._opened() as fd:
            return disk.read_at(fd, min(length, self.size - (begin - self.start)), begin - self.start)

    def next_data(self, begin: int) -> int:
        """The offset from which on there may be anything but zeros: holes of a preallocated file are passed over."""
        with self._opened() as fd:
            first, _ = next(disk.extents(fd, begin - self.start, self.size), (self.size, self.size))
            return self.start + first

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = disk.open_file(self.path)
        try:
            yield fd
        finally:
            disk.close(fd)


def sequence(directory: Path) -> list[LogFile]:
    """The files of a directory, oldest first. Raises OptionError for names or sizes that are none of a store's."""
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if path.is_dir():
            continue
        if not (path.name.isdigit() and len(path.name) == 20):
            raise OptionError(f"{path} is no file of a store; is {directory.parent} a store directory?")
        if size := path.stat().st_size:
            found.append(LogFile(path, int(path.name), size))
    return found


class Queue:
    """A consume queue on disk: where the messages of one queue are."""

    def __init__(self, topic: str, queue_id: int, directory: Path) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._directory = directory

    @cached_property
    def _files(self) -> list[LogFile]:
        return sequence(self._directory)

    @cached_property
    def max_offset(self) -> int:
        """One past the last entry: found by bisection, for unused ones are zero."""
        for file in reversed(self._files):
            low, high = 0, file.size // ENTRY_SIZE
            while low < high:
                middle = (low + high) // 2
                entry = np.frombuffer(file.read(file.start + middle * ENTRY_SIZE, ENTRY_SIZE), ENTRY)
                low, high = (middle + 1, high) if len(entry) and entry["size"][0] > 0 else (low, middle)
            if low or file is self._files[0]:
                return file.start // ENTRY_SIZE + low
        return 0

    def min_offset_in(self, log_start: int) -> int:
        """The first entry whose record is still in the log."""
        low, high = (self._files[0].start // ENTRY_SIZE if self._files else 0), self.max_offset
        while low < high:
            middle = (low + high) // 2
            position = self._record_before(middle + 1)
            if position is None or position < log_start:
                low = middle + 1
            else:
                high = middle
        return low

    def _record_before(self, end: int) -> int | None:
        """Where the last record that was entered below an offset is, passing over fillers; None without one."""
        first, count = self._files[0].start // ENTRY_SIZE, 1
        while end > first:
            begin = max(first, end - count)
            found = self.entries(begin, end)
            records = found["position"][found["size"] != FILLER_SIZE]
            if len(records):
                return int(records[-1])
            end, count = begin, LOOK_BACK
        return None

    def entry(self, index: int) -> tuple[int, int, int] | None:
        """Position, size and tag code."""
        found = self.entries(index, index + 1)
        if not len(found):
            return None
        return int(found["position"][0]), int(found["size"][0]), int(found["tag"][0])

    def entries(self, start: int, end: int) -> Entries:
        """The entries [start, end) as far as they exist. Raises ReadError when their file is gone."""
        parts = []
        position = start
        for file in self._files:
            first, last = file.start // ENTRY_SIZE, (file.start + file.size) // ENTRY_SIZE
            stop = min(end, last, self.max_offset)
            if position < first or position >= stop:
                continue
            try:
                data = file.read(position * ENTRY_SIZE, (stop - position) * ENTRY_SIZE)
            except FileNotFoundError:
                raise ReadError(f"{file.path} was deleted while it was read") from None
            parts.append(np.frombuffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE], ENTRY))
            position = stop
        return np.concatenate(parts) if parts else np.zeros(0, ENTRY)


class StoreFiles:
    """One store directory. Raises OptionError for stores of another kind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._log = root / "commitlog"
        if any(root.glob("dledger-*")):
            raise OptionError(f"{root} is a DLedger store, whose log has another form; read it through its broker")
        if (root / "consumequeue_r").is_dir() or (root / "rocksdb").is_dir():
            raise OptionError(f"{root} keeps its queues in RocksDB; read it through its broker")
        if not self._log.is_dir():
            raise OptionError(f"{root} is no store directory: it has no commitlog")

    def log_files(self) -> list[LogFile]:
        """The files of the commit log as they are now."""
        return sequence(self._log)

    @cached_property
    def log_start(self) -> int:
        files = self.log_files()
        return files[0].start if files else 0

    def topics(self) -> list[str]:
        """Topics that have a queue here, the system's own among them."""
        folder = self.root / "consumequeue"
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def queues(self, topic: str) -> Iterator[Queue]:
        """The queues of a topic. Raises OptionError for topics whose messages are kept in another form."""
        for form, what in (
            ("compaction/compactionLog", "compaction topic"),
            ("batchconsumequeue", "topic of batches"),
        ):
            if (self.root / form / topic).is_dir():
                raise OptionError(f"{topic} is a {what} with files of its own; read it through its broker")
        folder = self.root / "consumequeue" / topic
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
        for number in numbers:
            yield Queue(topic, number, folder / str(number))

    def queue(self, topic: str, queue_id: int) -> Queue:
        return Queue(topic, queue_id, self.root / "consumequeue" / topic / str(queue_id))

    def bounds(self, queue: Queue) -> tuple[int, int]:
        """First offset and the one after the last."""
        low = queue.min_offset_in(self.log_start)
        return low, max(low, queue.max_offset)

    def by_time(self, queue: Queue, millis: int) -> int:
        """The first offset stored at or after a time."""
        low, high = self.bounds(queue)
        return offset_by_time(_Bounded(queue, low, high), millis, Boundary.LOWER, self._store_time)

    def _store_time(self, position: int, _size: int) -> int:
        head = self.read(position, STORE_TIME_AT + V6_EXTRA + 8)
        if len(head) < STORE_TIME_AT + V6_EXTRA + 8:
            return -1
        at = STORE_TIME_AT + (V6_EXTRA if head[SYS_FLAG_AT + 3] & sysflag.BORN_V6 else 0)
        return int.from_bytes(head[at : at + 8], signed=True)

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the log within one file; b"" where there is none any more."""
        for file in self.log_files():
            if file.start <= position < file.start + file.size:
                try:
                    return file.read(position, length)
                except FileNotFoundError:
                    break
        return b""


@dataclass(frozen=True)
class _Bounded:
    """A queue with fixed ends, for searching by time."""

    queue: Queue
    min_offset: int
    max_offset: int

    def entry(self, index: int) -> tuple[int, int, int] | None:
        return self.queue.entry(index)


def store_paths(text: str, key: str) -> dict[str, Path]:
    """`dir`, or `broker-a=dir,broker-b=dir`; the one without a name has the key "". Raises OptionError."""
    found: dict[str, Path] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, path = piece.partition("=")
        found[name.strip() if equals else ""] = Path(path.strip() if equals else piece)
    if not found or ("" in found and len(found) > 1):
        raise OptionError(f"{key} = {text!r} must be one directory, or broker-a=dir,broker-b=dir")
    return found
