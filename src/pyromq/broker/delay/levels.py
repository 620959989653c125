"""Delivery of delayed messages: one queue of `SCHEDULE_TOPIC_XXXX` per level, each in the order of its due times.

The entry of a queue tells when its message is due, so the next delivery of a level is known without looking at more
than its head. A message is never delivered early. What was delivered since the offsets were saved is known from the log
after a crash (see `tail`); only what is not in the log any more, after a power cut, is delivered again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyromq.broker.core import Core
from pyromq.broker.delay.detour import delivery_of, read_record, real_place
from pyromq.broker.pace import Paced
from pyromq.broker.part import Every, Part, Told
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrival

log = logging.getLogger(__name__)

BATCH = 32
"""Messages a step delivers at most."""
RETRY_MS = 100


@dataclass(slots=True)
class _Level:
    """One level: its delay, when its head is due (None: its queue is empty), and how to read times before a step."""

    number: int
    delay: int | None
    due: int | None = None
    step: int = 0
    """By how much the clock was set back since the messages below the offset `step_end` were stored."""
    step_end: int = 0


class DelayLevels(Part):
    """Messages with a delay level; a slave leaves them to its master, unless it acts for it."""

    def __init__(self, core: Core, onward: Onward, tail: Tail) -> None:
        self._core = core
        self._store = core.store
        self._offsets = core.tables.delays
        self._delays = core.store.config.delays
        self._clock = core.clock
        self._onward = onward
        self._tail = tail
        known = {*self._delays, *(queue_id + 1 for queue_id in self._store.queues.queue_ids(names.SCHEDULE_TOPIC))}
        self._levels = {number: _Level(number, self._delays.get(number)) for number in sorted(known)}
        self._pace = Paced(self.step)
        onward.when_woken(self.look_again)

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {RequestCode.GET_ALL_DELAY_OFFSET: self._table}

    def follows(self) -> Mapping[str, Told]:
        """Messages that wait."""
        return {} if self._core.is_slave else {names.SCHEDULE_TOPIC: self.arrived}

    def every(self) -> Iterable[Every]:
        """Save how far it is."""
        if not self._core.is_slave:
            yield Every(self._core.config.flush_delay_offset_interval / 1000, self.save)

    async def start(self) -> None:
        """Deliver from where the log says."""
        if not self._core.is_slave:
            self.resume()
            self.lead()

    async def stop(self) -> None:
        """Deliver no more, and save how far it got. Raises OSError."""
        if not self._core.is_slave:
            self.stand_back()

    def resume(self) -> None:
        """Pass over what was delivered after the offsets were saved."""
        end = self._store.max_offset
        self._offsets.raise_to(self._tail.delay_offsets(), lambda level: end(names.SCHEDULE_TOPIC, level - 1))

    def lead(self) -> None:
        """Deliver from now on."""
        self.look_again()
        self._pace.start()

    def stand_back(self) -> None:
        """Deliver no more, and save how far it got. Raises OSError."""
        self._pace.stop()
        if self._onward.flush():
            self._offsets.persist(self._offsets.table())

    async def save(self) -> None:
        """Save how far it got, once all of that is on disk: a saved offset must not outlive what it speaks of."""
        table = self._offsets.table()
        if await self._core.durability.reached(self._store.max_physical_offset):
            await asyncio.to_thread(self._offsets.persist, table)

    def arrived(self, message: Arrival) -> None:
        """A delayed message was stored."""
        number = message.queue_id + 1
        level = self._levels.get(number)
        if level is None:
            level = self._levels[number] = _Level(number, self._delays.get(number))
        if level.due is None:
            self._look(level)
            self._pace.wake()

    def look_again(self) -> None:
        """What was refused may be taken now: look at every head again."""
        for level in self._levels.values():
            self._look(level)
        self._pace.wake()

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information: where each level stands, and how far its queue goes."""
        return {
            f"scheduleMessageOffset_{number}": f"{offset},{self._store.max_offset(names.SCHEDULE_TOPIC, number - 1)}"
            for number, offset in self._offsets.items()
        }

    def step(self) -> float | None:
        """Deliver some of what is due, the oldest first; see `pace.Step`."""
        waiting = [level for level in self._levels.values() if level.due is not None]
        if not waiting:
            return None
        now = self._clock()
        for level in waiting:
            if level.delay is not None and (level.due or 0) - now > level.delay:
                self._look(level)  # further away than a message can be: the clock was set back since the last look
        level = min(waiting, key=lambda each: each.due or 0)
        left = (level.due or 0) - now
        if left > 0:
            return left / 1000
        self._deliver(level)
        return 0.0

    def _look(self, level: _Level) -> None:
        """Find out when the level's head is due."""
        level.due = None
        queue = self._store.queues.get(names.SCHEDULE_TOPIC, level.number - 1)
        if queue is None:
            return
        offset = self._offsets.get(level.number)
        within = min(max(offset, queue.min_offset), queue.max_offset)
        if within != offset:
            log.warning("delay level %d resumes at %d: there is nothing at %d", level.number, within, offset)
            self._offsets.move(level.number, within)
        entry = queue.entry(within)
        if entry is not None:
            level.due = self._due(level, within, entry[2], queue.max_offset)

    def _due(self, level: _Level, offset: int, due: int, end: int) -> int:
        """When the message at an offset is due by today's clock.

        Further ahead than the whole delay means that the clock was set back after it was stored (or the delay was
        shortened). How long it has waited cannot be known then, so it waits for the delay from now on; those stored
        before the step keep their distance to it.
        """
        step = level.step if offset < level.step_end else 0
        latest = self._clock() + level.delay if level.delay is not None else due
        if due - step > latest:
            log.warning("the clock was set back by %d ms or more while messages were delayed", due - step - latest)
            level.step, level.step_end = due - latest, end
            return latest
        return due - step

    def _deliver(self, level: _Level) -> None:
        queue = self._store.queues.get(names.SCHEDULE_TOPIC, level.number - 1)
        if queue is None:
            level.due = None
            return
        offset = self._offsets.get(level.number)
        end = queue.max_offset
        for physical_offset, size, due in ENTRY.iter_unpack(queue.entries(offset, BATCH)):
            now = self._clock()
            if self._due(level, offset, due, end) > now:
                break
            if not self._redeliver(level, offset, physical_offset, size):
                level.due = now + RETRY_MS
                return
            offset += 1
            self._offsets.move(level.number, offset)
        self._look(level)

    def _redeliver(self, level: _Level, offset: int, physical_offset: int, size: int) -> bool:
        """Put one message where it belongs. False when that has to be tried again."""
        found = read_record(self._store, physical_offset, size)
        if found is None:
            log.warning("message %d of delay level %d is no longer in the log", offset, level.number)
            return True
        summary, record = found
        properties = decode_properties(summary.properties)
        place = real_place(properties)
        if place is None:
            log.error("message %d of delay level %d has no topic to go to: dropped", offset, level.number)
            return True
        # The stored text keeps DELAY, as Apache's does; without it in the map the message does not wait again.
        properties.pop(Property.DELAY, None)
        delivery = delivery_of(summary, record, place, summary.properties, properties)
        return self._onward.deliver(delivery, "message %d of delay level %d", offset, level.number)

    def _table(self, request: Command, _connection: Connection) -> Command:
        return request.reply(body=self._offsets.table().encode())
