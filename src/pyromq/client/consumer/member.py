"""A consumer as a member of its group: what all its parts get, and what the client instance asks of it.

It exists while the consumer runs; what users see is `base.py` and its children. Topics, queues and the group have their
names on the wire here.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import ClassVar, Generic, TypeVar

from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.offsets import LocalOffsets, OffsetStore, RemoteOffsets
from pyromq.client.consumer.rebalance.startoffset import StartOffsets, consume_time
from pyromq.client.consumer.retry import Retry
from pyromq.client.consumer.stats import ConsumerStats
from pyromq.client.consumer.subscription import Subscriptions, is_tag_filter
from pyromq.client.errors import NoRouteError, transport_error
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.schedule import Schedule
from pyromq.client.queries import Queries
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.routes import subscribe_queues
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

C_co = TypeVar("C_co", bound=ConsumerConfig, covariant=True)


class Member(ABC, Generic[C_co]):
    """What push and pull consumers have in common.

    `title` is the group as its users call it, `running` says that the consumer was started and not closed.
    """

    consume_type: ClassVar[ConsumeType]
    retry: Retry

    def __init__(self, instance: ClientInstance, group: str, config: C_co, subscriptions: Subscriptions) -> None:
        self.instance = instance
        self.clock = instance.clock
        self.group = group
        self.namespace = config.namespace
        self.title = namespaces.unwrap(group, config.namespace) if config.namespace else group
        self.config = config
        self.clustering = config.clustering
        self.subscriptions = subscriptions
        self.offsets: OffsetStore = config.offset_store or self._default_offsets()
        self.stats = ConsumerStats(self.clock)
        self.queries = Queries(instance)
        started_at = consume_time(config.consume_timestamp, self.clock)
        self.starts = StartOffsets(ConsumeFromWhere(config.consume_from), started_at, self.offsets, self.queries)
        self.schedule = Schedule(self.clock)
        self.running = False

    @abstractmethod
    async def begin(self) -> None:
        """The instance runs and routes are known: start working."""

    @abstractmethod
    async def stop(self, grace: float) -> None:
        """End all activity, letting what runs finish within the grace."""

    async def leave(self) -> None:
        """Write the offsets for the last time and wait for it, so that the next owners of the queues see them."""
        await asyncio.gather(*(self.offsets.persist(queue, confirm=True) for queue in self.owned_queues()))

    @abstractmethod
    def owned_queues(self) -> Collection[MessageQueue]:
        """Queues whose offsets are written."""

    def subscribed_topics(self) -> Collection[str]:
        return list(self.subscriptions.by_topic)

    def needs_route(self, topic: str) -> bool:
        return self.subscriptions.needs_route(topic)

    def route_changed(self, topic: str, queues: list[MessageQueue]) -> None:
        if topic in self.subscriptions.by_topic:
            self.subscriptions.queues[topic] = queues
            self.wake_rebalance()

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model=MessageModel(self.config.model),
            consume_from_where=ConsumeFromWhere(self.config.consume_from),
            subscription_data_set=self.subscriptions.tell(),
            unit_mode=self.config.unit_mode,
        )

    @abstractmethod
    def wake_rebalance(self) -> None:
        """Members, brokers or queues changed: balance soon."""

    async def persist_offsets(self) -> None:
        if self.running:
            await self.offsets.persist_all(self.owned_queues())

    @abstractmethod
    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moved the offsets: continue there."""

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.table(topic)

    @abstractmethod
    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo: ...

    @abstractmethod
    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult: ...

    async def learn_routes(self) -> None:
        """Ask for all subscribed topics; what cannot be found now is looked for again by every rebalance round."""
        for topic in self.subscribed_topics():
            try:
                await self.instance.routes.refresh(topic)
            except NoRouteError as error:
                if not error.answers:
                    raise
                log.warning("consumer %s starts without a route: %s", self.title, error)

    async def check_expressions(self) -> None:
        """Let a broker check what only it can: SQL. Raises ClientError when it does not like it."""
        instance = self.instance
        for subscription in self.subscriptions.by_topic.values():
            if is_tag_filter(subscription):
                continue
            address = instance.topology.address_by_topic(subscription.topic)
            if address is None:
                continue
            body = CheckClientBody(
                client_id=instance.client_id,
                group=self.group,
                namespace=self.namespace,
                subscription_data=subscription,
            )
            command = Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
            try:
                await instance.invoke(instance.vip(address), command)
            except RemotingError as error:
                raise transport_error(error, address) from error

    async def tell_brokers(self) -> None:
        """Subscriptions changed: say so at once, not with the next heartbeat."""
        self.instance.heart.subscriptions_changed()
        await self.instance.heart.beat_all()

    async def announce(self, topic: str) -> None:
        """The user subscribed or unsubscribed a topic: routes, heartbeats and rebalancing follow at once."""
        if topic in self.subscriptions.by_topic:
            try:
                await self.instance.routes.refresh(topic)
            except NoRouteError as error:  # looked for again by every rebalance round
                log.warning("consumer %s subscribes without a route: %s", self.title, error)
        await self.tell_brokers()
        self.wake_rebalance()

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Readable queues of a topic. Raises NoRouteError."""
        known = self.subscriptions.queues.get(topic)
        if known:
            return known
        route, answers = await self.instance.routes.fetch(topic)
        if route is None:
            raise NoRouteError(topic, answers)
        queues = subscribe_queues(topic, route)
        if not queues:
            raise NoRouteError(topic, answers, lacks="queue that can be read")
        return queues

    def wire_queue(self, queue: MessageQueue) -> MessageQueue:
        """A queue of the user's with its topic as brokers know it."""
        return namespaces.wrap_queue(self.namespace, queue)

    def user_queue(self, queue: MessageQueue) -> MessageQueue:
        """The queue with its topic as users know it."""
        return namespaces.unwrap_queue(queue, self.namespace)

    def _default_offsets(self) -> OffsetStore:
        instance = self.instance
        if self.clustering:
            return RemoteOffsets(instance, self.group)
        folder = self.config.local_offset_dir / instance.client_id / self.group
        return LocalOffsets(folder, lambda work: asyncio.wrap_future(instance.callbacks.submit(work)))
