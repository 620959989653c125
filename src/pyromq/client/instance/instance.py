"""The client instance: what producers, consumers and admin clients of one client id share.

It owns the network client, the routes, the name-server list, the heartbeats, the periodic work and the thread pool for
callbacks; whoever uses it registers. It lives on one event loop and in one process, and stops when its last user has
left. No message is sent or received here.
"""

import asyncio
import functools
import http.client
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from pyromq.client.clock import Clock, SystemClock
from pyromq.client.config import ClientConfig
from pyromq.client.errors import BrokerError, ClientError, ForkedError, ServiceStateError
from pyromq.client.instance.heartbeat import Heart
from pyromq.client.instance.identity import INNER_PRODUCER_GROUP
from pyromq.client.instance.inbound import Inbound
from pyromq.client.instance.lookup import fetch_addresses, lookup_url, parse_addresses
from pyromq.client.instance.members import AdminMember, ConsumerMember, ProducerMember
from pyromq.client.instance.route_updates import RouteUpdates
from pyromq.client.instance.schedule import Schedule
from pyromq.client.instance.topology import Topology
from pyromq.client.instance.transport import Transport, connect
from pyromq.client.pool import BoundedPool
from pyromq.client.request.table import RequestTable
from pyromq.client.state import ServiceState, require
from pyromq.protocol.bodies.clients import ConsumerList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import GetConsumerListByGroupHeader, UnregisterClientHeader
from pyromq.protocol.requests import Request
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connect.nameservers import NameServers
from pyromq.remoting.errors import AddressError, RemotingError

log = logging.getLogger(__name__)

CALLBACK_QUEUE = 65_536
STOP_GRACE = 5.0

T = TypeVar("T")
Member = TypeVar("Member")
Lookup = Callable[[str, str, float], list[str]]


class ClientInstance:
    """Use `registry.obtain` to get the one for a client id. All methods run on its event loop."""

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        *,
        clock: Clock | None = None,
        transport: Transport | None = None,
        lookup: Lookup = fetch_addresses,
    ) -> None:
        self.client_id = client_id
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.topology = Topology()
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.admins: dict[str, AdminMember] = {}
        self.requests = RequestTable(self.clock)
        self.callbacks = BoundedPool(
            "pyromq-callback", config.callback_threads, CALLBACK_QUEUE, config.callback_executor
        )
        self.routes = RouteUpdates(self)
        self.heart = Heart(self)
        self.schedule = Schedule(self.clock)
        self.state = ServiceState.CREATE_JUST
        self.on_stop: list[Callable[[], object]] = []
        self.on_lost: list[Callable[[str], object]] = []
        """Told the address of a broker whose connection ended."""
        self._inbound = Inbound(self)
        self._lookup = lookup
        self.transport = transport or connect(
            config, self._inbound.handlers(), on_open=self._connected, on_close=self._disconnected
        )
        # Of a client it uses only what `Transport` has.
        self.name_servers = NameServers(cast("Client", self.transport), clock=self.clock.monotonic)
        self.update_name_servers(config.namesrv or "")
        self._tasks: set[asyncio.Task[object]] = set()
        self._start_lock = asyncio.Lock()
        self._pid = os.getpid()

    @property
    def namespace(self) -> str | None:
        return self.config.namespace

    async def start(self) -> None:
        """Begin the periodic work; does nothing when it runs already. Raises ServiceStateError after a failed start."""
        self.check_process()
        async with self._start_lock:
            if self.state is ServiceState.RUNNING:
                return
            require(self.state, ServiceState.CREATE_JUST, f"client instance {self.client_id}")
            self.state = ServiceState.START_FAILED
            if not self.name_servers.addresses:
                await self.fetch_name_servers()
                self.schedule.every("name servers", 10.0, 120.0, self.fetch_name_servers)
            every = self.schedule.every
            every("routes", 0.010, self.config.poll_name_server_interval, self.routes.refresh_all)
            every("heartbeat", 1.0, self.config.heartbeat_interval, self._clean_and_beat)
            every("offsets", 10.0, self.config.persist_offset_interval, self._persist_offsets)
            every("request timeouts", 3.0, 1.0, self.requests.sweep)
            self.state = ServiceState.RUNNING

    async def release(self) -> None:
        """Stop if nobody uses the instance any more."""
        users = len(self.consumers) + len(self.admins) + len(self.producers.keys() - {INNER_PRODUCER_GROUP})
        if users == 0:
            await self.stop()

    async def stop(self) -> None:
        """Stop whatever runs; safe in any state and more than once."""
        if self.state is ServiceState.SHUTDOWN_ALREADY:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        for forget in self.on_stop:
            forget()
        await self.schedule.stop()
        await self.routes.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.requests.fail_all(ServiceStateError(f"client instance {self.client_id} was stopped"))
        await self.transport.close()
        await self.callbacks.close(self.clock, STOP_GRACE)

    def check_process(self) -> None:
        """Raises ForkedError in a process that inherited this instance."""
        pid = os.getpid()
        if pid != self._pid:
            raise ForkedError(self._pid, pid)

    def check_usable(self) -> None:
        """Raises ForkedError, and ServiceStateError once the instance was stopped."""
        self.check_process()
        if self.state is ServiceState.SHUTDOWN_ALREADY:
            raise ServiceStateError(f"client instance {self.client_id} was stopped; make a new client")

    def register_producer(self, group: str, producer: ProducerMember) -> None:
        """Raises ClientError when the group has a producer in this instance already."""
        self._register(self.producers, group, producer, "producer")

    def register_consumer(self, group: str, consumer: ConsumerMember) -> None:
        """Raises ClientError when the group has a consumer in this instance already."""
        self._register(self.consumers, group, consumer, "consumer")

    def register_admin(self, group: str, admin: AdminMember) -> None:
        """Raises ClientError when the group is taken."""
        self._register(self.admins, group, admin, "admin client")

    async def unregister_producer(self, group: str) -> None:
        """Forget the producer and tell every known broker."""
        if self.producers.pop(group, None) is not None:
            await self._unregister(UnregisterClientHeader(client_id=self.client_id, producer_group=group))

    async def unregister_consumer(self, group: str) -> None:
        """Forget the consumer and tell every known broker."""
        if self.consumers.pop(group, None) is not None:
            await self._unregister(UnregisterClientHeader(client_id=self.client_id, consumer_group=group))

    def unregister_admin(self, group: str) -> None:
        self.admins.pop(group, None)

    def wake_rebalance(self) -> None:
        """Every consumer balances soon."""
        for consumer in list(self.consumers.values()):
            consumer.wake_rebalance()

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> "asyncio.Task[object]":
        """Run something beside; it is cancelled when the instance stops, and its fault is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)
        return task

    async def call(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - passed on
        """Send a request to an address and return its response, whatever its code. Raises RemotingError."""
        self.check_usable()
        return await self.transport.call(address, command, timeout)

    async def call_for(self, topic: str, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - passed on
        """`call` to a broker of a topic; one that cannot be reached puts the topic's route in doubt."""
        try:
            return await self.call(address, command, timeout)
        except RemotingError:
            self.routes.doubt(topic)
            raise

    async def oneway(self, address: str, command: Command, timeout: float) -> None:  # noqa: ASYNC109 - passed on
        """Send a request that has no response. Raises RemotingError when it cannot be handed over."""
        self.check_usable()
        await self.transport.oneway(address, command, timeout)

    async def call_name_server(self, command: Command) -> Command:
        """Ask the name servers in turn until one answers. Raises RemotingError when none does."""
        self.check_usable()
        return await self.name_servers.call(command, self.config.api_timeout)

    async def invoke(
        self,
        address: str,
        command: Command,
        timeout: float | None = None,  # noqa: ASYNC109 - passed on
        *,
        broker: str | None = None,
    ) -> Command:
        """`call`, and BrokerError for every response other than SUCCESS."""
        response = await self.call(address, command, self.config.api_timeout if timeout is None else timeout)
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark, broker=broker or address, request=command.name)
        return response

    async def answer(
        self,
        address: str,
        request: Request[T],
        timeout: float | None = None,  # noqa: ASYNC109 - passed on
        *,
        broker: str | None = None,
    ) -> T:
        """What a peer answers to a request; BrokerError for a refusal."""
        response = await self.call(address, request.command, self.config.api_timeout if timeout is None else timeout)
        if not request.is_answer(response):
            raise BrokerError(response.code, response.remark, broker=broker or address, request=request.command.name)
        return request.read(response)

    def vip(self, address: str) -> str:
        """The address to use for everything but pulls: the broker's fast port when that is switched on."""
        return str(Address.parse(address).fast) if self.config.vip_channel else address

    async def consumer_ids(self, topic: str, group: str) -> list[str] | None:
        """Members of a consumer group as a broker of the topic knows them; None when that cannot be found out."""
        address = self.topology.address_by_topic(topic)
        if address is None:
            try:
                await self.routes.refresh(topic)
            except ClientError as error:
                log.warning("members of group %s: %s", group, error)
                return None
            address = self.topology.address_by_topic(topic)
        if address is None:
            return None
        header = GetConsumerListByGroupHeader(consumer_group=group)
        try:
            response = await self.invoke(
                self.vip(address), Command.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            )
            return ConsumerList.decode(response.body).consumer_id_list
        except (ClientError, RemotingError, ProtocolError) as error:
            # A broker that no member has sent a heartbeat to yet answers so: the next round will know more.
            is_new = isinstance(error, BrokerError) and error.code == ResponseCode.SYSTEM_ERROR
            level = logging.INFO if is_new else logging.WARNING
            log.log(level, "members of group %s not learned from %s: %s", group, address, error)
            return None

    async def fetch_name_servers(self) -> None:
        """Ask the HTTP lookup for the name servers; a failure is logged and the list stays."""
        host, path = lookup_url(self.config)
        job = functools.partial(self._lookup, host, path, 3.0)
        try:
            addresses = await asyncio.wrap_future(self.callbacks.submit(job))
        except (OSError, http.client.HTTPException) as error:
            log.warning("name servers not learned from http://%s%s: %s", host, path, error)
            return
        if addresses:
            self.name_servers.update(addresses)

    def update_name_servers(self, addresses: str) -> None:
        """Use other name servers from now on. Raises ClientError for what is no address."""
        try:
            self.name_servers.update(parse_addresses(addresses))
        except AddressError as error:
            raise ClientError(f"name server addresses {addresses!r}: {error}") from error

    def _register(self, table: dict[str, Member], group: str, member: Member, kind: str) -> None:
        self.check_process()
        if group in table:
            raise ClientError(
                f"group {group!r} has a {kind} in client instance {self.client_id} already; "
                "one instance takes one per group: use another group or another instance_name"
            )
        table[group] = member

    async def _unregister(self, header: UnregisterClientHeader) -> None:
        async def tell(address: str) -> None:
            try:
                await self.invoke(self.vip(address), Command.request(RequestCode.UNREGISTER_CLIENT, header))
            except (ClientError, RemotingError) as error:
                log.warning("could not unregister from broker %s: %s", address, error)

        await asyncio.gather(*(tell(address) for _, _, address in self.topology.addresses()))

    async def _clean_and_beat(self) -> None:
        for address in await self.routes.drop_offline():
            self.heart.forget(address)
        await self.heart.beat_all()

    async def _persist_offsets(self) -> None:
        for consumer in list(self.consumers.values()):
            try:
                await consumer.persist_offsets()
            except Exception:
                log.exception("offsets not persisted")

    def _connected(self, address: str) -> None:
        if self.config.heartbeat_on_connect and self.state is ServiceState.RUNNING and self.topology.is_known(address):
            _ = self.spawn(self._beat_one(address), "heartbeat to a new connection")

    def _disconnected(self, address: str) -> None:
        if self.state is ServiceState.RUNNING:
            for tell in list(self.on_lost):
                tell(address)

    async def _beat_one(self, address: str) -> None:
        if await self.heart.beat(address):
            self.wake_rebalance()

    def _spawned_done(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed", task.get_name(), exc_info=task.exception())
