"""Making a store whole after it was opened: where the log ends, what queues and index still lack, what is too much.

Rules that keep data safe: nothing is destroyed because something else is missing or damaged; the log ends with its last
sound record, or later where manifest, checkpoint or queues say that more was on disk; damage before that end is stepped
over and stays as it is, with its offsets in the queues; only what is behind the end is zeroed, so that stale bytes are
never taken for messages later. Queues and index follow the log, never the other way round. What had to be repaired is
logged in one sentence.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress

from pyromq import durable
from pyromq.protocol.records import sysflag
from pyromq.store.config import StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import DiskFullError, StoreFormatError, ensure
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.plainrecord import MIN_SIZE
from pyromq.store.log.resync import end_of_data, next_record
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.offsettime import FILLER_SIZE
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.save.checkpoint import StoreCheckpoint
from pyromq.store.save.manifest import Manifest

log = logging.getLogger(__name__)

_TRANSACTION = sysflag.TRANSACTION_MASK
_QUEUED = (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)

_FOREIGN = {
    "config/rdb": "it keeps its settings in RocksDB",
    "config/topics": "it keeps its settings in RocksDB",
    "consumequeue_rocksdb": "it keeps its queues in RocksDB",
    "batchconsumequeue": "it has topics with batch queues",
    "compaction/compactionLog": "it has compacted topics",  # beside it, Apache leaves a file of positions in any case
}

_SIDE_DATABASE = "rocksdbstore"
"""Apache's 5.5 makes this RocksDB in any case; it has tables or a log with something in it only where it is used."""


def check_layout(config: StoreConfig) -> None:
    """Refuse a directory that this store would misread. Changes nothing. Raises StoreFormatError."""
    root = config.store_path_root_dir
    for name, why in _FOREIGN.items():
        path = root / name
        if path.is_dir() and any(child.is_file() for child in path.rglob("*")):
            raise StoreFormatError(f"{root} cannot be opened: {why} ({path}), which is not supported")
    for path in (root / _SIDE_DATABASE).glob("*"):
        if path.suffix == ".sst" or (path.suffix == ".log" and path.stat().st_size):
            raise StoreFormatError(
                f"{root} cannot be opened: it keeps timers, transactions or its index in RocksDB ({path}), which "
                f"is not supported"
            )
    for parent in (root, config.commit_log_dir):
        if any(parent.glob("dledger-*")):
            raise StoreFormatError(f"{root} cannot be opened: its commit log was written by DLedger, another format")


def check_not_half_copied(config: StoreConfig, commit_log: CommitLog) -> None:
    """An empty commit log beside queues is a half-copied store, or a wrong path: refuse it. Raises StoreFormatError."""
    queues = config.consume_queue_dir
    if not len(commit_log.files) and queues.is_dir() and any(path.is_file() for path in queues.glob("*/*/*")):
        raise StoreFormatError(
            f"{config.commit_log_dir} has no commit log but {queues} has queues: nothing was changed; "
            f"bring the commit log back, or delete the queues to begin anew"
        )


class Recovery:
    """Brings log, queues and index into agreement: `load` once, then `run`."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: StoreCheckpoint,
        dispatcher: Dispatcher,
        damage: Damage,
    ) -> None:
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._dispatcher = dispatcher
        self._damage = damage
        self._known_end = 0  # up to which the log was certainly on disk
        self._by_time = False  # nothing but the checkpoint's time says how long the log was
        self._entered = 0  # queue entries that were missing
        self._stalled: int | None = None  # the record from which on there was no space for entries
        self._last_timestamp = 0

    def load(self) -> bool:
        """Take the files that are there; returns whether the store was closed in order.

        Raises StoreFormatError for a directory that is no such store, before anything was changed.
        """
        config = self._config
        check_layout(config)
        clean = not config.abort_path.exists()
        self._log.load()
        check_not_half_copied(config, self._log)
        self._checkpoint.load()
        self._queues.load()
        if self._index is not None:
            self._index.load(None if clean else self._checkpoint.index_timestamp)
        for folder in (config.commit_log_dir, config.consume_queue_dir):
            durable.make_folder(folder)
        if self._index is not None:
            durable.make_folder(config.index_dir)
        return clean

    def run(self, *, clean: bool) -> None:
        """Recover; `clean` says that the store was closed in order.

        Raises StoreFormatError when the log makes no sense at all.
        """
        if not len(self._log.files):
            return
        manifest = Manifest.read(self._config.store_path_root_dir)
        begin = self._log.min_offset
        dispatched = self._queues.max_physical_offset
        self._known_end = self._end_on_disk(manifest, dispatched if clean else 0)
        self._by_time = manifest is None
        if manifest is not None:
            self._damage.restore(manifest.damaged)
        self._check_beginning(dispatched if manifest is None else 0)
        excess = self._queues.truncate_to(self._log.max_offset)
        if clean:
            start = self._start_after_stop(dispatched)
            if manifest is not None and start < manifest.offset <= self._log.max_offset:
                start = manifest.offset  # queues that were deleted must not come back
        else:
            if manifest is not None and not begin <= manifest.offset <= self._log.max_offset:
                manifest = None
            start = manifest.offset if manifest is not None else self._start_after_crash()
            self._distrust(manifest, start)
        if not self._queues.whole or (manifest is not None and not clean and self._behind(manifest)):
            start = begin
            self._forget_manifest()
        if self._index is not None and (not clean if manifest is None else self._index.end_offset < manifest.indexed):
            start = min(start, max(begin, self._index.end_offset))  # it lost keys, or nothing says that it did not
        walker = self._walk(start)
        if clean and manifest is not None and manifest.offset == walker.position and self._behind(manifest):
            walker = self._walk_all()
        end = walker.position
        excess += self._queues.truncate_to(end)
        if excess:  # they may have claimed to know records which they did not
            self._walk(start, end)
        if manifest is not None and (not clean or manifest.offset == end):
            self._keep_numbering(manifest)
        self._cut(end, walker.fault, clean=clean, excess=excess)

    def _end_on_disk(self, manifest: Manifest | None, dispatched: int) -> int:
        """The offset below which everything was on disk, as far as something says so that can be believed.

        Queues speak of a log that was synced only after an orderly stop, and may be damaged themselves: where they
        point at nothing but zeros, there is nothing to keep.
        """
        begin, end = self._log.min_offset, self._log.max_offset
        known = max(manifest.offset, manifest.kept) if manifest is not None else 0
        if begin + MIN_SIZE <= dispatched <= end:
            file = self._log.files.find(dispatched - 1)
            place = dispatched - file.start if file is not None else 0
            if file is not None and any(file.read(max(place - MIN_SIZE, 0), place)):
                known = max(known, dispatched)
        return known if begin <= known <= end else 0

    def _check_beginning(self, dispatched: int) -> None:
        """A log of which something was certainly on disk must have a sound record somewhere. Changes nothing."""
        files, begin = self._log.files, self._log.min_offset
        lost = max(self._known_end, dispatched) > begin
        if lost and self._first_record(files.files[0]) is None and next_record(files, begin) is None:
            raise StoreFormatError(
                f"{files.directory} has no message that can be read: nothing was changed; bring back the right commit "
                f"log, or see what `pyromq store check` says about it"
            )

    def _distrust(self, manifest: Manifest | None, start: int) -> None:
        """Drop the queue entries that may not have been on disk, whole, when the store crashed."""
        for queue in self._queues:
            if manifest is not None:
                queue.cut_to(manifest.queues.get(queue.topic, {}).get(queue.queue_id, (0, 0))[1])
            else:
                queue.truncate_to(start)
                while queue.max_offset > queue.first_offset and not self._is_right(queue, queue.max_offset - 1):
                    queue.cut_to(queue.max_offset - 1)
                    queue.truncate_to(start)  # a torn entry may have hidden those before it that belong behind

    def _is_right(self, queue: ConsumeQueue, queue_offset: int, *, filler: bool = True) -> bool:
        """Whether an entry points at the record it should, as far as that is still in the log."""
        entry = queue.entry(queue_offset)
        if entry is None:
            return False
        offset, size, _ = entry
        if size == FILLER_SIZE:
            return filler
        if offset < self._log.min_offset:
            return True
        walker = Walker(self._log.files, offset, verify_crc=False, end=offset + size)
        found = next(iter(walker), None)
        place = queue.topic, queue.queue_id, queue_offset, size
        return found is not None and (found.topic, found.queue_id, found.queue_offset, found.size) == place

    def _behind(self, manifest: Manifest) -> bool:
        """Whether a queue lacks entries that it once had on disk. One that lost its beginning is made anew."""
        behind = False
        for topic, queues in manifest.queues.items():
            for queue_id, (first, end) in queues.items():
                queue = self._queues.get(topic, queue_id)
                if queue is not None and queue.first_offset > first:
                    self._queues.delete(topic, queue_id)
                    behind = True
                behind |= self._next_offset((topic, queue_id)) < end
        return behind

    def _keep_numbering(self, manifest: Manifest) -> None:
        """A queue that lost its files, and whose messages left the log before, must not begin at 0 again."""
        for topic, queues in manifest.queues.items():
            for queue_id, (_, end) in queues.items():
                if self._next_offset((topic, queue_id)) < end and self._stalled is None:
                    self._queues.get_or_create(topic, queue_id).skip_to(end)

    def _forget_manifest(self) -> None:
        """Queues are being rebuilt: should the store crash meanwhile, what is in them must not be taken for synced.

        The checkpoint must not say so either, or the loss of the manifest in that crash would hide what is missing.
        """
        self._checkpoint.logics_timestamp = 0
        self._checkpoint.flush()
        manifest = Manifest(self._log.min_offset, {}, kept=self._known_end, damaged=self._damage.stretches)
        manifest.write(self._config.store_path_root_dir)

    def _walk_all(self, end: int | None = None) -> Walker:
        log.warning("consume queues lack entries: they are rebuilt from the whole log")
        self._forget_manifest()
        return self._walk(self._log.min_offset, end)

    def _walk(self, start: int, end: int | None = None) -> Walker:
        """Dispatch whatever is missing from `start` on; all over from the beginning when more than that is missing.

        `end` is known after a first walk, which also checked everything.
        """
        whole = start <= self._log.min_offset
        verify_crc = end is None and self._config.check_crc_on_recover
        walker = Walker(
            self._log.files, start, verify_crc=verify_crc, end=end, damage=self._damage, known_end=self._known_end
        )
        indexed = self._index.max_physical_offset if self._index is not None else 1 << 62
        for record in self._records(walker):
            if self._stalled is not None:
                continue  # still to find the end
            queue = self._queues.get(record.topic, record.queue_id)
            reach, expected = (queue.max_physical_offset, queue.max_offset) if queue is not None else (-1, 0)
            missing = record.offset + record.size > reach and record.sys_flag & _TRANSACTION in _QUEUED
            if not missing and record.offset <= indexed:
                continue
            if missing:
                lost = walker.skipped // MIN_SIZE  # so many messages may have been in what was damaged
                if record.queue_offset > expected:
                    if not whole and record.queue_offset - expected > lost:
                        return self._walk_all(end)
                    if record.damaged and not (queue is None or queue.is_new):
                        continue  # if it says the truth, the next one says so, too
                elif record.queue_offset < expected and not self._give_way(queue, record):
                    log.warning("the record at %d claims an offset given away before: left out", record.offset)
                    continue
                self._entered += 1
            if not self._dispatcher.recover(record, walker.skipped):
                self._stalled, self._dispatcher.skipped = record.offset, walker.skipped
        self._last_timestamp = max(self._last_timestamp, walker.last_timestamp)
        return walker

    def _records(self, walker: Walker) -> Iterator[LogRecord]:
        """All records of a walk that have to be looked at; behind the last sound one also those that only the
        checkpoint's time vouches for."""
        yield from self._left_over(walker)
        if self._by_time and walker.last_timestamp < self._checkpoint.physic_timestamp:
            walker.known_end = max(walker.known_end, end_of_data(self._log.files))
            self._known_end = walker.known_end
            yield from self._left_over(walker)

    def _left_over(self, walker: Walker) -> Iterator[LogRecord]:
        """The records of a walk that are not entered together with others."""
        for found in walker.spans():
            if isinstance(found, LogRecord):
                yield found
            elif self._stalled is None:
                entered = self._dispatcher.enter_span(found)
                if entered is None:
                    yield from walker.one_by_one(found)
                else:
                    self._entered += entered

    def _give_way(self, queue: ConsumeQueue | None, record: LogRecord) -> bool:
        """Whether a record may have an offset that is taken: its queue then ends before it.

        Numbers are covered by no checksum. The queue is believed when its last two entries agree with the log; when the
        last one stands alone behind a gap, it is that one which is wrong.
        """
        if queue is None or record.damaged:
            return False
        queue_offset, last = record.queue_offset, queue.max_offset - 1
        if self._is_right(queue, last, filler=False) and (last == 0 or self._is_right(queue, last - 1, filler=False)):
            return False
        if queue_offset < queue.first_offset:
            queue.destroy()
        else:
            queue.cut_to(queue_offset)
        return True

    def _next_offset(self, key: tuple[str, int]) -> int:
        queue = self._queues.get(*key)
        return queue.max_offset if queue is not None else 0

    def _start_after_stop(self, dispatched: int) -> int:
        """After an orderly stop all is dispatched and synced, so the log ends about where the queues say it does.

        The queue that reaches farthest is believed when it points at a sound record; otherwise nothing is.
        """
        for queue in self._queues:
            if queue.max_physical_offset == dispatched:
                entry = queue.entry(queue.max_offset - 1)
                if entry is not None and entry[0] >= self._log.min_offset and entry[0] + entry[1] == dispatched:
                    walker = Walker(self._log.files, entry[0], verify_crc=True, end=dispatched)
                    if [(record.offset, record.size) for record in walker] == [entry[:2]]:
                        return entry[0]
        return self._log.min_offset

    def _start_after_crash(self) -> int:
        """The newest file whose first record had certainly reached disk and queues before the crash, else the first."""
        safe = self._checkpoint.recovery_time(with_index=self._config.message_index_safe)
        for file in reversed(self._log.files.files):
            first = self._first_record(file)
            if first is not None and 0 < first.store_timestamp <= safe:
                return file.start
        return self._log.min_offset

    def _first_record(self, file: MappedFile) -> LogRecord | None:
        return next(iter(Walker(self._log.files, file.start, verify_crc=True, end=file.end)), None)

    def _cut(self, end: int, fault: str | None, *, clean: bool, excess: int) -> None:
        repairs = []
        if self._entered:
            repairs.append(f"{self._entered} queue entries were missing and are entered again")
        if excess:
            repairs.append(f"{excess} queues pointed behind the end and are cut")
        files = len(self._log.files)
        zeroed = self._log.truncate(end)
        ensure(self._log.max_offset == end, f"the log ends at {self._log.max_offset}, recovery found {end}")
        if zeroed:
            repairs.append(
                f"an incomplete end was removed ({fault})" if fault else "stale bytes at the end were removed"
            )
        if self._damage:
            repairs.append(f"{len(self._damage)} damaged places in it are skipped")
        if removed := files - len(self._log.files):
            repairs.append(f"{removed} files behind the end were removed")
        self._log.sync()
        with suppress(DiskFullError):  # they stay in memory until there is space
            self._queues.flush(True)
        if self._index is not None:
            self._index.truncate_to(end)
        self._queues.correct_min(self._log.min_offset)
        if self._stalled is not None:
            repairs.append(f"no disk space to enter messages from {self._stalled} on, which is done when there is some")
        self._dispatcher.position = end if self._stalled is None else self._stalled
        self._dispatcher.last_timestamp = self._last_timestamp
        if repairs or not clean:
            log.warning(
                "the store in %s was %sstopped in order; its log ends at %d; %s",
                self._config.store_path_root_dir,
                "" if clean else "not ",
                end,
                "; ".join(repairs) or "nothing had to be repaired",
            )
