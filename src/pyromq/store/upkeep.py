"""What a running store does by the clock: flush queues, write checkpoint and manifest, clean up, try a full disk again.

`tick` runs in the owner's thread and only starts things; the syncs themselves run in the worker.
"""

import logging

from pyromq.store.config import StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.flush import Flusher
from pyromq.store.retention import Retention
from pyromq.store.save.saver import Saver
from pyromq.store.stats import StoreStats

log = logging.getLogger(__name__)

_SECOND = 1_000


class Upkeep:
    """The periodic work of one store."""

    def __init__(
        self,
        config: StoreConfig,
        saver: Saver,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        flusher: Flusher,
        flags: RunningFlags,
        stats: StoreStats,
        retention: Retention,
    ) -> None:
        self._config = config
        self._saver = saver
        self._log = commit_log
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._flags = flags
        self._stats = stats
        self._retention = retention
        self._now = 0
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
        self._dispatcher.check()
        if self._is_due("sample", now, _SECOND):
            self._stats.sample(now)
        if self._is_due("probe", now, _SECOND):
            self._probe()
        grown = self._dispatcher.position - self._saver.offset
        if self._is_over("save", self._config.flush_consume_queue_thorough_interval) or (
            grown >= self._config.save_interval_bytes
        ):
            self.save_soon()
        elif self._is_due("flush", now, self._config.flush_interval_consume_queue) and self._saver.idle:
            self._saver.flush_queues()
        else:
            self._saver.write_some()
        if self._is_due("clean", now, self._config.clean_resource_interval):
            self._clean()

    def save_soon(self) -> None:
        """Sync everything and note it in checkpoint and manifest, in the worker, once the last round is over."""
        if self._saver.idle:
            self._due["save"] = self._now + self._config.flush_consume_queue_thorough_interval
            self._saver.begin(self._now)
        else:
            self._due["save"] = self._now

    def save(self) -> None:
        """The same, now and here. Raises OSError or StoreError."""
        self._saver.save(self._now)

    def disclaim(self) -> None:
        """Before the log is cut on purpose: no longer vouch on disk for what it had. Raises OSError."""
        self._saver.disclaim()

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

    def _is_due(self, task: str, now: int, interval: int) -> bool:
        if not self._is_over(task, interval):
            return False
        self._due[task] = now + interval
        return True

    def _is_over(self, task: str, interval: int) -> bool:
        """Whether the time of a task has come. Further ahead than its interval means that the clock was set back."""
        return not self._now < self._due[task] <= self._now + interval
