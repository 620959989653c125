"""The queues that a push consumer owns: taking them over, giving them up, moving within them.

Giving up means: pull no more, begin nothing more, let what runs end, write the offset, unlock. In that order, so that
the next owner resumes exactly where this one ended.
"""

import logging
from collections.abc import Collection, Mapping

from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import QueueListener
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.offsets import Read
from pyromq.client.consumer.pop.loop import PopConsumption
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.concurrent import ConcurrentConsumption
from pyromq.client.consumer.push.locks import QueueLocks
from pyromq.client.consumer.push.orderly import OrderlyConsumption
from pyromq.client.consumer.push.pull_loop import PullLoops
from pyromq.client.consumer.subscription import tag_subscription
from pyromq.client.errors import ClientError
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import is_retry_topic, pop_retry_topic

log = logging.getLogger(__name__)

RESET_WAIT = 10.0


class PushOwnership:
    """What rebalancing asks of a push consumer."""

    def __init__(
        self,
        member: Member[PushConfig],
        locks: QueueLocks,
        pulls: PullLoops,
        consumption: ConcurrentConsumption | OrderlyConsumption,
        pops: PopConsumption,
        listeners: list[QueueListener],
    ) -> None:
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self._member = member
        self._config = member.config
        self._offsets = member.offsets
        self._locks = locks
        self._pulls = pulls
        self._consumption = consumption
        self._pops = pops
        self._listeners = listeners

    @property
    def locking(self) -> bool:
        """Whether queues are consumed only under the broker's lock."""
        return self._consumption.orderly and self._member.clustering

    def may_write(self, held: ProcessQueue) -> bool:
        """Whether an offset is ours to write: not without the lock, since another may be further by now."""
        return not self.locking or held.holds_lock

    @property
    def balancing(self) -> bool:
        return self._member.running and not self._pulls.paused

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
        if self.locking and not await self._locks.lock(queue):
            log.info("%s is still locked by its last owner", queue)
            return False
        self._offsets.remove(queue)
        try:
            offset = await self._member.starts.find(queue, Read.STORE)
        except ClientError as error:
            log.warning("%s not taken over: %s", queue, error)
            await self._unlock(queue)
            return False
        if not self.balancing:
            await self._unlock(queue)
            return False
        held = ProcessQueue(
            self._member.clock, lock_life=self._config.lock_life, pull_max_idle=self._config.pull_max_idle
        )
        if self.locking:
            held.lock()
        self.queues[queue] = held
        self._pulls.start(queue, held, offset, last_owner)
        log.info("took over %s at offset %d", queue, offset)
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        held = self.queues.get(queue)
        if held is None:
            return True
        await self._pulls.stop(queue)
        if not await self._consumption.release(queue, held):
            return False
        # Whoever asks for our queues, as the next owner does, finds it among them until its offset is written.
        if self.may_write(held):
            await self._offsets.persist(queue, confirm=True)
        if self.queues.pop(queue, None) is None:
            return True
        self._offsets.remove(queue)
        await self._unlock(queue, later=held.in_flight_count > 0)
        log.info("gave up %s", queue)
        return True

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        self._member.subscriptions.touch(topic, self._member.clock.millis())
        self._pulls.limits[topic] = self._config.topic_limits.per_queue(self._config.queue_limits, len(mine))
        await self._member.tell_brokers()
        for listener in self._listeners:
            try:
                listener(namespaces.unwrap(topic, self._config.namespace or ""), queues, mine)
            except Exception:
                log.exception("a queue listener failed")

    async def pop(self, topic: str, queues: Collection[MessageQueue], *, pulls: bool) -> None:
        changed = await self._pops.assign(topic, list(queues))
        # While a topic is pulled, what is left in the retry topic of its pops has to be pulled too.
        leftovers = pop_retry_topic(self._member.group, topic)
        known = leftovers in self._member.subscriptions.by_topic
        if pulls and not queues and not known and not is_retry_topic(topic):
            self._member.subscriptions.add(tag_subscription(leftovers, None, self._member.clock.millis()))
        elif queues and not pulls and known:
            self._member.subscriptions.remove(leftovers)
        if changed:
            log.info("group %s pops %d queues of %s", self._member.group, len(queues), topic)
            await self._member.tell_brokers()

    async def pop_only(self, topics: Collection[str]) -> None:
        for topic in {queue.topic for queue in self._pops.queues} - set(topics):
            await self._pops.assign(topic, [])

    async def move(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """Write another offset and let go of the queue; the next round takes it over again there."""
        self._offsets.freeze(queue, offset)
        await self._offsets.persist(queue, confirm=True)
        await self._consumption.release(queue, held)
        if self.queues.get(queue) is held:
            del self.queues[queue]
            await self._pulls.stop(queue)
        self._offsets.remove(queue)
        await self._unlock(queue, later=held.in_flight_count > 0)

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moved the offsets: stop, let what runs end, and write them."""
        paused, self._pulls.paused = self._pulls.paused, True
        try:
            moved = {queue: held for queue, held in self.queues.items() if queue.topic == topic and queue in offsets}
            for queue, held in moved.items():
                held.dropped = True
                held.clear()
                await self._pulls.stop(queue)
            await self._consumption.settled(RESET_WAIT)
            for queue, held in moved.items():
                await self.move(queue, held, offsets[queue])
        finally:
            self._pulls.paused = paused

    async def renew_locks(self) -> None:
        await self._locks.renew(dict(self.queues))

    def connection_lost(self, address: str) -> None:
        """The broker may soon give our locks to others: begin nothing more under them, and ask for them at once."""
        topology = self._member.instance.topology
        lost = [
            held
            for queue, held in self.queues.items()
            if held.locked and topology.publish_address(topology.broker_of(queue)) == address
        ]
        for held in lost:
            held.locked = False
        if lost:
            _ = self._member.instance.spawn(self.renew_locks(), f"locks of group {self._member.group} at {address}")

    async def expire(self) -> None:
        await self._consumption.expire(dict(self.queues))

    async def release_all(self) -> None:
        """Their offsets are written: others may have them."""
        if self.locking and self.queues:
            await self._locks.unlock(list(self.queues), confirm=True)
        for held in self.queues.values():
            held.dropped = True
        self.queues.clear()

    async def _unlock(self, queue: MessageQueue, *, later: bool = False) -> None:
        """`later` when a batch of it still runs although it had its time: it gets some more."""
        if not self.locking:
            return
        if later:
            self._member.clock.call_later(
                self._config.unlock_delay,
                lambda: self._member.instance.spawn(self._locks.unlock([queue]), f"unlock {queue}"),
            )
        else:
            await self._locks.unlock([queue])
