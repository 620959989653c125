"""The queues that a pull consumer reads: taking them over and giving them up, as rebalancing or the user says."""

import logging
from collections.abc import Collection

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pull.prefetch import Prefetch
from pyromq.client.consumer.pull.selection import Mode, Selection
from pyromq.protocol.message import MessageQueue

log = logging.getLogger(__name__)


class PullOwnership:
    """What rebalancing asks of a pull consumer."""

    def __init__(self, member: Member[PullConfig], prefetch: Prefetch, selection: Selection) -> None:
        self._member = member
        self._config = member.config
        self._offsets = member.offsets
        self._prefetch = prefetch
        self._selection = selection

    async def apply_assigned(self) -> None:
        """Read exactly what the user chose."""
        lanes, assigned = self._prefetch.lanes, self._selection.assigned
        for queue in lanes.keys() - assigned:
            await self.give_up(queue)
        for queue in sorted(assigned - lanes.keys()):
            await self.take_over(queue)

    @property
    def balancing(self) -> bool:
        shared = self._selection.mode is Mode.SUBSCRIBE
        return self._member.running and shared and self._config.enable_rebalance

    def owned(self, topic: str) -> Collection[MessageQueue]:
        return [queue for queue in self._prefetch.lanes if queue.topic == topic]

    def owned_topics(self) -> Collection[str]:
        return {queue.topic for queue in self._prefetch.lanes}

    def stuck(self, topic: str) -> Collection[MessageQueue]:
        return [
            queue
            for queue, lane in self._prefetch.lanes.items()
            if queue.topic == topic and (lane.held.leaving or lane.held.pull_expired)
        ]

    async def take_over(self, queue: MessageQueue, last_owner: str | None = None) -> bool:
        self._offsets.remove(queue)
        self._prefetch.add(queue, last_owner if self._member.clustering else None)
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        shared = self._selection.mode is Mode.SUBSCRIBE
        if not await self._prefetch.leave(queue, self._config.handover_timeout if shared else 0.0):
            return False
        lane = self._prefetch.lanes[queue]
        if self._config.auto_commit and lane.done is not None:
            self._offsets.update(queue, lane.done)
        # Whoever asks for our queues, as the next owner does, finds it among them until its offset is written.
        await self._offsets.persist(queue, confirm=True)
        await self._prefetch.remove(queue)
        self._offsets.remove(queue)
        return True

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        log.info("group %s: %d of %d queues of %s are read here", self._member.title, len(mine), len(queues), topic)
        self._member.subscriptions.touch(topic, self._member.clock.millis())
        await self._member.tell_brokers()
