"""A slave's log: the bytes of its master as they are, and the end cut off where the two went apart."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyromq.disk import Bytes
from pyromq.store.config import BrokerRole
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import StoreClosedError, StoreError
from pyromq.store.index.index import Index
from pyromq.store.log.appender import Appender
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.flush import Flusher
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.upkeep import Upkeep


class Replica:
    """What only a slave does with its store."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        dispatcher: Dispatcher,
        flusher: Flusher,
        appender: Appender,
        upkeep: Upkeep,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._appender = appender
        self._upkeep = upkeep

    def append(self, offset: int, data: Bytes) -> None:
        """Take a master's bytes as they are, and dispatch them here. They must begin at the end of the log.

        Raises StoreError for bytes that do not follow or when this store is not a slave, DiskFullError.
        """
        self._check_open()
        if self._appender.rules.role is not BrokerRole.SLAVE:
            raise StoreError("only a slave takes bytes of another log")
        self._log.append_raw(offset, data)
        if self._appender.sync:
            self._flusher.wake()
        else:
            self._dispatcher.advance(self._log.max_offset)

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on, which must be the start of a record: for a slave that went astray."""
        with self._cut(offset):
            self._queues.truncate_to(offset)
            self._log.truncate(offset)
            self._log.sync()  # or old records could come back behind those that take their place

    def discard(self) -> None:
        """Forget every message: for a slave whose next bytes its master no longer has. Offsets of queues go on.

        The queues go first: a crash in between leaves a log from which they are made again.
        """
        with self._cut(0):
            for topic in self._queues.topics():
                self._queues.delete(topic)
            self._log.clear()

    @contextmanager
    def _cut(self, offset: int) -> Iterator[None]:
        """What goes with the end of the log from `offset` on, around whatever takes that away."""
        self._check_open()
        self._upkeep.disclaim()
        with self._flusher.hold:
            self._dispatcher.forget(offset)
            if self._index is not None:
                self._index.truncate_to(offset)
            yield
            self._flusher.reset(offset)
        self._appender.tails.forget()
        self._upkeep.save_soon()

    def _check_open(self) -> None:
        if not self._appender.rules.accepting:
            raise StoreClosedError("the store is not open")
