"""The end of the log, which the broker's own positions may not know of yet when it starts.

How far delay levels and the timer have delivered, and how far groups have popped, stands in files that are saved now
and then. What happened since is in the log itself: a delivered message says where it waited, and a pop is noted
before it is answered. So after a crash the end of the log is read once, from where it was when everything had been
saved, and nothing of that is done again. `config/logPosition.json` has that place; Apache's brokers leave it alone.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import msgspec

from pyromq import durable
from pyromq.broker.delay.detour import read_record, waited_at
from pyromq.broker.durability import Durability
from pyromq.broker.pop.positions import PoppedPositions
from pyromq.protocol import names
from pyromq.protocol.bodies.offsets import DelayOffsetTable
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)


class _Saved(msgspec.Struct, rename="camel"):
    log_offset: int


class LogPosition:
    """Where the log ended when everything that is known from it was saved."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = -1
        self._writing = threading.Lock()

    def load(self) -> int | None:
        """The saved place; None when there is none, or none that can be read: nothing depends on it."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Saved).log_offset
        except (OSError, msgspec.MsgspecError):
            return None

    def persist(self, offset: int) -> None:
        """Save a place. Blocks. Raises OSError."""
        with self._writing:  # a cancelled `save` leaves its thread at it
            if offset != self._saved:
                durable.write_file(self._path, msgspec.json.encode(_Saved(offset)))
                self._saved = offset

    def forget(self) -> None:
        """Take back what was saved. Raises OSError."""
        self._path.unlink(missing_ok=True)

    async def save(self, store: MessageStore, durability: Durability, *saves: Callable[[], Awaitable[None]]) -> None:
        """Save everything, and then that it is saved up to where the log ended before. Raises OSError."""
        end = store.max_physical_offset
        if end == self._saved or not await durability.reached(end):
            return
        for save in saves:
            await save()
        await asyncio.to_thread(self.persist, end)


class Tail:
    """What the end of the log says. Empty when there is no telling where it begins."""

    def __init__(self, store: MessageStore, start: int | None, revive_topic: str) -> None:
        self._store = store
        self.popped = PoppedPositions(store, revive_topic)
        self.levels: dict[int, int] = {}
        """Delay level → the offset behind the last message that was delivered."""
        self.timed: set[int] = set()
        """Physical offsets of timed messages that were delivered, or have to wait on."""
        if start is None:
            return
        begin = max(start, store.min_physical_offset)
        walker = Walker(store.commit_log.files, begin, verify_crc=False, damage=store.damage)
        count = 0
        for count, record in enumerate(walker, 1):  # noqa: B007 - counts
            self._learn(record)
        if count:
            log.info("%d records from %d on say what was delivered since positions were saved", count, start)

    @classmethod
    def read(cls, store: MessageStore, position: LogPosition, revive_topic: str, *, follows: bool) -> Self:
        """What the log says beyond a saved position: nothing to a slave, whose positions are its master's.

        Nor after a stop in order, when positions are what they should be, whoever saved them. Raises OSError.
        """
        if follows:
            position.forget()
        elif store.was_in_order:
            position.persist(store.max_physical_offset)
        return cls(store, None if follows or store.was_in_order else position.load(), revive_topic)

    def delay_offsets(self) -> DelayOffsetTable:
        """How far the levels are, as a table."""
        return DelayOffsetTable(offset_table=dict(self.levels))

    def _learn(self, record: LogRecord) -> None:
        origin = waited_at(record.origin)
        if origin < 0:
            self.popped.learn(record)
            return
        found = read_record(self._store, origin, None)
        if found is None:
            return
        waited = found[0]
        if waited.topic == names.SCHEDULE_TOPIC:
            level = waited.queue_id + 1
            self.levels[level] = max(self.levels.get(level, 0), waited.queue_offset + 1)
        elif waited.topic == names.TIMER_TOPIC:
            self.timed.add(origin)
