"""Pop consumption as a part of the broker. No behaviour of its own."""

import random
from collections.abc import Iterable, Mapping

from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.pace import Paced
from pyromq.broker.part import Every, Figure, Park, Part, Told, limit
from pyromq.broker.pop.acks import Acks
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.comeback import Comeback
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.peeks import Peeks
from pyromq.broker.pop.pops import Pops, QueueTurns
from pyromq.broker.pop.queues import PopQueues
from pyromq.broker.pop.revive import Revive, ReviveQueue
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol.properties import Property
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrival
from pyromq.store.errors import StoreError
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

SAVE_INTERVAL = 10.0
HELD_MARGIN_MS = 2_000
"""A checkpoint is in the timer's hands this long before it is due, at most."""
LONGEST_NAP = 1.0


class PopPart(Part):
    """Everything that pops need of a broker whose store is open and whose timer runs."""

    def __init__(self, core: Core, timer: TimerDelivery, onward: Onward, tail: Tail) -> None:
        config, store, clock, topics, groups = core.config, core.store, core.clock, core.topics, core.groups
        offsets, batches, stats = core.offsets, core.tables.batches, core.stats
        self._core = core
        self._store = store
        self._tail = tail
        self.batches = batches
        self.park, self.questions = (
            PopPark(
                clock,
                capacity=config.max_pop_polling_size,
                per_key=config.pop_polling_size,
                force_every=config.pop_long_polling_force_notify_interval,
            )
            for _ in range(2)
        )
        log = self.log = ReviveLog(config, store, clock, onward.put)
        self.buffer = PopBuffer(config, log, offsets, lambda: store.progress.flushed, clock)
        turns = QueueTurns(config, topics, random.Random())
        queues = PopQueues(config, store, offsets, self.buffer, batches)
        self.pops = Pops(config, topics, groups, core.tables.filters, queues, turns, self.park, stats, clock)
        self.acks = Acks(
            config, topics, store, core.durability, offsets, log, self.buffer, batches, self.park, stats, clock
        )
        self.acks.stands_in = lambda: core.role.working
        self.peeks = Peeks(config, topics, groups, store, queues, turns, self.park, self.questions, clock)
        comeback = Comeback(config, topics, groups, offsets, store, stats, stats.stored, put=onward.put)
        self.revive = Revive(
            [
                ReviveQueue(number, config, store, offsets, log, comeback, lambda: timer.read_time)
                for number in range(config.revive_queue_num)
            ]
        )
        self.revive_topic = log.topic
        self._paces = [Paced(self.park.step), Paced(self.questions.step), Paced(self.buffer.step)]
        self.park.wake, self.questions.wake, self.buffer.wake = (pace.wake for pace in self._paces)
        self._reviving = Paced(self.revive.step, longest_nap=LONGEST_NAP)
        onward.keep(self.revive_topic, self.note)
        onward.when_woken(self._reviving.wake)
        if core.is_slave and config.enable_slave_acting_master:
            timer.holds = self.held_since

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return self.pops.handlers() | self.acks.handlers() | self.peeks.handlers()

    def follows(self) -> Mapping[str, Told]:
        """What was popped and not acknowledged."""
        return {self.revive_topic: self.revivable}

    def parks(self) -> Iterable[Park]:
        """Pops that found nothing, and those who only ask whether there is anything."""
        return [self.park, self.questions]

    def every(self) -> Iterable[Every]:
        """Save."""
        return [Every(SAVE_INTERVAL, self.batches.save)]

    def metrics(self) -> Iterable[Figure]:
        """Pops that found no place to wait."""
        yield limit("held_pops", self.park.refused + self.questions.refused)

    def forget_topic(self, topic: str) -> None:
        """Drop everything of a topic that is deleted."""
        self.batches.forget_topic(topic)
        self.buffer.forget_topic(topic)

    def revivable(self, _message: Arrival) -> None:
        """An entry of the revive topic became visible."""
        self._reviving.wake()

    def note(self, message: PutMessage) -> PutResult:
        """Take in an entry of the revive topic that a slave which acts for its master cannot store."""
        self.revive.note(message.queue_id, (message.property_map or {}).get(Property.TAGS), message.body)
        self._reviving.wake()
        return PutResult(PutStatus.PUT_OK, 0, 0)

    def held_since(self) -> int | None:
        """What was timed from then on may be in memory only."""
        due = self.revive.oldest_due
        return None if due is None else due - HELD_MARGIN_MS

    def settle(self) -> None:
        """Move offsets to what is on disk by now."""
        self.buffer.step()

    def lead(self) -> None:
        """Bring back what was not acknowledged, from now on."""
        self.revive.reload()
        self._reviving.start()

    def stand_back(self) -> None:
        """Leave that to the master."""
        self._reviving.stop()
        self.revive.reload()

    async def start(self) -> None:
        """Begin with what happens by itself; on a master from where the log says."""
        core = self._core
        if not core.is_slave:
            topics, groups = core.topics, core.groups
            self._tail.popped.take_up(core.offsets, self.log, lambda topic, group: topic in topics and group in groups)
            core.offsets.listeners.append(self.log.void)
        for pace in self._paces:
            pace.start()
        if not core.is_slave:
            self._reviving.start()

    async def stop(self) -> None:
        """Answer those who wait, and leave nothing in memory that a restart would miss."""
        self._reviving.stop()
        for pace in self._paces:
            pace.stop()
        self.pops.stopping = self.peeks.stopping = True
        self.park.resume_all()
        self.questions.resume_all()
        self.buffer.store_all()
        try:
            self._store.flush()
        except StoreError:
            return  # offsets stay where they are, and what was popped is given out again
        self.buffer.step()
        self.batches.persist()

    def runtime(self) -> dict[str, object]:
        """For the runtime information."""
        return {
            "popHeld": len(self.park),
            "popCheckpointsPending": len(self.buffer),
            "popCheckpointsDue": self.revive.waiting,
        }
