"""A push consumer at work: its parts, put together, and what the client instance asks of it.

A queue's way begins in `rebalance/` and `ownership.py`, a message's in `pull_loop.py`; it ends in `concurrent.py` or
`orderly.py`, or goes by way of `pop/`.
"""

import asyncio
from collections.abc import Collection, Mapping

from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.damage import Damage, OnDamaged
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.filterclass import ClassFilters
from pyromq.client.consumer.hooks import ConsumerHooks
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pop.loop import PopConsumption
from pyromq.client.consumer.pop.requests import PopFetcher
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.concurrent import ConcurrentConsumption
from pyromq.client.consumer.push.listener import Listener
from pyromq.client.consumer.push.locks import QueueLocks
from pyromq.client.consumer.push.orderly import OrderlyConsumption
from pyromq.client.consumer.push.ownership import PushOwnership
from pyromq.client.consumer.push.pull_loop import PullLoops
from pyromq.client.consumer.push.workers import Workers
from pyromq.client.consumer.rebalance.rounds import Rebalance
from pyromq.client.consumer.retry import DEFAULT_MAX_RECONSUME, NO_LIMIT, Retry
from pyromq.client.consumer.running_info import running_info
from pyromq.client.consumer.subscription import Subscriptions
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.message import MessageQueue, ReceivedMessage

SEND_BACK_TIMEOUT = 5.0


class PushMember(Member[PushConfig]):
    """The member of the group that a `PushConsumer` is."""

    consume_type = ConsumeType.CONSUME_PASSIVELY

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: PushConfig,
        subscriptions: Subscriptions,
        listener: Listener,
        hooks: ConsumerHooks,
    ) -> None:
        super().__init__(instance, group, config, subscriptions)
        limit = config.max_reconsume_times
        if limit == -1:
            limit = NO_LIMIT if listener.orderly else DEFAULT_MAX_RECONSUME
        self.retry = Retry(instance, group, max_reconsume=limit, timeout=SEND_BACK_TIMEOUT, unit_mode=config.unit_mode)
        damage = Damage(group, OnDamaged(config.on_damaged), self.retry, hooks.damage)
        self._class_filters = ClassFilters(instance, group, subscriptions)
        fetcher = Fetcher(instance, group, filter_hooks=hooks.filter, class_filters=self._class_filters, damage=damage)
        locks = QueueLocks(self, self._balance_soon)
        self.workers = Workers(listener, config.consume_thread_max, self.clock, f"pyromq-{self.title}")
        self._consumption: ConcurrentConsumption | OrderlyConsumption = (
            OrderlyConsumption(self, self.workers, hooks.consume, locks)
            if listener.orderly
            else ConcurrentConsumption(self, self.workers, hooks.consume)
        )
        self._pulls = PullLoops(self, fetcher, self._consumption, self._offset_moved)
        self._pops = PopConsumption(self, self.workers, hooks.consume, PopFetcher(instance, group, damage))
        self._ownership = PushOwnership(self, locks, self._pulls, self._consumption, self._pops, hooks.queues)
        by_broker = not config.client_rebalance and self.clustering and not listener.orderly
        self._rebalance = Rebalance(self, self._ownership, by_broker=self._ownership if by_broker else None)
        self._start_time_ms = 0

    async def begin(self) -> None:
        self._start_time_ms = self.clock.millis()
        self.instance.heart.with_each_round.append(self._class_filters.upload_all)
        if self._ownership.locking:
            self.schedule.every("queue locks", 1.0, self.config.lock_interval, self._ownership.renew_locks)
            self.instance.on_lost.append(self._ownership.connection_lost)
        if not self._consumption.orderly:
            period = self.config.consume_timeout
            self.schedule.every("expired messages", period, period, self._ownership.expire)
        if not await self.instance.heart.beat_all() or not await self._rebalance.round():
            self._rebalance.wake()
        self._rebalance.start()

    async def stop(self, grace: float) -> None:
        if self._class_filters.upload_all in self.instance.heart.with_each_round:
            self.instance.heart.with_each_round.remove(self._class_filters.upload_all)
        if self._ownership.connection_lost in self.instance.on_lost:
            self.instance.on_lost.remove(self._ownership.connection_lost)
        self._consumption.stop()
        await self.schedule.stop()
        await self._rebalance.stop()
        await self._pulls.stop_all()
        await self._consumption.close(grace)
        await self._pops.close(grace)

    async def leave(self) -> None:
        await super().leave()
        await self._ownership.release_all()

    def pause(self, *, paused: bool) -> None:
        """Pull and pop nothing more for now, or resume it."""
        self._pulls.paused = self._pops.paused = paused

    @property
    def queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """What is held of each queue that is pulled here."""
        return self._ownership.queues

    def owned_queues(self) -> Collection[MessageQueue]:
        return [queue for queue, held in self._ownership.queues.items() if self._ownership.may_write(held)]

    def wake_rebalance(self) -> None:
        self._rebalance.wake(at_once=True)

    async def persist_offsets(self) -> None:
        if self.running and self._ownership.locking:
            # Those of queues whose lock is lost for a while are not forgotten.
            await asyncio.gather(*(self.offsets.persist(queue) for queue in self.owned_queues()))
        else:
            await super().persist_offsets()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await self._ownership.reset(topic, offsets)
        self.wake_rebalance()

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        properties = {
            "PROP_THREADPOOL_CORE_SIZE": str(self.workers.limit if self.running else self.config.consume_thread_max),
            "PROP_CONSUMEORDERLY": "true" if self._consumption.orderly else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._start_time_ms),
        }
        info = running_info(self, properties, self._ownership.queues, jstack=jstack)
        info.mq_pop_table = self._pops.info()
        return info

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:
        message.broker_name = broker_name or message.broker_name
        return await self._consumption.consume_directly(message)

    def _balance_soon(self) -> None:
        self._rebalance.wake()

    async def _offset_moved(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """The broker does not have the offset: write the one it offers, and take the queue over again there."""
        await self._ownership.move(queue, held, offset)
        self._balance_soon()
