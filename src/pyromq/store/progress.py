"""How far a store has come, as offsets of its log. Reads only."""

from pyromq.store.dispatcher import Dispatcher
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.flush import Flusher


class Progress:
    """Whether a message is on disk, may be seen, and is seen, is a question of how far each of these is."""

    __slots__ = ("_dispatcher", "_flusher", "_log", "_sync_flush")

    def __init__(self, commit_log: CommitLog, flusher: Flusher, dispatcher: Dispatcher, *, sync_flush: bool) -> None:
        self._log = commit_log
        self._flusher = flusher
        self._dispatcher = dispatcher
        self._sync_flush = sync_flush

    @property
    def flushed(self) -> int:
        """Everything below is on disk."""
        return self._flusher.synced

    @property
    def confirmed(self) -> int:
        """Everything below may be seen by readers and sent to slaves."""
        return self._flusher.synced if self._sync_flush else self._log.max_offset

    @property
    def seen(self) -> int:
        """On a slave: everything below is as safe as its flush type has it, and was offered to queues and listeners."""
        return self._flusher.flushed if self._sync_flush else self._log.max_offset

    @property
    def dispatched(self) -> int:
        """Everything below is in queues and index."""
        return self._dispatcher.position

    @property
    def behind(self) -> int:
        """Bytes of the log that are not in queues and index yet."""
        return self._log.max_offset - self._dispatcher.position

    @property
    def waiting(self) -> int:
        """Messages that are in the log but not on disk, and that nobody may see before they are."""
        return self._dispatcher.backlog
