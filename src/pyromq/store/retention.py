"""What goes from a store and when: log files by age, by disk ratio and by total size; then what spoke of them.

Never the newest file, never one that is not dispatched yet. Deleting a file that a reader holds a slice of is harmless:
the slice keeps the memory until it is gone. Ages are those of the file system's modification times.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pyromq.store.config import StoreConfig
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.log.mappedfiles import MappedFiles
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.space import used_ratio

log = logging.getLogger(__name__)

_MANUAL_ROUNDS = 20
_HOUR = 3_600_000


class Cleaned(NamedTuple):
    """What one round deleted, and why it looked; "" when there was no reason to."""

    reason: str = ""
    log_files: int = 0
    queue_files: int = 0
    index_files: int = 0


class Retention:
    """Deletes what a store no longer has to keep. Call `run_once` every `clean_resource_interval`.

    Sets the flag DISK_FULL while the disk is fuller than the warning ratio, so that the store refuses messages.
    `dispatched` gives the log offset up to which queues and index are complete.
    """

    def __init__(
        self,
        config: StoreConfig,
        files: MappedFiles,
        queues: ConsumeQueues,
        index: Index | None,
        flags: RunningFlags,
        *,
        clock: Callable[[], int],
        dispatched: Callable[[], int],
        disk_usage: Callable[[Path], float] = used_ratio,
    ) -> None:
        self._files = files
        self._queues = queues
        self._index = index
        self._flags = flags
        self._clock = clock
        self._dispatched = dispatched
        self._disk_usage = disk_usage
        self.use(config)
        self._manual = 0
        self._corrected_to: int | None = None  # the log's beginning that queues and index know of

    def use(self, config: StoreConfig) -> None:
        """Go by these settings from the next round on."""
        self._config = config
        self._hours = config.delete_hours
        self._warning = _clamped(config.disk_space_warning_level_ratio, 35, 90)
        self._forced = _clamped(config.disk_space_clean_forcibly_ratio, 30, 85)
        self._limit = config.disk_max_used_space_ratio / 100

    def request(self) -> None:
        """An administrator's wish: delete expired files in the next rounds, whatever the hour."""
        self._manual = _MANUAL_ROUNDS

    def run_once(self) -> Cleaned:
        """One round. What cannot be deleted now is tried again in the next one."""
        try:
            return self._run_once()
        except OSError as error:
            log.warning("old files could not be deleted, the next round tries again: %s", error)
            return Cleaned("failed")

    def _run_once(self) -> Cleaned:
        if self._corrected_to is None:
            self._corrected_to = self._files.min_offset
        reason, forced = self._reason()
        deleted = self._delete_log_files(forced) if reason else 0
        begin = self._files.min_offset
        if begin == self._corrected_to:
            return Cleaned(reason)
        result = Cleaned(
            reason,
            deleted,
            self._queues.delete_before(begin),
            self._index.delete_before(begin) if self._index is not None else 0,
        )
        self._corrected_to = begin
        if any(result[1:]):  # a new log got its first file otherwise
            log.info(
                "the log begins at %d now: deleted %d log, %d queue and %d index files (%s)",
                begin,
                result.log_files,
                result.queue_files,
                result.index_files,
                reason or "the log had been shortened",
            )
        return result

    def _reason(self) -> tuple[str, bool]:
        """Why to delete now, and whether without regard to age."""
        usage = [self._disk_usage(path) for path in (self._config.commit_log_dir, self._config.store_path_root_dir)]
        worst = max(usage)
        if worst > self._warning:
            if self._flags.set(Flag.DISK_FULL):
                log.warning("the disk is %.0f %% full: messages are refused", worst * 100)
        elif self._flags.clear(Flag.DISK_FULL):
            log.info("the disk is %.0f %% full: messages are accepted again", worst * 100)
        if worst > self._forced:
            return f"the disk is {worst:.0%} full", self._config.clean_file_forcibly_enable
        if self._oversize():
            return "the log is larger than allowed", False
        if self._manual > 0:
            self._manual -= 1
            return "asked for", False
        if datetime.fromtimestamp(self._clock() / 1000, UTC).astimezone().hour in self._hours:
            return "the hour has come", False
        if worst > self._limit or min(usage) < 0:
            return f"the disk is {worst:.0%} full" if worst >= 0 else "the disk's use is not known", False
        return "", False

    def _oversize(self) -> bool:
        limit = self._config.max_commit_log_size
        return 0 < limit < len(self._files) * self._files.file_size

    def _delete_log_files(self, forced: bool) -> int:
        """Oldest first, up to the first file that has to stay, a bounded number a round."""
        files = self._files
        oldest_kept = self._clock() - self._config.file_reserved_time * _HOUR
        dispatched = self._dispatched()
        deleted = 0
        while len(files) > 1 and deleted < self._config.delete_file_batch_max:
            file = files.files[0]
            if file.end > dispatched or not (forced or self._oversize() or file.modified * 1000 <= oldest_kept):
                break
            files.drop_first()
            deleted += 1
        return deleted


def _clamped(percent: int, low: int, high: int) -> float:
    return min(max(percent, low), high) / 100
