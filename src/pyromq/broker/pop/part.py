"""Puts the parts of pop consumption together. No behaviour of its own."""

import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.pace import Paced
from pyromq.broker.pop.acks import Acks
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.comeback import Comeback
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.peeks import Peeks
from pyromq.broker.pop.pops import Pops, QueueTurns
from pyromq.broker.pop.queues import PopQueues
from pyromq.broker.pop.revive import Revive, ReviveQueue
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.broker.replication.succession.actingmaster import Work
from pyromq.protocol.properties import Property
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole
from pyromq.store.errors import StoreError
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

SAVE_INTERVAL = 10.0
HELD_MARGIN_MS = 2_000
"""A checkpoint is in the timer's hands this long before it is due, at most."""
LONGEST_NAP = 1.0


class PopParts:
    """Everything that pops need of a broker whose store is open and whose timer runs."""

    def __init__(self, broker: "Broker", timer: TimerDelivery) -> None:
        config, store, clock, topics, groups = broker.config, broker.store, broker.clock, broker.topics, broker.groups
        offsets, batches, stats = broker.offsets, broker.ordered_batches, broker.stats
        self._store = store
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
        log = self.log = ReviveLog(config, store, clock, broker.put_onward)
        self.buffer = PopBuffer(config, log, offsets, lambda: store.progress.flushed, clock)
        turns = QueueTurns(config, topics, random.Random())
        queues = PopQueues(config, store, offsets, self.buffer, batches)
        self.pops = Pops(config, topics, groups, broker.filters, queues, turns, self.park, stats, clock)
        self.acks = Acks(
            config, topics, store, broker.durability, offsets, log, self.buffer, batches, self.park, stats, clock
        )
        self.acks.stands_in = lambda: broker.way_out() is not None
        self.peeks = Peeks(config, topics, groups, store, queues, turns, self.park, self.questions, clock)
        comeback = Comeback(config, topics, groups, offsets, store, stats, broker.sender.count, put=broker.put_onward)
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

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return self.pops.handlers() | self.acks.handlers() | self.peeks.handlers()

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

    def wake_revival(self) -> None:
        """What was refused may be taken now."""
        self._reviving.wake()

    def start_revival(self) -> None:
        """Bring back what was not acknowledged, from now on."""
        self.revive.reload()
        self._reviving.start()

    def stop_revival(self) -> None:
        """Leave that to the master."""
        self._reviving.stop()
        self.revive.reload()

    def start(self, *, reviving: bool) -> None:
        """Begin with what happens by itself."""
        for pace in self._paces:
            pace.start()
        if reviving:
            self._reviving.start()

    def stop(self) -> None:
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


def pop_parts(broker: "Broker", timer: TimerDelivery, undo: AsyncExitStack) -> PopParts:
    """Start all of it; `undo` gets how to stop it."""
    parts = PopParts(broker, timer)
    if broker.config.broker_role is not BrokerRole.SLAVE:
        topics, groups = broker.topics, broker.groups
        broker.tail.popped.take_up(broker.offsets, parts.log, lambda topic, group: topic in topics and group in groups)
        broker.offsets.set_back = parts.log.void
    for park in (parts.park, parts.questions):
        broker.store.add_listener(park.heard, park.topics)
    broker.followers[parts.revive_topic] = parts.revivable
    broker.runtime_sources.append(parts.runtime)
    broker.timers.every(SAVE_INTERVAL, parts.batches.save)
    undo.callback(parts.stop)
    parts.start(reviving=broker.config.broker_role is not BrokerRole.SLAVE)
    if broker.acting is not None:
        timer.holds = parts.held_since
        broker.acting.work.append(Work(parts.start_revival, parts.stop_revival))
        broker.escape.woken.append(parts.wake_revival)
    return parts
