"""From the queue of the timer topic onto the wheel, in the order of the queue."""

import logging
from collections.abc import Callable

from pyromq.broker.delay.timedmessage import TimedMessage
from pyromq.broker.delay.timercounts import Rate, TimerCounts
from pyromq.protocol import names
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.records.tags import java_hash
from pyromq.store.errors import DiskFullError
from pyromq.store.messagestore import MessageStore
from pyromq.store.timer.files import TimerFiles
from pyromq.store.timer.log import DELETE, NORMAL, ROLL, TimerUnit

log = logging.getLogger(__name__)

BATCH = 32
"""Messages a step enters at most."""
RETRY = 0.1
"""Seconds until what the store refused is tried again."""
AFTER_FULL_DISK = 1.0


class TimerQueue:
    """`late` is asked to deal with a message whose slot, the second argument, has passed; False: try again later.

    `window` is how many slots ahead a message can be entered.
    """

    def __init__(
        self,
        store: MessageStore,
        files: TimerFiles,
        counts: TimerCounts,
        rate: Rate,
        window: int,
        late: Callable[[TimedMessage, int], bool],
    ) -> None:
        self._store = store
        self._files = files
        self._counts = counts
        self._rate = rate
        self._window = window
        self._late = late
        self.offset = 0
        """Of the first message that is not on the wheel."""

    @property
    def end(self) -> int:
        """Behind the last message."""
        return self._store.max_offset(names.TIMER_TOPIC, 0)

    @property
    def behind(self) -> int:
        """Messages that are not on the wheel yet."""
        return max(0, self.end - self.offset)

    def step(self, current: int, first_open: int, most: int = BATCH) -> float:
        """Enter some messages into slots from `first_open` on, while `current` is the present one; see `pace.Step`."""
        queue = self._store.queues.get(names.TIMER_TOPIC, 0)
        if queue is None:
            return RETRY
        if self.offset < queue.min_offset:
            log.warning("the timer resumes at %d: there is nothing at %d", queue.min_offset, self.offset)
            self.offset = queue.min_offset
        for physical_offset, size, _ in ENTRY.iter_unpack(queue.entries(self.offset, min(most, BATCH))):
            try:
                entered = self._enter(physical_offset, size, current, first_open)
            except (DiskFullError, OSError) as error:
                log.warning("timed messages wait for disk space: %s", error)
                return AFTER_FULL_DISK
            if not entered:
                return RETRY
            self.offset += 1
        return 0.0

    def _enter(self, physical_offset: int, size: int, current: int, first_open: int) -> bool:
        """Put one message on the wheel, or where it belongs if its slot has passed. False: try again later."""
        if physical_offset in self._files.entered:
            return True
        message = TimedMessage.read(self._store, physical_offset, size)
        if message is None:
            return True
        slot = message.slot
        if slot is None:
            log.error("the message at %d does not say when and where it is to be delivered: dropped", physical_offset)
            return True
        if slot < first_open:
            return self._late(message, slot)
        magic, ahead, window = NORMAL, slot - current, self._window * self._files.precision
        if ahead >= window:
            # Far away: comes back to the timer topic first, so that its record does not age away before it is due.
            magic |= ROLL
            rest = ahead - window
            slot = current + (self._window // 2 * self._files.precision if rest < window // 3 else window)
        change = 1
        if message.recalls is not None:
            magic, change = magic | DELETE, -1
        unit = TimerUnit(-1, magic, current, slot - current, physical_offset, size, java_hash(message.topic))
        self._files.enter(slot, unit, change)
        self._rate.total += 1
        self._counts.add(message.topic, change)
        return True
