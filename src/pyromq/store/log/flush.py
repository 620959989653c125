"""Getting the commit log onto the disk: one thread, one `fdatasync` for everybody who waits (group commit).

The owner's thread appends, asks and is told; the flush thread only reads positions and syncs files. Completions are
handed back with `post` and run in the owner's thread, in the order of their offsets. A sync that fails is final: the
kernel forgets dirty pages it could not write, so trying again would lie; the store stops taking writes instead.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from pyromq.store.config import StoreConfig
from pyromq.store.log.commitlog import CommitLog

log = logging.getLogger(__name__)

PAGE_SHIFT = 12

Done = Callable[[bool], None]
"""Told True when the bytes are on disk, False when the wait timed out or the disk failed."""
Post = Callable[[Callable[[], None]], object]
"""Runs a function in the owner's thread, soon; `loop.call_soon_threadsafe` fits."""


class Flusher:
    """Flushes one commit log. `on_flushed(offset)` and `on_failure()` are called in the owner's thread.

    Without `post`, completions wait until the owner calls `settle` (which `wait` does).
    """

    def __init__(
        self,
        commit_log: CommitLog,
        config: StoreConfig,
        clock: Callable[[], int],
        post: Post | None,
        on_flushed: Callable[[int], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._log = commit_log
        self._clock = clock
        self._post = post
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._timeout = config.sync_flush_timeout
        self._interval = config.flush_interval_commit_log / 1000
        self._thorough = config.flush_commit_log_thorough_interval
        self._least_pages = config.flush_commit_log_least_pages
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._asked = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._syncing = threading.Lock()
        self._waiting: deque[tuple[int, int, Done]] = deque()
        self._last_thorough = 0
        self.synced = 0
        """Everything below is on disk; set by the flush thread."""
        self.flushed = 0
        """The same as far as the owner has been told: callbacks up to here have run."""
        self.failure: OSError | None = None
        self._failure_told = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self, flushed: int) -> None:
        """Begin with everything below `flushed` on disk."""
        self.synced = self.flushed = flushed
        self._last_thorough = self._clock()
        self._thread = threading.Thread(target=self._run, name="pyromq-store-flush", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the sync in progress. What was appended since is flushed by `flush`."""
        self._stopping = True
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def wake(self) -> None:
        """Have everything appended so far flushed soon. Cheap when that was asked for already."""
        if not self._asked:
            self._asked = True
            self._wake.put(None)

    def when_flushed(self, offset: int, done: Done) -> None:
        """Call `done` once everything below `offset` is on disk, or `sync_flush_timeout` has passed (see `expire`)."""
        if offset <= self.flushed:
            done(True)
        elif self.failure is not None:
            done(False)
        else:
            self._waiting.append((offset, self._clock() + self._timeout, done))
            self.wake()

    def wait(self, offset: int, timeout: float) -> bool:
        """Block until everything below `offset` is on disk, at most `timeout` seconds; completions run meanwhile."""
        if self.synced < offset and self.failure is None:
            self.wake()
            with self._changed:
                self._changed.wait_for(lambda: self.synced >= offset or self.failure is not None, timeout)
        self.settle()
        return self.flushed >= offset

    def flush(self) -> bool:
        """Flush all that was appended so far, in the owner's thread. False if the disk failed."""
        self._sync()
        self.settle()
        return self.failure is None

    def sync(self) -> bool:
        """The same from any thread, which leaves completions to the owner. False if the disk failed."""
        self._sync()
        return self.failure is None

    def expire(self, now: int) -> None:
        """Give up waits whose time is over; to be called now and then by the owner."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            self._tell(waiting.popleft()[2], False)

    def settle(self) -> None:
        """Tell the owner's side how far the disk is. Runs in the owner's thread."""
        if self.synced > self.flushed:
            self.flushed = self.synced
            self._on_flushed(self.flushed)
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.flushed:
            self._tell(waiting.popleft()[2], True)
        if self.failure is not None:
            if not self._failure_told:
                self._failure_told = True
                self._on_failure()
            while waiting:
                self._tell(waiting.popleft()[2], False)

    def reset(self, offset: int) -> None:
        """The log was cut to `offset`: what lay beyond no longer counts as flushed. Call `hold` around the cut."""
        self.synced = min(self.synced, offset)
        self.flushed = min(self.flushed, offset)

    @property
    def hold(self) -> threading.Lock:
        """Held by whoever syncs or takes files away."""
        return self._syncing

    @staticmethod
    def _tell(done: Done, durable: bool) -> None:
        try:
            done(durable)
        except Exception:
            log.exception("a flush callback failed; the others are called all the same")

    def _run(self) -> None:
        while True:
            try:
                self._wake.get(timeout=self._interval)
                due = True
            except Empty:
                due = self._due()
            if self._stopping:
                return
            if due and self.failure is None and self._sync() and self._post is not None:
                try:
                    self._post(self.settle)
                except RuntimeError:
                    log.warning("the owner's event loop is gone, flush completions wait for a call to settle()")
                    self._post = None

    def _due(self) -> bool:
        """Whether enough is dirty to flush unasked, or has been for long enough."""
        now, target = self._clock(), self._log.max_offset
        if not 0 <= now - self._last_thorough < self._thorough:  # below 0: the clock was set back
            self._last_thorough = now
            return target > self.synced
        return (target >> PAGE_SHIFT) - (self.synced >> PAGE_SHIFT) >= self._least_pages

    def _sync(self) -> bool:
        """One sync of all that is dirty; returns whether anything changed for those who wait."""
        with self._syncing:
            self._asked = False  # whoever asks from now on gets a sync of their own
            target = self._log.max_offset
            if target <= self.synced:
                return False
            try:
                for file in list(self._log.files):
                    if file.end > self.synced and file.start < target:
                        file.sync()
            except OSError as error:
                self.failure = error
                log.error("flushing the commit log failed, no more messages are accepted: %s", error)  # noqa: TRY400
            else:
                self.synced = target
        with self._changed:
            self._changed.notify_all()
        return True
