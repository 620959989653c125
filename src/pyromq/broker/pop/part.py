"""Pop consumption as a part of the broker."""

import random
from collections.abc import Iterable, Mapping

from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Every, Figure, Park, Part, Told, limit
from pyromq.broker.pop.acks import Acks
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.comeback import Comeback
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.peeks import Peeks
from pyromq.broker.pop.pops import Pops
from pyromq.broker.pop.queues import PopQueues, QueueTurns
from pyromq.broker.pop.revive import Revive, ReviveQueue
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol.properties import Property
from pyromq.remoting.endpoint import Handler
from pyromq.store.errors import StoreError
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

SAVE_INTERVAL = 10.0
HELD_MARGIN_MS = 2_000
"""A checkpoint is in the timer's hands this long before it is due, at most."""


class PopPart(Part):
    """Gives messages out, takes acknowledgements, and brings back what got none."""

    def __init__(
        self, core: Core, timer: TimerDelivery, onward: Onward, tail: Tail, rng: random.Random | None = None
    ) -> None:
        self._core = core
        self._tail = tail
        self.batches = core.tables.batches
        self.park, self.questions = _park(core), _park(core)
        self.log = ReviveLog(core, onward)
        self.buffer = PopBuffer(core, self.log)
        queues, turns = PopQueues(core, self.buffer), QueueTurns(core.config, core.topics, rng or random.Random())
        self._servers = (
            Pops(core, queues, turns, self.park),
            Acks(core, self.log, self.buffer, self.park),
            Peeks(core, queues, turns, self.park, self.questions),
        )
        comeback = Comeback(core, onward)
        self.revive = Revive(
            [ReviveQueue(number, core, self.log, comeback, timer) for number in range(self.log.queues)]
        )
        onward.keep(self.log.topic, self)
        onward.when_woken(self.revive.pace.wake)

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {code: handler for server in self._servers for code, handler in server.handlers().items()}

    def follows(self) -> Mapping[str, Told]:
        """What was popped and not acknowledged."""
        return {self.log.topic: lambda _message: self.revive.pace.wake()}

    def parks(self) -> Iterable[Park]:
        """Pops that found nothing, and those who only ask whether there is anything."""
        return [self.park, self.questions]

    def every(self) -> Iterable[Every]:
        """Save."""
        return [Every(SAVE_INTERVAL, self.batches.save)]

    def metrics(self) -> Iterable[Figure]:
        """Pops that found no place to wait."""
        yield limit("held_pops", self.park.refused + self.questions.refused)

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return {
            "popHeld": len(self.park),
            "popCheckpointsPending": len(self.buffer),
            "popCheckpointsDue": self.revive.waiting,
        }

    def forget_topic(self, topic: str) -> None:
        """Drop everything of a topic that is deleted."""
        self.batches.forget_topic(topic)
        self.buffer.forget_topic(topic)

    async def start(self) -> None:
        """Begin with what happens by itself; on a master from where the log says."""
        core = self._core
        for worker in (self.park, self.questions, self.buffer):
            worker.pace.start()
        if not core.is_slave:
            self.resume_positions()
            self.revive.pace.start()

    def resume_positions(self) -> None:
        """Take up from the log how far groups have popped, and note there what is changed by hand."""
        topics, groups = self._core.topics, self._core.groups
        taken = self._tail.popped.take_up(self._core.offsets, lambda topic, group: topic in topics and group in groups)
        for (topic, group), queues in taken.items():
            self.log.noted(topic, group, *queues)
        self._core.offsets.listeners.append(self.log.void)

    async def stop(self) -> None:
        """Answer those who wait, and leave nothing in memory that a restart would miss."""
        self.revive.pace.stop()
        self.buffer.pace.stop()
        self.park.stop()
        self.questions.stop()
        self.buffer.store_all()
        try:
            self._core.store.flush()
        except StoreError:
            return  # offsets stay where they are, and what was popped is given out again
        self.settle()
        self.batches.persist()

    def settle(self) -> None:
        """Move offsets to what is on disk by now."""
        self.buffer.step()

    def lead(self) -> None:
        """Bring back what was not acknowledged, from now on."""
        self.revive.reload()
        self.revive.pace.start()

    def stand_back(self) -> None:
        """Leave that to the master."""
        self.revive.pace.stop()
        self.revive.reload()

    def take(self, message: PutMessage) -> PutResult:
        """Take in an entry of the revive topic that this slave cannot store."""
        self.revive.note(message.queue_id, (message.property_map or {}).get(Property.TAGS), message.body)
        return PutResult(PutStatus.PUT_OK, 0, 0)

    def held_since(self) -> int | None:
        """What was timed from then on may be in memory only."""
        due = self.revive.oldest_due
        return None if due is None else due - HELD_MARGIN_MS


def _park(core: Core) -> PopPark:
    config = core.config
    return PopPark(
        core.clock,
        capacity=config.max_pop_polling_size,
        per_key=config.pop_polling_size,
        force_every=config.pop_long_polling_force_notify_interval,
    )
