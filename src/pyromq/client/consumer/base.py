"""What push and pull consumers have in common: their life, their place in the client instance, their names.

Names of topics and groups come from users without the namespace and go over the wire with it; everything behind the
public methods uses the names on the wire.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from pyromq.client.clock import Clock
from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.damage import Damage, DamageHook, OnDamaged
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.offsets import LocalOffsets, OffsetStore, RemoteOffsets
from pyromq.client.consumer.retry import Retry
from pyromq.client.consumer.startoffset import StartOffsets, consume_time
from pyromq.client.consumer.stats import ConsumerStats
from pyromq.client.consumer.subscription import (
    FilterClass,
    Subscriptions,
    build_subscription,
    class_subscription,
    is_tag_filter,
)
from pyromq.client.errors import ClientError, NoRouteError, ServiceStateError, transport_error
from pyromq.client.instance import registry
from pyromq.client.instance.schedule import Schedule
from pyromq.client.instance.transport import Transport
from pyromq.client.queries import Queries, QueryMethods
from pyromq.client.state import ServiceState, require
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerData, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import check_consumer_group, check_topic
from pyromq.protocol.routes import subscribe_queues
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)


class Consumer(QueryMethods):
    """Base of `PushConsumer` and `PullConsumer`; not used by itself."""

    consume_type = ConsumeType.CONSUME_ACTIVELY

    def __init__(self, group: str, config: ConsumerConfig, clock: Clock | None, transport: Transport | None) -> None:
        self.group = group
        self.state = ServiceState.CREATE_JUST
        self._common = config
        self._namespace = config.namespace
        self._wire_group = namespaces.wrap(config.namespace or "", group)
        self._clock = clock
        self._transport = transport
        self._subscriptions = Subscriptions()
        self.damage_hooks: list[DamageHook] = []
        """Told of every record that cannot be read as it was sent; append before `start`."""

    # -- life

    async def start(self) -> None:
        """Join the client instance and begin. Raises ServiceStateError unless it was just made, ClientError else."""
        require(self.state, ServiceState.CREATE_JUST, f"consumer {self.group!r}")
        try:
            check_consumer_group(self.group)
        except ValidationError as error:
            raise ClientError(str(error)) from error
        self._check_before_start()
        self.state = ServiceState.START_FAILED
        config = self._common
        # Broadcasting keeps its instance name, so that the folder of its offsets is the same in the next run.
        self._instance = registry.obtain(
            config, self.group, clock=self._clock, transport=self._transport, keep_name=not config.clustering
        )
        try:
            self._instance.register_consumer(self._wire_group, self)  # type: ignore[arg-type]  # subclasses complete it
        except ClientError:
            self.state = ServiceState.CREATE_JUST
            raise
        try:
            self._assemble_common()
            self._assemble()
            await self._offsets.load()
            await self._instance.start()
            self.state = ServiceState.RUNNING
            await self._begin()
        except BaseException:
            self.state = ServiceState.START_FAILED
            await self._stop_work(0.0)
            await self._leave()
            raise

    async def close(self) -> None:
        """Finish what is being consumed, within `close_timeout`, write offsets and leave the group."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        await self._stop_work(self._common.close_timeout)
        await self._persist_for_good()
        await self._leave()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
        if self.state is ServiceState.CREATE_JUST:
            raise ServiceStateError(f"consumer {self.group!r} has no client id before it is started")
        return self._instance.client_id

    # -- for subclasses

    def _check_before_start(self) -> None:
        """Raise ClientError for what cannot work."""

    def _assemble(self) -> None:
        """Make what needs the client instance."""

    async def _begin(self) -> None:
        """The instance runs: start working."""

    async def _stop_work(self, grace: float) -> None:
        """End all activity, letting what runs finish within the grace."""

    @abstractmethod
    def _owned_queues(self) -> Collection[MessageQueue]:
        """Queues whose offsets are written."""

    async def _release_queues(self) -> None:
        """After the offsets were written: what others need to go on with the queues."""

    def wake_rebalance(self) -> None:
        """Members or brokers changed: balance soon."""

    # -- what the client instance asks

    def subscribed_topics(self) -> Collection[str]:
        return list(self._subscriptions.by_topic)

    def needs_route(self, topic: str) -> bool:
        return self._subscriptions.needs_route(topic)

    def route_changed(self, topic: str, queues: list[MessageQueue]) -> None:
        if topic in self._subscriptions.by_topic:
            self._subscriptions.queues[topic] = queues
            self.wake_rebalance()

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self._wire_group,
            consume_type=self.consume_type,
            message_model=self._common.model,
            consume_from_where=self._common.consume_from,
            subscription_data_set=self._subscriptions.tell(),
            unit_mode=self._common.unit_mode,
        )

    async def persist_offsets(self) -> None:
        if self.state is ServiceState.RUNNING:
            await self._offsets.persist_all(self._owned_queues())

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self._offsets.table(topic)

    # -- inside

    def _assemble_common(self) -> None:
        instance, config = self._instance, self._common
        clock = instance.clock
        self._queries = Queries(instance)
        self._schedule = Schedule(clock)
        self._stats = ConsumerStats(clock)
        self._fetcher = Fetcher(instance, self._wire_group)
        self._offsets: OffsetStore = config.offset_store or self._default_offsets()
        self._starts = StartOffsets(
            config.consume_from, consume_time(config.consume_timestamp, clock), self._offsets, self._queries
        )

    def _damage(self, retry: Retry) -> Damage:
        return Damage(self._wire_group, OnDamaged(self._common.on_damaged), retry, self.damage_hooks)

    def _default_offsets(self) -> OffsetStore:
        instance = self._instance
        if self._common.clustering:
            return RemoteOffsets(instance, self._wire_group)
        folder = self._common.local_offset_dir / instance.client_id / self._wire_group
        return LocalOffsets(folder, lambda work: asyncio.wrap_future(instance.callbacks.submit(work)))

    async def _learn_routes(self) -> None:
        """Ask for all subscribed topics; what cannot be found now is looked for again by every rebalance round."""
        for topic in self.subscribed_topics():
            try:
                await self._instance.refresh_route(topic)
            except NoRouteError as error:
                if not error.answers:
                    raise
                log.warning("consumer %s starts without a route: %s", self.group, error)

    async def _check_expressions(self) -> None:
        """Let a broker check what only it can: SQL. Raises ClientError when it does not like it."""
        for subscription in self._subscriptions.by_topic.values():
            if is_tag_filter(subscription):
                continue
            address = self._instance.topology.address_by_topic(subscription.topic)
            if address is None:
                continue
            body = CheckClientBody(
                client_id=self._instance.client_id,
                group=self._wire_group,
                namespace=self._namespace,
                subscription_data=subscription,
            )
            command = Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
            try:
                await self._instance.invoke(self._instance.vip(address), command)
            except RemotingError as error:
                raise transport_error(error, address) from error

    async def _persist_for_good(self) -> None:
        """The last time: wait until the offsets are written, so that the next owner sees them."""
        await asyncio.gather(*(self._offsets.persist(queue, confirm=True) for queue in self._owned_queues()))
        await self._release_queues()

    async def _leave(self) -> None:
        await self._instance.unregister_consumer(self._wire_group)
        await self._instance.release()

    def _subscribe(self, topic: str, tags: str | None, sql: str | None) -> SubscriptionData:
        self._check_topic(topic)
        subscription = build_subscription(self._wire(topic), tags, sql, self._now_ms())
        self._subscriptions.add(subscription)
        return subscription

    def _subscribe_class(self, topic: str, filter_class: FilterClass) -> None:
        self._check_topic(topic)
        self._subscriptions.add(class_subscription(self._wire(topic), filter_class, self._now_ms()), filter_class)

    @staticmethod
    def _check_topic(topic: str) -> None:
        try:
            check_topic(topic)
        except ValidationError as error:
            raise ClientError(f"cannot subscribe: {error}") from error

    def _now_ms(self) -> int:
        from pyromq.client.clock import SystemClock  # noqa: PLC0415 - before start there is no instance to ask

        return (self._clock or SystemClock()).millis()

    def _announce(self, topic: str) -> None:
        """A running consumer changed its subscriptions: routes and heartbeats follow at once."""

        async def announce() -> None:
            if topic in self._subscriptions.by_topic:
                try:
                    await self._instance.refresh_route(topic)
                except NoRouteError as error:  # looked for again by every rebalance round
                    log.warning("consumer %s subscribes without a route: %s", self.group, error)
            self._instance.heart.subscriptions_changed()
            await self._instance.send_heartbeats()
            self.wake_rebalance()

        if self.state is ServiceState.RUNNING:
            _ = self._instance.spawn(announce(), f"announce subscription of {topic}")

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        """Readable queues of a topic (name on the wire). Raises NoRouteError."""
        known = self._subscriptions.queues.get(topic)
        if known:
            return known
        route, answers = await self._instance.fetch_route(topic)
        if route is None:
            raise NoRouteError(topic, answers)
        queues = subscribe_queues(topic, route)
        if not queues:
            raise NoRouteError(topic, answers, lacks="queue that can be read")
        return queues

    def _query(self) -> Queries:
        self._check_running()
        return self._queries

    def _check_running(self) -> None:
        require(self.state, ServiceState.RUNNING, f"consumer {self.group!r}")
        self._instance.check_process()

    def _wire(self, topic: str) -> str:
        return namespaces.wrap(self._namespace or "", topic)

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._wire(queue.topic), queue.broker_name, queue.queue_id) if self._namespace else queue

    def _user_queue(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return MessageQueue(namespaces.unwrap(queue.topic, self._namespace), queue.broker_name, queue.queue_id)
