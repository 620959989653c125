"""Getting queues and index onto the disk, and noting in checkpoint and manifest what is there.

What is in memory is written in the owner's thread, the syncs run in the worker. Invariant: nothing is claimed before it
is on disk.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait

from pyromq.store.config import StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import StoreError
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage
from pyromq.store.log.flush import Flusher
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.save.checkpoint import StoreCheckpoint
from pyromq.store.save.manifest import Manifest

log = logging.getLogger(__name__)

WRITTEN_AT_ONCE = 16
"""Queues whose entries go to their files in a tick in which nothing else is done about them."""


class Saver:
    """Saves one store."""

    def __init__(
        self,
        config: StoreConfig,
        worker: Executor,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        dispatcher: Dispatcher,
        flusher: Flusher,
        damage: Damage,
    ) -> None:
        self._root = config.store_path_root_dir
        self._worker = worker
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._damage = damage
        self._running: Future[None] | None = None
        self.checkpoint = StoreCheckpoint(config.checkpoint_path)
        self.offset = 0
        """Of the last manifest."""

    @property
    def idle(self) -> bool:
        """Whether the worker is through with the last round."""
        return self._running is None or self._running.done()

    def begin(self, now: int) -> None:
        """Sync everything and note it in checkpoint and manifest, in the worker. Only when it is idle."""
        self._guarded(lambda: self._submit(self._prepare(now)))

    def save(self, now: int) -> None:
        """The same, now and here. Raises OSError or StoreError."""
        self._prepare(now)()

    def flush_queues(self) -> None:
        """Put queues with enough to write on disk, in the worker. Only when it is idle."""
        self._guarded(lambda: self._submit(self._queues.prepare_flush(thorough=False)))

    def write_some(self) -> None:
        """Hand entries of a few queues to their files."""
        self._guarded(lambda: self._queues.write_some(WRITTEN_AT_ONCE))

    def disclaim(self) -> None:
        """Before the log is cut on purpose: no longer vouch on disk for what it had. Raises OSError."""
        if self._running is not None:
            wait([self._running])
        self.checkpoint.physic_timestamp = self.checkpoint.logics_timestamp = 0
        self.checkpoint.flush()
        Manifest(self._log.min_offset, {}).write(self._root)
        self.offset = 0

    def _submit(self, work: Callable[[], None]) -> None:
        self._running = self._worker.submit(self._guarded, work)

    def _prepare(self, now: int) -> Callable[[], None]:
        """Write out what is in memory; the work returned syncs it. Nothing is claimed before it is on disk."""
        lengths: dict[str, dict[int, tuple[int, int]]] = {}
        for queue in self._queues:
            lengths.setdefault(queue.topic, {})[queue.queue_id] = queue.first_offset, queue.max_offset
        self._damage.forget(self._log.min_offset, self._log.max_offset)
        manifest = Manifest(self._dispatcher.position, lengths, damaged=self._damage.stretches)
        # No checksum covers a record's time: a torn one from the future must not vouch for what is yet to come.
        timestamp = min(self._dispatcher.last_timestamp, now)
        self.offset = manifest.offset
        sync_queues = self._queues.prepare_flush(thorough=True)
        sync_index = self._index.prepare_flush() if self._index is not None else None
        manifest.indexed = self._index.end_offset if self._index is not None else -1

        def save() -> None:
            if not self._flusher.sync():
                return
            sync_queues()
            if self._index is not None and sync_index is not None:
                sync_index()
                self.checkpoint.index_timestamp = self._index.safe_timestamp
            if timestamp:
                self.checkpoint.physic_timestamp = self.checkpoint.logics_timestamp = timestamp
            self.checkpoint.flush()
            manifest.write(self._root)

        return save

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (OSError, StoreError) as error:
            log.warning("consume queues or index could not be flushed, the next round tries again: %s", error)
