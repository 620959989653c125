"""A slot of time that is over: first its chain is followed, then its recalls are read, then the rest is delivered."""

import logging
from array import array
from collections.abc import Callable

from pyromq.broker.delay.timedmessage import TimedMessage
from pyromq.broker.delay.timercounts import TimerCounts
from pyromq.broker.delay.timerqueue import RETRY
from pyromq.store.messagestore import MessageStore
from pyromq.store.timer.files import TimerFiles
from pyromq.store.timer.log import DELETE, ROLL, TimerUnit

log = logging.getLogger(__name__)

BATCH = 32
"""Messages a step delivers at most."""
CHAIN_BATCH = 512
"""Units of a chain that a step follows at most."""


class DueSlot:
    """The slot of `time`, whose chain ends at `last`. `deliver` puts a message; False: try again later."""

    def __init__(
        self,
        time: int,
        last: int,
        store: MessageStore,
        files: TimerFiles,
        counts: TimerCounts,
        deliver: Callable[[TimedMessage, TimerUnit], bool],
    ) -> None:
        self._time = time
        self._store = store
        self._files = files
        self._counts = counts
        self._put = deliver
        self._next_unit = last
        self._normal = array("q")
        """Positions in the timer log, the last one first. Eight bytes a message, whatever the size of a slot."""
        self._recalls = array("q")
        self._recalled: set[str] = set()
        """Keys of messages that are not to be delivered."""
        self._missed: dict[str, str] = {}
        """Those of them that did not turn up, with their topics."""

    @property
    def drained(self) -> bool:
        """Whether nothing is left of it."""
        return self._next_unit < 0 and not self._recalls and not self._normal

    def step(self) -> float:
        """Do some of what is left; see `pace.Step`."""
        if self._next_unit >= 0:
            self._follow_chain()
        elif self._recalls:
            for _ in range(min(BATCH, len(self._recalls))):
                self._note_recall(self._recalls.pop())
        else:
            for _ in range(min(BATCH, len(self._normal))):
                if not self._deliver(self._normal[-1]):
                    return RETRY
                self._normal.pop()
        return 0.0

    def close(self) -> None:
        """Forget it once it is drained: recalls that found nothing were counted as messages less."""
        for topic in self._missed.values():
            self._counts.add(topic, 1)
        self._files.wheel.clear(self._time)

    def _follow_chain(self) -> None:
        """Collect the units of the chain, from its end to its beginning."""
        position, precision = self._next_unit, self._files.precision
        for _ in range(CHAIN_BATCH):
            unit = self._files.log.read(position)
            if unit is None or unit.time // precision != self._time // precision:
                log.error("the chain of the slot %d breaks at %d of the timer log", self._time, position)
                position = -1
                break
            recall = unit.magic & DELETE and not unit.magic & ROLL
            (self._recalls if recall else self._normal).append(position)
            if unit.previous >= position:
                log.error("the chain of the slot %d turns round at %d of the timer log", self._time, position)
                position = -1
                break
            position = unit.previous
            if position < 0:
                break
        self._next_unit = position

    def _read(self, position: int) -> tuple[TimerUnit, TimedMessage] | None:
        unit = self._files.log.read(position)
        message = TimedMessage.read(self._store, unit.physical_offset, unit.size) if unit is not None else None
        return (unit, message) if unit is not None and message is not None else None

    def _note_recall(self, position: int) -> None:
        found = self._read(position)
        if found is None:
            return
        message = found[1]
        key, topic = message.recalls or "", message.topic
        if not key.startswith(f"{topic}+"):
            return  # of another topic: an older release may have stored it
        if key in self._recalled:
            self._counts.add(topic, 1)  # recalled twice, and counted twice
        self._recalled.add(key)
        self._missed[key] = topic

    def _deliver(self, position: int) -> bool:
        found = self._read(position)
        if found is None:
            log.warning("a message timed for %d is no longer in the log", self._time)
            return True
        unit, message = found
        if self._recalled and message.key in self._recalled:
            self._missed.pop(message.key, None)
            return True
        topic = message.topic
        if not self._put(message, unit):
            return False
        self._counts.add(topic, 1 if unit.magic & DELETE else -1)
        return True
