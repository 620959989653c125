"""A pull consumer at work: its parts, put together, and what the client instance asks of it."""

from collections.abc import Collection, Mapping

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.damage import Damage, OnDamaged
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.hooks import ConsumerHooks
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pull.inbox import Inbox
from pyromq.client.consumer.pull.manual import ManualPulls
from pyromq.client.consumer.pull.ownership import PullOwnership
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
        self.fetcher = fetcher = Fetcher(
            instance, group, broker_id=config.broker_id, filter_hooks=hooks.filter, damage=damage
        )
        self.prefetch = Prefetch(self, fetcher)
        self.inbox = Inbox(self, self.prefetch)
        self.manual = ManualPulls(self, fetcher)
        self._selection = selection
        self.ownership = PullOwnership(self, self.prefetch, selection)
        self._rebalance = Rebalance(self, self.ownership)

    async def begin(self) -> None:
        if self._selection.mode is Mode.ASSIGN:
            await self.ownership.apply_assigned()
        sent = await self.instance.heart.beat_all()
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
        for queue in [queue for queue in self.ownership.owned(topic) if queue in offsets]:
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
