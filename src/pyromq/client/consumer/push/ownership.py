"""The queues that a push consumer owns: taking them over, giving them up, moving within them.

Giving up means: pull no more, begin nothing more, let what runs end, write the offset, unlock. In that order, so that
the next owner resumes exactly where this one ended.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.offsets import OffsetStore, Read
from pyromq.client.consumer.pop.loop import PopConsumption
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.concurrent import ConcurrentConsumption
from pyromq.client.consumer.push.locks import QueueLocks
from pyromq.client.consumer.push.orderly import OrderlyConsumption
from pyromq.client.consumer.push.pull_loop import Pulling
from pyromq.client.consumer.startoffset import StartOffsets
from pyromq.client.consumer.subscription import Subscriptions, tag_subscription
from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import is_retry_topic, pop_retry_topic

log = logging.getLogger(__name__)

RESET_WAIT = 10.0

QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]
"""Called with a topic, all its queues, and those that this consumer has now."""


@dataclass(kw_only=True)
class Ownership:
    """What rebalancing asks of a push consumer. `group` is the name on the wire, `running` whether it still works."""

    instance: ClientInstance
    group: str
    config: PushConfig
    subscriptions: Subscriptions
    offsets: OffsetStore
    starts: StartOffsets
    locks: QueueLocks
    pulling: Pulling
    consumption: ConcurrentConsumption | OrderlyConsumption
    popping: PopConsumption
    running: Callable[[], bool]
    listeners: list[QueueListener]
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)

    @property
    def locking(self) -> bool:
        """Whether queues are consumed only under the broker's lock."""
        return self.consumption.orderly and self.config.clustering

    def may_write(self, held: ProcessQueue) -> bool:
        """Whether an offset is ours to write: not without the lock, since another may be further by now."""
        return not self.locking or held.holds_lock

    # -- what rebalancing asks

    @property
    def balancing(self) -> bool:
        return self.running() and not self.pulling.paused

    def owned(self, topic: str) -> Collection[MessageQueue]:
        return [queue for queue in self.queues if queue.topic == topic]

    def owned_topics(self) -> Collection[str]:
        return {queue.topic for queue in self.queues}

    def stuck(self, topic: str) -> Collection[MessageQueue]:
        return [
            queue
            for queue, held in self.queues.items()
            if queue.topic == topic and (held.dropped or held.leaving or held.pull_expired)
        ]

    async def take_over(self, queue: MessageQueue, last_owner: str | None) -> bool:
        if self.locking and not await self.locks.lock(queue):
            log.info("%s is still locked by its last owner", queue)
            return False
        self.offsets.remove(queue)
        try:
            offset = await self.starts.find(queue, Read.STORE)
        except ClientError as error:
            log.warning("%s not taken over: %s", queue, error)
            await self._unlock(queue)
            return False
        if not self.balancing:
            await self._unlock(queue)
            return False
        held = ProcessQueue(
            self.instance.clock, lock_life=self.config.lock_life, pull_max_idle=self.config.pull_max_idle
        )
        if self.locking:
            held.lock()
        self.queues[queue] = held
        self.pulling.start(queue, held, offset, last_owner)
        log.info("took over %s at offset %d", queue, offset)
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        held = self.queues.get(queue)
        if held is None:
            return True
        await self.pulling.stop(queue)
        if not await self.consumption.release(queue, held):
            return False
        # Whoever asks for our queues, as the next owner does, finds it among them until its offset is written.
        if self.may_write(held):
            await self.offsets.persist(queue, confirm=True)
        if self.queues.pop(queue, None) is None:
            return True
        self.offsets.remove(queue)
        await self._unlock(queue, later=held.in_flight_count > 0)
        log.info("gave up %s", queue)
        return True

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        self.subscriptions.touch(topic, self.instance.clock.millis())
        self.pulling.limits[topic] = self.config.topic_limits.per_queue(self.config.queue_limits, len(mine))
        await self._announce()
        for listener in self.listeners:
            try:
                listener(namespaces.unwrap(topic, self.config.namespace or ""), queues, mine)
            except Exception:
                log.exception("a queue listener failed")

    async def pop(self, topic: str, queues: Collection[MessageQueue], *, pulls: bool) -> None:
        changed = await self.popping.assign(topic, list(queues))
        # While a topic is pulled, what is left in the retry topic of its pops has to be pulled too.
        leftovers = pop_retry_topic(self.group, topic)
        known = leftovers in self.subscriptions.by_topic
        if pulls and not queues and not known and not is_retry_topic(topic):
            self.subscriptions.add(tag_subscription(leftovers, None, self.instance.clock.millis()))
        elif queues and not pulls and known:
            self.subscriptions.remove(leftovers)
        if changed:
            log.info("group %s pops %d queues of %s", self.group, len(queues), topic)
            await self._announce()

    async def pop_only(self, topics: Collection[str]) -> None:
        for topic in {queue.topic for queue in self.popping.queues} - set(topics):
            await self.popping.assign(topic, [])

    # -- moving

    async def move(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """Write another offset and let go of the queue; the next round takes it over again there."""
        self.offsets.freeze(queue, offset)
        await self.offsets.persist(queue, confirm=True)
        await self.consumption.release(queue, held)
        if self.queues.get(queue) is held:
            del self.queues[queue]
            await self.pulling.stop(queue)
        self.offsets.remove(queue)
        await self._unlock(queue, later=held.in_flight_count > 0)

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moved the offsets: stop, let what runs end, and write them."""
        paused, self.pulling.paused = self.pulling.paused, True
        try:
            moved = {queue: held for queue, held in self.queues.items() if queue.topic == topic and queue in offsets}
            for queue, held in moved.items():
                held.dropped = True
                held.clear()
                await self.pulling.stop(queue)
            await self.consumption.settled(RESET_WAIT)
            for queue, held in moved.items():
                await self.move(queue, held, offsets[queue])
        finally:
            self.pulling.paused = paused

    # -- locks, time-outs, the end

    async def renew_locks(self) -> None:
        await self.locks.renew(dict(self.queues))

    def connection_lost(self, address: str) -> None:
        """The broker may soon give our locks to others: begin nothing more under them, and ask for them at once."""
        topology = self.instance.topology
        lost = [
            held
            for queue, held in self.queues.items()
            if held.locked and topology.publish_address(topology.broker_of(queue)) == address
        ]
        for held in lost:
            held.locked = False
        if lost:
            _ = self.instance.spawn(self.renew_locks(), f"locks of group {self.group} at {address}")

    async def expire(self) -> None:
        await self.consumption.expire(dict(self.queues))

    async def release_all(self) -> None:
        """Their offsets are written: others may have them."""
        if self.locking and self.queues:
            await self.locks.unlock(list(self.queues), confirm=True)
        for held in self.queues.values():
            held.dropped = True
        self.queues.clear()

    async def _unlock(self, queue: MessageQueue, *, later: bool = False) -> None:
        """`later` when a batch of it still runs although it had its time: it gets some more."""
        if not self.locking:
            return
        if later:
            self.instance.clock.call_later(
                self.config.unlock_delay,
                lambda: self.instance.spawn(self.locks.unlock([queue]), f"unlock {queue}"),
            )
        else:
            await self.locks.unlock([queue])

    async def _announce(self) -> None:
        self.instance.heart.subscriptions_changed()
        await self.instance.send_heartbeats()
