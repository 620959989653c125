"""The push consumer, for asyncio. `pyromq.PushConsumer` is the same one for threads.

It pulls all the time and hands messages to a listener. Here are its life and its calls; a queue's way begins in
`rebalance/`, a message's in `pull_loop.py`, and ends in `concurrent.py` or `orderly.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, overload

from pyromq.client.clock import Clock
from pyromq.client.consumer.base import Consumer
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.filterclass import ClassFilters
from pyromq.client.consumer.hooks import ConsumeHook, FilterHook
from pyromq.client.consumer.pop.loop import PopConsumption
from pyromq.client.consumer.pop.requests import PopFetcher
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.concurrent import ConcurrentConsumption
from pyromq.client.consumer.push.listener import Listener, ListenerFunction
from pyromq.client.consumer.push.listenercall import Consuming, consume_directly
from pyromq.client.consumer.push.locks import QueueLocks
from pyromq.client.consumer.push.orderly import OrderlyConsumption
from pyromq.client.consumer.push.ownership import Ownership, QueueListener
from pyromq.client.consumer.push.pull_loop import Pulling
from pyromq.client.consumer.push.workers import Workers
from pyromq.client.consumer.rebalance.lastowner import LastOwners
from pyromq.client.consumer.rebalance.rounds import Rebalance
from pyromq.client.consumer.retry import BROKER_DECIDES, DEFAULT_MAX_RECONSUME, NO_LIMIT, Retry
from pyromq.client.consumer.running_info import running_info
from pyromq.client.consumer.subscription import FilterClass, tag_subscription
from pyromq.client.errors import ClientError
from pyromq.client.instance.transport import Transport
from pyromq.client.state import ServiceState
from pyromq.client.trace.consumption import start_consume_trace
from pyromq.client.trace.dispatcher import TraceDispatcher
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import retry_topic

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT = 5.0

F = TypeVar("F", bound=ListenerFunction)


class PushConsumer(Consumer):
    """Receives messages of its group's subscriptions and hands them to a listener.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", tags="paid || shipped")

        @consumer.listen
        async def handle(message):
            ...

        async with consumer:
            await stop_signal.wait()

    A coroutine function is awaited on the event loop, a plain function runs on a pool of `consume_thread_max` threads.
    Options are the fields of `PushConfig`, given by name or as `config`.
    """

    consume_type = ConsumeType.CONSUME_PASSIVELY

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PushConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Any,
    ) -> None:
        if namesrv is not None:
            options["namesrv"] = namesrv
        base = PushConfig.build(options) if config is None else config.with_options(**options)
        if base.namespace is None and base.namesrv:
            base = base.with_options(namespace=namespaces.namespace_of_endpoint(base.namesrv) or None)
        super().__init__(group, base, clock, transport)
        self.config = base
        self.consume_hooks: list[ConsumeHook] = []
        self.filter_hooks: list[FilterHook] = []
        self.queue_listeners: list[QueueListener] = []
        self._listener: Listener | None = None
        self._trace: TraceDispatcher | None = None
        self._rebalance: Rebalance | None = None
        self._start_time_ms = 0

    # -- what users set up

    @overload
    def listen(self, function: F, *, orderly: bool = ..., batch: bool = ...) -> F: ...

    @overload
    def listen(self, *, orderly: bool = ..., batch: bool = ...) -> Callable[[F], F]: ...

    def listen(self, function: F | None = None, *, orderly: bool = False, batch: bool = False) -> F | Callable[[F], F]:
        """Set the listener; also a decorator, with or without arguments.

        It gets a message, or with `batch` a list of up to `consume_batch_size`, and if it takes a second parameter the
        context. `orderly` keeps the order of each queue: one call at a time, and a failed message holds up those
        behind it. Returning None or True means consumed; False, or raising, means later.
        """

        def register(function: F) -> F:
            if self.state is not ServiceState.CREATE_JUST:
                raise ClientError(f"the listener of consumer {self.group!r} must be set before it is started")
            self._listener = Listener.of(function, orderly=orderly, batch=batch)
            return function

        return register if function is None else register(function)

    def subscribe(
        self,
        topic: str,
        tags: str | None = None,
        *,
        sql: str | None = None,
        filter_class: tuple[str, str] | None = None,
    ) -> None:
        """Receive a topic: all of it, only some tags (`"a || b"`), or what an SQL92 condition on properties matches.

        `filter_class` is the name and the Python source of a class with `match(self, msg, context) -> bool`; it is
        uploaded to the filter servers of the brokers, which must allow that (`clientUploadFilterClassEnable`), and only
        messages for which it says True are sent here.

        All members of a group must subscribe to the same. May be called again to change it, also while running.
        """
        if filter_class is None:
            self._subscribe(topic, tags, sql)
        elif tags is not None or sql is not None:
            raise ClientError(f"topic {topic!r} is subscribed by filter_class, by tags or by sql, by one of them only")
        elif not self.config.client_rebalance:
            raise ClientError("a filter class needs pulls, and with client_rebalance=False the broker may choose pops")
        else:
            self._subscribe_class(topic, FilterClass(*filter_class))
        self._announce(self._wire(topic))

    def unsubscribe(self, topic: str) -> None:
        """Receive a topic no more."""
        wire = self._wire(topic)
        self._subscriptions.remove(wire)
        self._announce(wire)

    # -- while it runs

    def suspend(self) -> None:
        """Pull nothing more and keep the queues; what was pulled is still consumed."""
        self._check_running()
        self._pulling.paused = self._popping.paused = True

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._check_running()
        self._pulling.paused = self._popping.paused = False
        self.wake_rebalance()

    @property
    def consume_threads(self) -> int:
        """Listener calls at a time."""
        return self._workers.limit if self.state is ServiceState.RUNNING else self.config.consume_thread_max

    def set_consume_threads(self, count: int) -> None:
        """Change how many listener calls run at a time, from 1 to 1000."""
        self._check_running()
        if not 1 <= count <= 1000:
            raise ClientError(f"{count} listener calls at a time are outside 1..1000")
        self._workers.limit = count

    async def send_back(self, message: ReceivedMessage, delay_level: int = BROKER_DECIDES) -> None:
        """Have a message delivered again later; -1 sends it to the dead letters. Raises ClientError."""
        self._check_running()
        if not await self._retry.send_back(message, delay_level):
            raise ClientError(f"{message!r} could not be sent back", broker=message.broker_name, retryable=True)

    def assignment(self) -> set[MessageQueue]:
        """The queues of subscribed topics that this consumer has now."""
        own = retry_topic(self._wire_group)
        return {
            self._user_queue(queue)
            for queue, held in self._ownership.queues.items()
            if not (held.dropped or held.leaving) and queue.topic != own
        }

    def cached(self) -> dict[str, tuple[int, int]]:
        """Messages that are held and not consumed yet, and their bytes, by topic. Any thread may ask."""
        if self.state is not ServiceState.RUNNING:
            return {}
        found: dict[str, tuple[int, int]] = {}
        for queue, held in list(self._ownership.queues.items()):
            topic = self._user_queue(queue).topic
            count, size = found.get(topic, (0, 0))
            found[topic] = (count + len(held), size + held.size)
        return found

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRouteError."""
        self._check_running()
        return [self._user_queue(queue) for queue in await self._queues_of(self._wire(topic))]

    # -- what the client instance asks

    def wake_rebalance(self) -> None:
        if self._rebalance is not None:
            self._rebalance.wake(at_once=True)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        await self._ownership.reset(topic, offsets)
        self.wake_rebalance()

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        properties = {
            "PROP_NAMESERVER_ADDR": ";".join(self._instance.name_servers.addresses),
            "PROP_THREADPOOL_CORE_SIZE": str(self.consume_threads),
            "PROP_CONSUMEORDERLY": "true" if self._consumption.orderly else "false",
            "PROP_CONSUME_TYPE": str(self.consume_type),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._start_time_ms),
        }
        info = running_info(
            self.config,
            properties,
            self._subscriptions.by_topic,
            self._ownership.queues,
            self._offsets,
            self._stats,
            jstack=jstack,
        )
        info.mq_pop_table = self._popping.info()
        return info

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:
        assert self._listener is not None  # noqa: S101 - start asked for it
        message.broker_name = broker_name or message.broker_name
        return await consume_directly(self._listener, self._consuming, message, self._instance.callbacks)

    # -- inside

    def _check_before_start(self) -> None:
        if self._listener is None:
            raise ClientError(f"consumer {self.group!r} has no listener; set one with consumer.listen(function)")
        if self.config.clustering:
            self._subscriptions.add(tag_subscription(retry_topic(self._wire_group), None, self._now_ms()))

    def _assemble(self) -> None:
        instance, config, listener = self._instance, self.config, self._listener
        assert listener is not None  # noqa: S101 - checked before
        clock = instance.clock
        self._fetcher.filter_hooks = self.filter_hooks
        self._class_filters = ClassFilters(instance, self._wire_group, self._subscriptions)
        self._fetcher.class_filters = self._class_filters
        limit = config.max_reconsume_times
        if limit == -1:
            limit = NO_LIMIT if listener.orderly else DEFAULT_MAX_RECONSUME
        self._retry = Retry(
            instance,
            self._wire_group,
            max_reconsume=limit,
            timeout=SEND_BACK_TIMEOUT,
            unit_mode=config.unit_mode,
        )
        damage = self._fetcher.damage = self._damage(self._retry)
        popper = PopFetcher(instance, self._wire_group)
        popper.damage = damage
        self._consuming = Consuming(
            group=self._wire_group,
            namespace=self._namespace,
            clustering=config.clustering,
            timeout=config.consume_timeout,
            local_retry_delay=config.local_retry_delay,
            access_channel=config.access_channel,
            clock=clock,
            offsets=self._offsets,
            retry=self._retry,
            stats=self._stats,
            hooks=self.consume_hooks,
        )
        self._workers = Workers(listener, config.consume_thread_max, clock, f"pyromq-{self.group}")
        locks = QueueLocks(instance, self._wire_group, self._offsets, self._wake_soon)
        batch = config.consume_batch_size if listener.batch else 1
        self._consumption: ConcurrentConsumption | OrderlyConsumption = (
            OrderlyConsumption(
                self._consuming,
                self._workers,
                locks,
                batch,
                clock,
                suspend_time=config.suspend_time,
                unlock_delay=config.unlock_delay,
            )
            if listener.orderly
            else ConcurrentConsumption(self._consuming, self._workers, batch, clock, handover=config.handover_timeout)
        )
        self._pulling = Pulling(
            config=config,
            clock=clock,
            fetcher=self._fetcher,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            stats=self._stats,
            orderly=listener.orderly,
            dispatch=self._consumption.dispatch,
            offset_moved=self._offset_moved,
            last_owners=LastOwners(instance, self._wire_group, config.handover_timeout),
        )
        self._popping = PopConsumption(
            config,
            clock,
            popper,
            self._subscriptions,
            self._consuming,
            self._workers,
            batch,
        )
        self._ownership = Ownership(
            instance=instance,
            group=self._wire_group,
            config=config,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            starts=self._starts,
            locks=locks,
            pulling=self._pulling,
            consumption=self._consumption,
            popping=self._popping,
            running=lambda: self.state is ServiceState.RUNNING,
            listeners=self.queue_listeners,
        )
        by_broker = not config.client_rebalance and config.clustering and not listener.orderly
        self._rebalance = Rebalance(
            instance,
            self._wire_group,
            config.model,
            config.allocation,
            self._subscriptions,
            self._ownership,
            interval=config.rebalance_interval,
            min_interval=config.rebalance_min_interval,
            by_broker=self._ownership if by_broker else None,
        )
        instance.heart.with_each_round.append(self._class_filters.upload_all)

    async def _begin(self) -> None:
        assert self._rebalance is not None  # noqa: S101 - assembled
        self._start_time_ms = self._instance.clock.millis()
        await self._learn_routes()
        await self._check_expressions()
        if self.config.enable_trace:
            await self._start_trace()
        if self._ownership.locking:
            self._schedule.every("queue locks", 1.0, self.config.lock_interval, self._ownership.renew_locks)
            self._instance.on_lost.append(self._ownership.connection_lost)
        if not self._consumption.orderly:
            period = self.config.consume_timeout
            self._schedule.every("expired messages", period, period, self._ownership.expire)
        if not await self._instance.send_heartbeats() or not await self._rebalance.round():
            self._rebalance.wake()
        self._rebalance.start()

    async def _start_trace(self) -> None:
        started = await start_consume_trace(
            self.group, self.config, self._instance, clock=self._clock, transport=self._transport
        )
        if started is not None:
            tracer, self._trace = started
            self.consume_hooks.append(tracer)

    async def _stop_work(self, grace: float) -> None:
        if self._rebalance is None:
            return
        self._instance.heart.with_each_round.remove(self._class_filters.upload_all)
        if self._ownership.connection_lost in self._instance.on_lost:
            self._instance.on_lost.remove(self._ownership.connection_lost)
        self._consumption.stop()
        await self._schedule.stop()
        await self._rebalance.stop()
        await self._pulling.stop_all()
        await self._consumption.close(grace)
        await self._popping.close(grace)
        await self._popping.stop()
        if self._trace is not None:
            await self._trace.close()

    async def persist_offsets(self) -> None:
        if self.state is ServiceState.RUNNING and self._ownership.locking:
            await asyncio.gather(*(self._offsets.persist(queue) for queue in self._owned_queues()))
        else:
            await super().persist_offsets()

    def _owned_queues(self) -> Collection[MessageQueue]:
        return [queue for queue, held in self._ownership.queues.items() if self._ownership.may_write(held)]

    def _wake_soon(self) -> None:
        if self._rebalance is not None:
            self._rebalance.wake()

    async def _release_queues(self) -> None:
        await self._ownership.release_all()

    async def _offset_moved(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """The broker does not have the offset: write the one it offers, and take the queue over again there."""
        await self._ownership.move(queue, held, offset)
        self._wake_soon()
