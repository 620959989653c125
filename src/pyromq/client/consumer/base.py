"""What push and pull consumers have in common for their users: their life, their subscriptions, their names.

Names of topics and groups come from users without the namespace and go over the wire with it; everything behind the
public methods, from `member.py` on, uses the names on the wire.
"""

from abc import abstractmethod
from typing import Generic, TypeVar

from pyromq.client.clock import Clock, SystemClock
from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.damage import DamageHook
from pyromq.client.consumer.hooks import ConsumerHooks, FilterHook
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.retry import BROKER_DECIDES
from pyromq.client.consumer.subscription import Subscriptions, build_subscription
from pyromq.client.errors import ClientError, ServiceStateError
from pyromq.client.instance import registry
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport
from pyromq.client.queries import Queries
from pyromq.client.state import GroupClient, ServiceState, require
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import check_consumer_group, check_topic

C = TypeVar("C", bound=ConsumerConfig)


class Consumer(GroupClient, Generic[C]):
    """Base of `PushConsumer` and `PullConsumer`; not used by itself."""

    _member: Member[C]

    def __init__(self, group: str, config: C, clock: Clock | None, transport: Transport | None) -> None:
        if config.namespace is None and config.namesrv:
            config = config.with_options(namespace=namespaces.namespace_of_endpoint(config.namesrv) or None)
        self.config = config
        self.group = group
        self._namespace = config.namespace
        self._wire_group = namespaces.wrap(config.namespace or "", group)
        self._clock = clock
        self._transport = transport
        self._subscriptions = Subscriptions()
        self._hooks = ConsumerHooks()

    async def start(self) -> None:
        """Join the client instance and begin. Raises ServiceStateError unless it was just made, ClientError else."""
        require(self.state, ServiceState.CREATE_JUST, f"consumer {self.group!r}")
        try:
            check_consumer_group(self.group)
        except ValidationError as error:
            raise ClientError(str(error)) from error
        self._check_before_start()
        self.state = ServiceState.START_FAILED
        # Broadcasting keeps its instance name, so that the folder of its offsets is the same in the next run.
        self._instance = registry.obtain(
            self.config, self.group, clock=self._clock, transport=self._transport, keep_name=not self.config.clustering
        )
        try:
            member = self._member = self._join(self._instance)
        except BaseException:
            await self._instance.release()
            raise
        try:
            self._instance.register_consumer(self._wire_group, member)
        except ClientError:
            self.state = ServiceState.CREATE_JUST
            raise
        try:
            await member.offsets.load()
            await self._instance.start()
            self.state = ServiceState.RUNNING
            member.running = True
            await member.learn_routes()
            await member.check_expressions()
            await self._begin()
        except BaseException:
            self.state = ServiceState.START_FAILED
            member.running = False
            await self._stop(0.0)
            await self._leave()
            raise

    async def close(self) -> None:
        """Finish what is being consumed, within `close_timeout`, write offsets and leave the group."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        self._member.running = False
        await self._stop(self.config.close_timeout)
        await self._member.leave()
        await self._leave()

    @property
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
        if self.state is ServiceState.CREATE_JUST:
            raise ServiceStateError(f"consumer {self.group!r} has no client id before it is started")
        return self._instance.client_id

    @property
    def damage_hooks(self) -> list[DamageHook]:
        """Told of every record that cannot be read as it was sent; append before `start`."""
        return self._hooks.damage

    @property
    def filter_hooks(self) -> list[FilterHook]:
        """Run over every batch that was pulled; append before `start`."""
        return self._hooks.filter

    @property
    def queries(self) -> Queries:
        """Offsets of queues, messages by id and key, new topics. Raises ServiceStateError unless the client runs."""
        self._check_running()
        return self._member.queries

    def unsubscribe(self, topic: str) -> None:
        """Receive a topic no more."""
        self._subscriptions.remove(self._wire(topic))
        self._announce(topic)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRouteError."""
        self._check_running()
        return [self._member.user_queue(queue) for queue in await self._member.queues_of(self._wire(topic))]

    async def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = BROKER_DECIDES,
        *,
        broker: str | None = None,
        group: str | None = None,
    ) -> None:
        """Have a push consumer of the group get a message again later; -1 sends it to the dead letters.

        Raises ClientError.
        """
        self._check_running()
        wire = namespaces.wrap(self._namespace or "", group) if group else None
        if not await self._member.retry.send_back(message, delay_level, broker=broker, group=wire):
            raise ClientError(f"{message!r} could not be sent back", broker=message.broker_name, retryable=True)

    def _check_before_start(self) -> None:
        """Raise ClientError for what cannot work."""

    @abstractmethod
    def _join(self, instance: ClientInstance) -> Member[C]:
        """The member that does the work."""

    async def _begin(self) -> None:
        """The instance runs: start working."""
        await self._member.begin()

    async def _stop(self, grace: float) -> None:
        """End all activity, letting what runs finish within the grace."""
        await self._member.stop(grace)

    def _subscribe(self, topic: str, tags: str | None, sql: str | None) -> None:
        self._check_topic(topic)
        self._subscriptions.add(build_subscription(self._wire(topic), tags, sql, self._now_ms()))

    @staticmethod
    def _check_topic(topic: str) -> None:
        try:
            check_topic(topic)
        except ValidationError as error:
            raise ClientError(f"cannot subscribe: {error}") from error

    def _announce(self, topic: str) -> None:
        """A running consumer changed its subscriptions."""
        if self.state is ServiceState.RUNNING:
            work = self._member.announce(self._wire(topic))
            _ = self._instance.spawn(work, f"announce subscription of {topic}")

    def _now_ms(self) -> int:
        return (self._clock or SystemClock()).millis()

    def _check_running(self) -> None:
        require(self.state, ServiceState.RUNNING, f"consumer {self.group!r}")
        self._instance.check_process()

    def _wire(self, topic: str) -> str:
        return namespaces.wrap(self._namespace or "", topic)

    async def _leave(self) -> None:
        await self._instance.unregister_consumer(self._wire_group)
        await self._instance.release()
