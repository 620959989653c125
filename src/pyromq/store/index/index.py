"""Messages by key: the index files of a store, oldest first (S-12 to S-14). Rebuilt from the log where it is behind.

Only hashes are kept, so whoever asks must compare the key text of the records found. `add`, `query` and
`delete_before` belong to the owner's thread; `flush` may run in another one.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol

from pyromq import disk
from pyromq.store.config import StoreConfig
from pyromq.store.errors import DiskFullError
from pyromq.store.index.file import IndexFile, Layout
from pyromq.store.index.keyhash import HASHED, MAX_AT_ONCE, Key, KeyHasher, Keys

log = logging.getLogger(__name__)

_NAME_LENGTH = 17  # yyyyMMddHHmmssSSS in local time
_MAX_HASHED = 1024 * HASHED.size  # bytes of hashed keys that wait: they come with many at a time
_MAX_MAPPED = 4  # files besides the newest that stay mapped for queries


class IndexHits(NamedTuple):
    """What a query found: physical offsets in ascending order, and how far the index reaches."""

    offsets: list[int]
    last_timestamp: int
    last_offset: int


class Indexable(Protocol):
    """What is indexed of a record."""

    topic: str
    physical_offset: int
    store_timestamp: int
    properties: dict[str, str]


class Index:
    """The index of one store.

    `max_physical_offset` is the record up to which, inclusive, keys are indexed (-1: none); `add` ignores records up to
    it, so feeding a stretch of the log again is harmless. `safe_timestamp` is what the checkpoint should hold: the end
    of the last full file that is on disk.
    """

    __slots__ = (
        "_clock",
        "_directory",
        "_files",
        "_hashed",
        "_hasher",
        "_layout",
        "_limit",
        "_mapped",
        "_waiting",
        "max_physical_offset",
        "safe_timestamp",
    )

    def __init__(self, directory: Path, config: StoreConfig, clock: Callable[[], int]) -> None:
        self._directory = directory
        self._layout = Layout(config.max_hash_slot_num, config.max_index_num)
        self._limit = config.max_msgs_num_batch
        self._clock = clock
        self._hasher = KeyHasher()
        self._hashed = bytearray()  # keys before those of `_waiting`
        self._waiting: list[Key] = []
        self._files: list[IndexFile] = []
        self._mapped: list[IndexFile] = []
        self.max_physical_offset = -1
        self.safe_timestamp = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def end_offset(self) -> int:
        """Offset of the last record that has a key in a file; -1 without one."""
        return next((file.end_offset for file in reversed(self._files) if not file.empty), -1)

    def load(self, safe_timestamp: int | None) -> None:
        """Read what is there. `safe_timestamp` is None after a clean stop, else the checkpoint's index time.

        Files that end later than it may be torn: they are checked and their slots restored. Files with other names are
        left alone. Raises StoreFormatError for a file of another layout.
        """
        for entry in disk.entries(self._directory):
            path = Path(entry.path)
            if not (entry.is_file() and path.name.isascii() and path.name.isdigit()):
                log.warning("%s is not an index file; ignored", path)
                continue
            file, cut = IndexFile.load(path, self._layout)
            if cut or (safe_timestamp is not None and (file.end_timestamp > safe_timestamp or not file.full)):
                dropped = file.rebuild()
                if cut or dropped:
                    log.warning("index file %s was damaged: restored, %d of its keys dropped", path, dropped)
            self._files.append(file)
            self._use(file)
        self.max_physical_offset = self.end_offset
        self.safe_timestamp = safe_timestamp or 0

    def add(
        self, topic: str, unique_key: str | None, keys: str | None, physical_offset: int, store_timestamp: int
    ) -> None:
        """Index a record by its unique key and by each word of `keys`.

        The record waits in a bounded buffer, since hashing and writing many at once is quicker. Raises DiskFullError
        when the buffer is full and cannot be emptied: the record was then not taken.
        """
        if physical_offset <= self.max_physical_offset:
            return
        waiting = self._waiting
        if len(waiting) >= MAX_AT_ONCE or len(self._hashed) >= _MAX_HASHED:
            self.drain()
        if unique_key:
            waiting.append((topic, unique_key, physical_offset, store_timestamp))
        if keys:
            waiting += [(topic, key, physical_offset, store_timestamp) for key in keys.split(" ") if key]
        self.max_physical_offset = physical_offset

    def add_many(self, records: Iterable[Indexable]) -> None:
        """`add` for each of several records. Raises DiskFullError; some may have been taken then."""
        waiting, done = self._waiting, self.max_physical_offset
        for record in records:
            offset, find = record.physical_offset, record.properties.get
            if offset <= done:
                continue
            if len(waiting) >= MAX_AT_ONCE or len(self._hashed) >= _MAX_HASHED:
                self.drain()
            topic, timestamp, unique_key, keys = record.topic, record.store_timestamp, find("UNIQ_KEY"), find("KEYS")
            if unique_key:
                waiting.append((topic, unique_key, offset, timestamp))
            if keys:
                waiting += [(topic, key, offset, timestamp) for key in keys.split(" ") if key]
            self.max_physical_offset = offset

    def add_keys(self, keys: Sequence[Key], first: int, last: int) -> bool:
        """Index the keys, in the order of the log, of all records from `first` to `last`; False if some were indexed.

        Raises DiskFullError, none are taken then.
        """
        if first <= self.max_physical_offset:
            return False
        if len(self._waiting) >= MAX_AT_ONCE:
            self.drain()
        self._waiting += keys
        self.max_physical_offset = last
        return True

    def add_hashed(self, keys: bytes, first: int, last: int) -> bool:
        """`add_keys` for keys that are hashed already, see `HASHED`."""
        if first <= self.max_physical_offset:
            return False
        if len(self._hashed) >= _MAX_HASHED:
            self.drain()
        while self._waiting:  # they come before these
            waiting = self._waiting[:MAX_AT_ONCE]
            hashes = self._hasher.keys(waiting)
            self._hashed += b"".join(
                [HASHED.pack(key_hash, key[2], key[3]) for key_hash, key in zip(hashes, waiting, strict=True)]
            )
            del self._waiting[:MAX_AT_ONCE]
        self._hashed += keys
        self.max_physical_offset = last
        return True

    def add_rest(self, keys: Keys, last: int) -> None:
        """Index the keys, in the order of the log, of records up to `last`, but for those that were indexed.

        Raises DiskFullError, none are taken then.
        """
        done = self.max_physical_offset
        if last <= done:
            return
        if isinstance(keys, bytes):
            skipped = bisect_right(range(len(keys) // HASHED.size), done, key=partial(_place_of, keys))
            self.add_hashed(keys[skipped * HASHED.size :], done + 1, last)
        else:
            self.add_keys(keys[bisect_right(keys, done, key=itemgetter(2)) :], done + 1, last)

    def drain(self) -> None:
        """Write what waits in the buffers into the files. Raises DiskFullError; the rest is still there then."""
        hashed, waiting = self._hashed, self._waiting
        while hashed:
            del hashed[: self._open_file().add_hashed(hashed) * HASHED.size]
        while waiting:
            keys = waiting[:MAX_AT_ONCE]
            del waiting[: self._open_file().add(self._hasher.keys(keys), keys)]

    def query(self, topic: str, key: str, max_count: int, begin: int, end: int) -> IndexHits:
        """Offsets of the newest records, at most `max_count`, whose key has this hash, stored within [begin, end] ms.

        Times are known to the second, so a record may lie up to a second outside: look at what you load.
        """
        if self._waiting or self._hashed:
            with suppress(DiskFullError):  # what cannot be written yet cannot be found yet
                self.drain()
        if not self._files:
            return IndexHits([], 0, 0)
        key_hash = self._hasher.key(topic, key)
        wanted = min(max_count, self._limit)
        found: set[int] = set()
        for file in reversed(self._files):
            if len(found) >= wanted:
                break
            if not file.empty and begin <= file.end_timestamp + 999 and end >= file.begin_timestamp:
                self._use(file)
                found.update(file.find(key_hash, begin, end, wanted - len(found)))
            if file.begin_timestamp < begin:
                break
        newest = self._files[-1]
        return IndexHits(sorted(found), newest.end_timestamp, newest.end_offset)

    def delete_before(self, min_physical: int) -> int:
        """Delete files, never the newest, whose records are all below the log's minimum. Returns how many."""
        deleted = 0
        while len(self._files) > 1 and self._files[0].end_offset < min_physical:
            file = self._files.pop(0)
            if file in self._mapped:
                self._mapped.remove(file)
            file.destroy()
            deleted += 1
        return deleted

    def truncate_to(self, physical_end: int) -> None:
        """The log ends earlier than keys were indexed: drop the keys of records that are gone."""
        if self.max_physical_offset < physical_end:
            return
        self._waiting[:] = [key for key in self._waiting if key[2] < physical_end]
        self._hashed[:] = b"".join(
            [HASHED.pack(*key) for key in HASHED.iter_unpack(self._hashed) if key[1] < physical_end]
        )
        while self._files and self._files[-1].begin_offset >= physical_end:
            file = self._files.pop()
            if file in self._mapped:
                self._mapped.remove(file)
            file.destroy()
        if self._files and self._files[-1].end_offset >= physical_end:
            self._files[-1].end_offset = physical_end - 1
            self._files[-1].rebuild()
        self.max_physical_offset = self.end_offset

    def prepare_flush(self) -> Callable[[], None]:
        """Write out what waits, and return the work that puts it on disk, which may run in another thread.

        Raises DiskFullError, and the work OSError; prepare again later then.
        """
        self.drain()
        files = [file for file in self._files if not file.synced]

        def sync() -> None:
            for file in files:
                full = file.full
                file.sync()
                if full:
                    self.safe_timestamp = max(self.safe_timestamp, file.end_timestamp)

        return sync

    def flush(self) -> None:
        """Put everything on disk now."""
        self.prepare_flush()()

    def close(self, *, flush: bool = True) -> None:
        """Put everything on disk, unless told not to, and let go of the files, also if that fails."""
        try:
            if flush:
                self.flush()
        finally:
            for file in self._files:
                file.close()
            self._files.clear()
            self._mapped.clear()

    def destroy(self) -> None:
        """Delete all files, to be built again from the log."""
        for file in self._files:
            file.destroy()
        self._files.clear()
        self._mapped.clear()
        self.max_physical_offset = -1

    def _open_file(self) -> IndexFile:
        """The file that takes the next key."""
        return self._files[-1] if self._files and not self._files[-1].full else self._extend()

    def _extend(self) -> IndexFile:
        last = self._files[-1] if self._files else None
        file = IndexFile.create(self._directory / self._next_name(), self._layout, last)
        self._files.append(file)
        self._use(file)
        return file

    def _next_name(self) -> str:
        """The local time, but always after the newest file: names are the order, and clocks step back."""
        now = datetime.fromtimestamp(self._clock() / 1000, UTC).astimezone()
        name = int(f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}")
        if self._files:
            name = max(name, int(self._files[-1].path.name) + 1)
        return f"{name:0{_NAME_LENGTH}d}"

    def _use(self, file: IndexFile) -> None:
        """Keep few files mapped: forget the one used longest ago, but never one that still has to be synced."""
        if file in self._mapped:
            self._mapped.remove(file)
        self._mapped.append(file)
        for candidate in self._mapped[:-_MAX_MAPPED]:
            if candidate.synced and candidate is not self._files[-1]:
                candidate.close()
                self._mapped.remove(candidate)


def _place_of(keys: bytes, number: int) -> int:
    """The physical offset of one of many hashed keys."""
    return int(HASHED.unpack_from(keys, number * HASHED.size)[1])
