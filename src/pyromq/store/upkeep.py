"""What a running store does by the clock: flush queues, write checkpoint and manifest, clean up, try a full disk again.

`tick` runs in the owner's thread and only starts things; the syncs themselves run in the worker.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait

from pyromq.store.checkpoint import Checkpoint
from pyromq.store.config import StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import StoreError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage
from pyromq.store.log.flush import Flusher
from pyromq.store.manifest import Manifest
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.retention import Retention
from pyromq.store.stats import StoreStats

log = logging.getLogger(__name__)

_SECOND = 1_000
WRITTEN_PER_TICK = 16
"""Queues whose entries go to their files in a tick in which nothing else is done about them."""


class Upkeep:
    """The periodic work of one store."""

    def __init__(
        self,
        config: StoreConfig,
        worker: Executor,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: Checkpoint,
        dispatcher: Dispatcher,
        flusher: Flusher,
        flags: RunningFlags,
        stats: StoreStats,
        retention: Retention,
        damage: Damage,
    ) -> None:
        self._config = config
        self._worker = worker
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._flags = flags
        self._stats = stats
        self._retention = retention
        self._damage = damage
        self._now = 0
        self._saved = 0  # offset of the last manifest
        self._flushing: Future[None] | None = None
        self._due = dict.fromkeys(("sample", "flush", "save", "clean", "probe"), 0)

    def start(self, now: int) -> None:
        self._now = now
        for task in self._due:
            self._due[task] = now
        self._due["save"] = now + self._config.flush_consume_queue_thorough_interval

    def tick(self, now: int) -> None:
        """Whatever is due at `now` (milliseconds)."""
        self._now = now
        self._flusher.settle()
        self._flusher.expire(now)
        if self._is_due("sample", now, _SECOND):
            self._stats.sample(now)
        if self._is_due("probe", now, _SECOND):
            self._probe()
        grown = self._dispatcher.position - self._saved
        if self._is_over("save", self._config.flush_consume_queue_thorough_interval) or (
            grown >= self._config.save_interval_bytes
        ):
            self.save_soon()
        elif self._is_due("flush", now, self._config.flush_interval_consume_queue) and self._idle():
            self._guarded(self._flush_queues)
        else:
            self._guarded(self._write_some)
        if self._is_due("clean", now, self._config.clean_resource_interval):
            self._clean()

    def save_soon(self) -> None:
        """Sync everything and note it in checkpoint and manifest, in the worker, once the last round is over."""
        if self._idle():
            self._due["save"] = self._now + self._config.flush_consume_queue_thorough_interval
            self._guarded(lambda: self._submit(self._prepare_save()))
        else:
            self._due["save"] = self._now

    def save(self) -> None:
        """The same, now and here. Raises OSError or StoreError."""
        self._prepare_save()()

    def disclaim(self) -> None:
        """Before the log is cut on purpose: no longer vouch on disk for what it had. Raises OSError."""
        if self._flushing is not None:
            wait([self._flushing])
        self._checkpoint.physic_timestamp = self._checkpoint.logics_timestamp = 0
        self._checkpoint.flush()
        Manifest(self._log.min_offset, {}).write(self._config.store_path_root_dir)
        self._saved = 0

    def _flush_queues(self) -> None:
        self._submit(self._queues.prepare_flush(thorough=False))

    def _write_some(self) -> None:
        self._queues.write_some(WRITTEN_PER_TICK)

    def _submit(self, work: Callable[[], None]) -> None:
        self._flushing = self._worker.submit(self._guarded, work)

    def _prepare_save(self) -> Callable[[], None]:
        """Write out what is in memory; the work returned syncs it. Nothing is claimed before it is on disk."""
        lengths: dict[str, dict[int, tuple[int, int]]] = {}
        for queue in self._queues:
            lengths.setdefault(queue.topic, {})[queue.queue_id] = queue.first_offset, queue.max_offset
        self._damage.forget(self._log.min_offset, self._log.max_offset)
        manifest = Manifest(self._dispatcher.position, lengths, damaged=self._damage.stretches)
        # No checksum covers a record's time: a torn one from the future must not vouch for what is yet to come.
        timestamp = min(self._dispatcher.last_timestamp, self._now)
        self._saved = manifest.offset
        sync_queues = self._queues.prepare_flush(thorough=True)
        sync_index = self._index.prepare_flush() if self._index is not None else None
        manifest.indexed = self._index.end_offset if self._index is not None else -1

        def save() -> None:
            if not self._flusher.sync():
                return
            sync_queues()
            if self._index is not None and sync_index is not None:
                sync_index()
                self._checkpoint.index_timestamp = self._index.safe_timestamp
            if timestamp:
                self._checkpoint.physic_timestamp = self._checkpoint.logics_timestamp = timestamp
            self._checkpoint.flush()
            manifest.write(self._config.store_path_root_dir)

        return save

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (OSError, StoreError) as error:
            log.warning("consume queues or index could not be flushed, the next round tries again: %s", error)

    def _clean(self) -> None:
        try:
            if self._retention.run_once().queue_files:
                self.save_soon()  # else recovery would miss them
        except OSError as error:
            log.warning("old files cannot be deleted, the next round tries again: %s", error)

    def _probe(self) -> None:
        """See whether a disk that was full has space again."""
        if self._flags.has(Flag.NO_SPACE) and self._log.has_space():
            self._flags.clear(Flag.NO_SPACE)
            log.info("there is disk space again, messages are accepted")
        if self._dispatcher.stuck:
            self._dispatcher.advance(self._flusher.flushed if self._config.sync_flush else self._log.max_offset)

    def _idle(self) -> bool:
        return self._flushing is None or self._flushing.done()

    def _is_due(self, task: str, now: int, interval: int) -> bool:
        if not self._is_over(task, interval):
            return False
        self._due[task] = now + interval
        return True

    def _is_over(self, task: str, interval: int) -> bool:
        """Whether the time of a task has come. Further ahead than its interval means that the clock was set back."""
        return not self._now < self._due[task] <= self._now + interval
