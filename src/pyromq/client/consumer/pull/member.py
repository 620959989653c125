"""A pull consumer at work: its parts, what the client instance asks of it, and the queues that rebalancing gives it."""

import logging
from collections.abc import Collection, Mapping

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.damage import Damage, OnDamaged
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.hooks import ConsumerHooks
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pull.inbox import Inbox
from pyromq.client.consumer.pull.manual import ManualPulls
from pyromq.client.consumer.pull.prefetch import Prefetch
from pyromq.client.consumer.pull.selection import Mode, Selection
from pyromq.client.consumer.rebalance.rounds import Rebalance
from pyromq.client.consumer.retry import Retry
from pyromq.client.consumer.running_info import running_info
from pyromq.client.consumer.subscription import Subscriptions
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeResult, ConsumeType
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT = 3.0


class PullMember(Member[PullConfig]):
    """The member of the group that a `PullConsumer` is."""

    consume_type = ConsumeType.CONSUME_ACTIVELY

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: PullConfig,
        subscriptions: Subscriptions,
        selection: Selection,
        hooks: ConsumerHooks,
    ) -> None:
        super().__init__(instance, group, config, subscriptions)
        self.retry = Retry(
            instance,
            group,
            max_reconsume=config.max_reconsume_times,
            timeout=SEND_BACK_TIMEOUT,
            unit_mode=config.unit_mode,
        )
        damage = Damage(group, OnDamaged(config.on_damaged), self.retry, hooks.damage)
        fetcher = Fetcher(instance, group, broker_id=config.broker_id, filter_hooks=hooks.filter, damage=damage)
        self.prefetch = Prefetch(self, fetcher)
        self.inbox = Inbox(self, self.prefetch)
        self.manual = ManualPulls(self, fetcher)
        self._selection = selection
        self._rebalance = Rebalance(self, self)

    # -- life

    async def begin(self) -> None:
        if self._selection.mode is Mode.ASSIGN:
            await self.apply_assigned()
        sent = await self.instance.send_heartbeats()
        if not sent or not await self._rebalance.round():
            self._rebalance.wake()
        self._rebalance.start()

    async def stop(self, grace: float) -> None:  # noqa: ARG002 - nothing of ours is under way
        await self.schedule.stop()
        await self._rebalance.stop()
        await self.prefetch.close()
        if self.config.auto_commit:
            self.inbox.commit_done()

    def owned_queues(self) -> Collection[MessageQueue]:
        if self._selection.mode is Mode.NONE:
            return list(self.offsets.table())
        return list(self.prefetch.lanes)

    async def apply_assigned(self) -> None:
        """Read exactly what the user chose."""
        lanes = self.prefetch.lanes
        for queue in lanes.keys() - self._selection.assigned:
            await self.give_up(queue)
        for queue in sorted(self._selection.assigned - lanes.keys()):
            await self.take_over(queue)

    # -- what the client instance asks

    def subscribed_topics(self) -> Collection[str]:
        return [*self.subscriptions.by_topic, *(self.manual.topics.keys() - self.subscriptions.by_topic.keys())]

    def heartbeat_data(self) -> ConsumerData:
        data = super().heartbeat_data()
        told = {subscription.topic for subscription in data.subscription_data_set}
        data.subscription_data_set += [plain for topic, plain in self.manual.topics.items() if topic not in told]
        return data

    def wake_rebalance(self) -> None:
        self._rebalance.wake(at_once=True)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue in [queue for queue in self.owned(topic) if queue in offsets]:
            await self.prefetch.seek(queue, offsets[queue])
            self.offsets.update(queue, offsets[queue])
            await self.offsets.persist(queue, confirm=True)

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        return running_info(self, {}, {queue: lane.held for queue, lane in self.prefetch.lanes.items()}, jstack=jstack)

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:  # noqa: ARG002 - as a push consumer
        return ConsumeDirectlyResult(
            consume_result=ConsumeResult.CR_THROW_EXCEPTION,
            remark=f"group {self.title} is read by a pull consumer, which has no listener",
        )

    # -- what rebalancing asks

    @property
    def balancing(self) -> bool:
        return self.running and self._selection.mode is Mode.SUBSCRIBE and self.config.enable_rebalance

    def owned(self, topic: str) -> Collection[MessageQueue]:
        return [queue for queue in self.prefetch.lanes if queue.topic == topic]

    def owned_topics(self) -> Collection[str]:
        return {queue.topic for queue in self.prefetch.lanes}

    def stuck(self, topic: str) -> Collection[MessageQueue]:
        return [
            queue
            for queue, lane in self.prefetch.lanes.items()
            if queue.topic == topic and (lane.held.leaving or lane.held.pull_expired)
        ]

    async def take_over(self, queue: MessageQueue, last_owner: str | None = None) -> bool:
        self.offsets.remove(queue)
        self.prefetch.add(queue, last_owner if self.clustering else None)
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        shared = self._selection.mode is Mode.SUBSCRIBE
        if not await self.prefetch.leave(queue, self.config.handover_timeout if shared else 0.0):
            return False
        lane = self.prefetch.lanes[queue]
        if self.config.auto_commit and lane.done is not None:
            self.offsets.update(queue, lane.done)
        # Whoever asks for our queues, as the next owner does, finds it among them until its offset is written.
        await self.offsets.persist(queue, confirm=True)
        await self.prefetch.remove(queue)
        self.offsets.remove(queue)
        return True

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        log.info("group %s: %d of %d queues of %s are read here", self.title, len(mine), len(queues), topic)
        self.subscriptions.touch(topic, self.clock.millis())
        await self.tell_brokers()
