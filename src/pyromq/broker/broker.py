"""`Broker`: every part put together, from the store to the listening ports, and the order of start and stop."""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pyromq.auth.needs import Scene
from pyromq.broker.access import KnownSlaves, topic_at
from pyromq.broker.admin.clients import ClientAdmin
from pyromq.broker.admin.daytotals import DayTotals
from pyromq.broker.admin.groups import GroupAdmin
from pyromq.broker.admin.http import HttpServer, Page
from pyromq.broker.admin.info import BrokerAdmin
from pyromq.broker.admin.offsets import OffsetAdmin
from pyromq.broker.admin.reload import reread_file
from pyromq.broker.admin.replication import ReplicationAdmin
from pyromq.broker.admin.stats import SAMPLE_INTERVAL_MS, BrokerStats
from pyromq.broker.admin.topics import TopicAdmin
from pyromq.broker.cluster.addresses import advertised_host, check_reachable, numeric_host
from pyromq.broker.cluster.clients import Consumers, Producers
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.cluster.members import Members
from pyromq.broker.cluster.registration import Identity, Registration
from pyromq.broker.cluster.rights import Rights
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.assignment import Assignments, RequestModes
from pyromq.broker.consume.laggards import Laggards
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.consume.longpoll import PullPark
from pyromq.broker.consume.pull import Puller
from pyromq.broker.consume.query import Queries
from pyromq.broker.consume.requests import ConsumerRequests
from pyromq.broker.consume.routes import TopicRoutes
from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.delay.part import delivery_parts
from pyromq.broker.durability import Durability
from pyromq.broker.filter.filters import Filters
from pyromq.broker.filter.filterservers import FIRST_LOOK, FilterProcesses, FilterServers
from pyromq.broker.periodic import Timers
from pyromq.broker.pop.batches import OrderedBatches
from pyromq.broker.pop.part import pop_parts
from pyromq.broker.refusals import guarded
from pyromq.broker.replication.master import ReplicationPort
from pyromq.broker.replication.part import follow_master, keep_members, may_act
from pyromq.broker.replication.slave import MasterLink
from pyromq.broker.replication.succession.actingmaster import ActingMaster, Work
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.halfescape import HalfEscape
from pyromq.broker.replication.succession.takeover import take_over
from pyromq.broker.send.replies import Replies
from pyromq.broker.send.sender import Sender
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.positions import Positions
from pyromq.broker.tables.tail import LogPosition, Tail
from pyromq.broker.tables.topics import Topics
from pyromq.broker.transaction.checkback import CheckBack
from pyromq.broker.transaction.halfmessages import HALF, HalfMessages
from pyromq.broker.transaction.transactions import Transactions
from pyromq.broker.writers.writers import Writers
from pyromq.clock import steady_clock, wall_clock
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.handles.ids import UniqueIdGenerator
from pyromq.protocol.records.host import Host
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError
from pyromq.remoting.server import Server
from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.messagestore import MessageStore
from pyromq.store.timer.checkpoint import TimerCheckpoint

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate

log = logging.getLogger(__name__)

STOP_GRACE = 5.0
PARK_TICK = 0.1
CHECK_TICK = 0.2
STORE_TICK = 0.1
GATE_TICK = 1.0
WRITER_TICK = 1.0
WRITER_EXPIRY = 60.0
REPLICATION_TICK = 0.1
SCAN_INTERVAL = 10.0
LAGGARD_INTERVAL = 180.0
FREE_PORT_TRIES = 50
NO_HTTP = -1

NOT_ON_FAST_PORT = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""What may be held for long stays off the port that exists to be fast."""


class _Part(Protocol):
    """Whatever serves requests."""

    def handlers(self) -> dict[int, Handler]: ...


class Broker:
    """One broker: a store, the requests on it, and its place in the cluster.

        broker = Broker(BrokerConfig(listen_port=0, store_path_root_dir=path, namesrv_addr=("127.0.0.1:9876",)))
        await broker.start()
        print(broker.address)
        await broker.stop()

    `clock` gives Unix milliseconds; with one of a test's own, all time is by it.
    """

    def __init__(self, config: BrokerConfig, clock: Callable[[], int] = wall_clock) -> None:
        self.config = config
        self.clock = clock
        self.steady = steady_clock if clock is wall_clock else clock
        self.started_at = clock()
        self.topics = Topics(config, clock)
        self.groups = Groups(config, clock)
        self.offsets = ConsumerOffsets(
            config.config_dir / "consumerOffset.json", clock, version_step=config.consumer_offset_update_version_step
        )
        self.delay_offsets = DelayOffsets(
            config.config_dir / "delayOffset.json", clock, version_step=config.delay_offset_update_version_step
        )
        self.ordered_batches = OrderedBatches(config.config_dir / "consumerOrderInfo.json", clock)
        self.log_position = LogPosition(config.config_dir / "logPosition.json")
        self.request_modes = RequestModes(config)
        self.locks = QueueLocks(self.steady, grace=lambda: self.config.queue_lock_grace_time)
        self.stats = BrokerStats(clock, self._exists)
        self.filters = Filters(config, clock)
        self.rights = Rights()
        self.heartbeats = Heartbeats(config, self.topics, self.groups, self.filters, clock, self.rights)
        self.timers = Timers()
        self.replicas = ReplicationPort(config, self.steady)
        self.day_totals = DayTotals(clock, self._message_totals)
        self.runtime_sources: list[Callable[[], dict[str, object]]] = []
        self.followers: dict[str, Callable[[Arrival], None]] = {}
        """Parts that follow a topic of the broker itself, told about each message in it."""
        self.link: MasterLink | None = None
        """A slave's connection to its master."""
        self.acting: ActingMaster | None = None
        """Of a slave that may act for its master."""
        self.taken_over: TimerCheckpoint | None = None
        """How far the timer of the slave was that acted for this master."""
        self.gate: Gate | None = None
        """What checks requests and keeps the audit log, if anything does."""
        self._handlers: dict[int, Handler] = {}
        self._fast_handlers: dict[int, Handler] = {}
        self._address: Address | None = None
        self.http: HttpServer | None = None
        self._http_address: Address | None = None
        self._undo = contextlib.AsyncExitStack()

    @property
    def consumers(self) -> Consumers:
        """Live consumer groups."""
        return self.heartbeats.consumers

    @property
    def producers(self) -> Producers:
        """Live producer groups."""
        return self.heartbeats.producers

    @property
    def address(self) -> str:
        """What clients are told, as `host:port`."""
        if self._address is None:
            raise RuntimeError("the broker has not been started")
        return str(self._address)

    @property
    def listens_on(self) -> str:
        """What its main port is bound to, which need not be what clients are told."""
        return str(self.server.addresses[0])

    @property
    def request_codes(self) -> frozenset[int]:
        """What it serves, once started."""
        return frozenset(self._handlers)

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are served, None when they are not."""
        return str(self._http_address) if self._http_address is not None else None

    async def start(self) -> None:
        """Load and recover, listen, register. When this returns, the broker accepts messages.

        Raises ConfigError, StoreError, ProtocolError for files that cannot be read, and ConnectError when an address
        cannot be listened on; nothing is left running then.
        """
        config = self.config
        config.check_exposure(authenticated=config.is_authenticated)
        scene = Scene(
            config.broker_cluster_name,
            lambda offset: topic_at(self.store, offset),
            name=config.broker_name,
            address=lambda: self.address,
        )
        self.gate = config.gate(config.config_dir / "auth", scene, self.clock)
        self.rights.guard = self.gate.guard if self.gate is not None else None
        FilterProcesses.check(self.config)
        for table in (
            self.topics,
            self.groups,
            self.offsets,
            self.delay_offsets,
            self.ordered_batches,
            self.request_modes,
            self.filters,
        ):
            table.load()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def reload(self) -> None:
        """Read the configuration file again."""
        await reread_file(self)

    async def stop(self) -> None:
        """Leave the name servers, answer what was accepted, save everything. Does nothing when not started."""
        await self._undo.aclose()

    async def _start(self) -> None:
        """Bring up one part after the other, each with how to take it down again."""
        undo = self._undo
        self.store = MessageStore(
            self.config.store_config(), clock=self.clock, post=asyncio.get_running_loop().call_soon_threadsafe
        )
        self.store.open()
        undo.push_async_callback(self._save)
        self.positions = Positions(self.store, self.offsets, self.delay_offsets, self.ordered_batches)
        self.positions.hold()
        if self.gate is not None:
            undo.callback(self.gate.close)
        self.client = Client({}, tls=self.config.client_tls(), hooks=self.config.signing())
        undo.push_async_callback(self.client.close)
        undo.push_async_callback(self.replicas.stop)
        self._address = await self._listen()
        undo.push_async_callback(self.server.stop, STOP_GRACE)
        self.store.store_host = Host(await numeric_host(self._address.host), self._address.port)
        self.registration = Registration(self.config, self.client, self.topics, self._identity(self._address))
        self.topics.changed = self.registration.announce
        self.registration.registered = self.heartbeats.topics_registered
        self.filter_servers = FilterServers(
            self.config, self.store.store_host.ip, self.registration.announce_filter_servers, self.clock
        )
        self.park = PullPark(self.steady, self.store.max_offset, capacity=self.config.max_parked_pulls)
        undo.callback(self.park.resume_all)
        self.store.add_listener(self._follow, self.followers)
        self.store.add_listener(self.park.heard, self.park.topics)
        self.members = Members(self.config, self.client, self.registration.identity)
        await self._prepare_succession()
        self._open_doors()
        undo.push_async_callback(self.timers.stop)
        self._begin_periodic_work()
        undo.push_async_callback(self.registration.unregister)
        await self.registration.start()
        self._replicate()
        self._keep_filter_servers()
        await self._start_http()
        self.timers.soon(check_reachable(self._address))
        log.info("broker %s listens on %s and tells clients %s", self.config.broker_name, self.listens_on, self.address)

    async def _prepare_succession(self) -> None:
        """A slave may act for its master; a master takes over from the slave that did."""
        config = self.config
        if not config.enable_slave_acting_master:
            return
        if config.broker_role is BrokerRole.SLAVE:
            self.acting, self.escape = may_act(self, self._undo)
            return
        if config.broker_role is BrokerRole.SYNC_MASTER:
            self.store.add_hook(self.replicas.waits.refusal, ())
        if not config.skip_pre_online:
            self.taken_over = await take_over(self, self.members)

    def _replicate(self) -> None:
        """Serve slaves, or follow a master."""
        if self.config.broker_role is BrokerRole.SLAVE:
            link = self.link = follow_master(self, self._undo)
            self.puller.master_alive = lambda: link.connected and not self.acts_as_master
            self.puller.acts_as_master = lambda: self.acts_as_master
        else:
            self.runtime_sources.append(self.replicas.runtime)
            self.timers.every(REPLICATION_TICK, self.replicas.tick)
        if self.config.enable_slave_acting_master:
            keep_members(self)

    @property
    def acts_as_master(self) -> bool:
        """Whether this is a slave that serves consumers in the place of its master."""
        return self.acting is not None and self.acting.active

    def way_out(self) -> Escape | None:
        """To another master, for a slave that does the work of its own."""
        return self.escape if self.acting is not None and self.acting.working else None

    def put_onward(self, message: PutMessage) -> PutResult:
        """Store a message that has waited: here, or where a slave that acts for its master can."""
        escape = self.way_out()
        if escape is None:
            return self.store.put(message)
        return self.pop.note(message) if message.topic == self.pop.revive_topic else escape.put(message)

    def _keep_filter_servers(self) -> None:
        if self.config.filter_server_nums:
            self.filter_processes = FilterProcesses(self.config, self.address, self.filter_servers, self.clock)
            self._undo.push_async_callback(self.filter_processes.stop)
            self.timers.every(FIRST_LOOK, self.filter_processes.tick)

    async def _start_http(self) -> None:
        if self.config.http_port != NO_HTTP:
            http = self.http = HttpServer({"/metrics": self._metrics, "/health": self._health})
            self._undo.push_async_callback(http.stop)
            self._http_address = await http.start(self.config.http_host, self.config.http_port, self.server.tls)

    def _metrics(self) -> Page:
        # Loaded with the first scrape: the library takes a good part of the time that a start may take.
        from pyromq.broker.admin.metrics import CONTENT_TYPE, BrokerMetrics  # noqa: PLC0415

        return Page(BrokerMetrics(self).page(), CONTENT_TYPE)

    def _health(self) -> Page:
        if self.store.flags.writeable:
            return Page(b"ok\n")
        return Page(f"{self.store.flags.reason()}\n".encode(), status="503 Service Unavailable")

    async def _save(self) -> None:
        """Whatever the disk refuses, the rest is saved."""
        saves = (self.topics.saved.close, self.groups.saved.close, self.request_modes.saved.close, self.offsets.save)
        for save in (*saves, self.filters.save):
            try:
                await save()
            except OSError as error:
                log.error("stopped without a last save: %s", error)  # noqa: TRY400 - one line says it all
        self.store.close()
        log.info("broker %s stopped", self.config.broker_name)

    def _identity(self, address: Address) -> Identity:
        config = self.config
        ha_port = self.replicas.address.port if self.replicas.address is not None else address.port + 1
        ha_address = Address(config.replication_host or address.host, ha_port)
        return Identity(config.broker_cluster_name, config.broker_name, config.broker_id, str(address), str(ha_address))

    async def _listen(self) -> Address:
        """Bind the main port, the fast one two below it and a master's for slaves above; returns what clients are told.

        Whether the ports beside a free one are free too shows only when it is tried.
        """
        config = self.config
        tls, limits = config.server_tls(), config.limits()
        for left in reversed(range(1 if config.listen_port else FREE_PORT_TRIES)):
            self.server = Server(
                self._handlers,
                limits=limits,
                tls=tls,
                on_close=self._connection_closed,
                strangers=config.is_authenticated,
            )
            try:
                bound = await self._bind(config.listen_port, self._handlers)
                if config.fast_listen:
                    await self._bind(bound.port - 2, self._fast_handlers)
                if config.broker_role is not BrokerRole.SLAVE:
                    await self._bind_replication(config.ha_listen_port or bound.port + 1)
                break
            except ConnectError:
                await self.server.stop(0)
                if not left:
                    raise
        return Address(advertised_host(config.advertised_host, bound.host), bound.port)

    async def _bind(self, port: int, handlers: dict[int, Handler]) -> Address:
        try:
            return await self.server.listen(self.config.host, port, handlers=handlers)
        except OSError as error:
            raise ConnectError(
                f"{error.strerror or error} (the broker takes listenPort and, unless "
                "fastListen=false, the port two below it)"
            ) from error

    async def _bind_replication(self, port: int) -> None:
        try:
            if self.gate is not None and self.gate.guard is not None:
                self.replicas.may_follow = KnownSlaves(
                    self.gate.guard, self.clock, self.config.ha_trusted_addresses
                ).may_follow
            await self.replicas.listen(self.config.host, port, self.store, self.server.tls)
        except OSError as error:
            raise ConnectError(f"{error.strerror or error} (the port for slaves: set haListenPort)") from error

    def _open_doors(self) -> None:
        """Build the parts that answer requests and let them."""
        config, store, clock = self.config, self.store, self.clock
        self.durability = Durability(store, self.replicas.waits)
        self.laggards = Laggards(config, self.groups, self.offsets, store)
        ids = UniqueIdGenerator(store.store_host.ip, os.getpid(), secrets.randbits(32), clock)
        self.sender = Sender(config, self.topics, store, self.durability, self.stats, ids, clock)
        self.puller = Puller(
            config,
            self.topics,
            self.groups,
            self.consumers,
            self.offsets,
            store,
            self.park,
            self.filters,
            self.stats,
            self.steady,
        )
        requests = ConsumerRequests(config, self.topics, self.groups, self.heartbeats, self.offsets, self.locks, store)
        transactions = self._transaction_part()
        revive_topic = names.revive_topic(config.broker_cluster_name)
        self.tail = Tail.read(store, self.log_position, revive_topic, follows=config.broker_role is BrokerRole.SLAVE)
        retries, delays, timer, recalls = delivery_parts(self, self._undo)
        self.timer = timer
        self.sender.steps.append(transactions.prepare)  # last: what is on its way to a retry may be redirected first
        self.pop = pop_parts(self, timer, self._undo)
        parts: tuple[_Part, ...] = (
            self._writer_part(),
            self.puller,
            self.heartbeats,
            requests,
            Queries(config, store),
            self.members,
            Assignments(
                config,
                self.topics,
                self.groups,
                self.consumers,
                self.request_modes,
                TopicRoutes(self.client, config.namesrv_addr, clock),
            ),
            TopicAdmin(self),
            GroupAdmin(self),
            ClientAdmin(self),
            OffsetAdmin(self),
            BrokerAdmin(self),
            ReplicationAdmin(self),
            Replies(config, self.sender, self.producers, store, clock),
            transactions,
            retries,
            delays,
            timer,
            recalls,
            self.pop,
            self.filter_servers,
        )
        handlers = {code: handler for part in parts for code, handler in guarded(part.handlers()).items()}
        self._handlers.update(handlers if self.gate is None else self.gate.table(handlers | self.gate.handlers()))
        self._fast_handlers.update(
            {code: handler for code, handler in self._handlers.items() if code not in NOT_ON_FAST_PORT}
        )

    def _transaction_part(self) -> Transactions:
        """Find out which transactions are open, before anything new is stored, and see to them from now on."""
        config, store, clock = self.config, self.store, self.clock
        halves = HalfMessages(config, store, self.offsets, clock)
        halves.load()
        self.followers[HALF] = halves.arrived
        self.transactions = Transactions(config, store, halves, self.sender, self.durability, clock)
        self.transactions.check_group = self.heartbeats.check_group
        self.transactions.user_of = self.rights.user_of
        self.check_back = CheckBack(config, store, self.topics, self.producers, halves, clock, self.rights)
        self.timers.every(CHECK_TICK, self.check_back.tick)
        if self.acting is not None:
            away = HalfEscape(halves, store, self.escape, clock)
            self.acting.work.append(Work(away.start, away.stop))
            self.timers.every(CHECK_TICK, away.tick)
        return self.transactions

    def _writer_part(self) -> Writers:
        """Read in the log which writers there are, before anything new is stored."""
        self.writers = Writers(self.config, self.topics, self.store, self.sender, self.durability, self.clock)
        self.writers.load()
        self._undo.callback(self.writers.save)
        self.timers.every(WRITER_TICK, self.writers.tick)
        self.timers.every(WRITER_EXPIRY, self.writers.expire)
        return self.writers

    def _begin_periodic_work(self) -> None:
        every, config = self.timers.every, self.config
        every(config.flush_consumer_offset_interval / 1000, self.offsets.save)
        every(SAMPLE_INTERVAL_MS / 1000, self.stats.sample)
        every(SCAN_INTERVAL, self.heartbeats.drop_silent)
        every(SCAN_INTERVAL, self.locks.drop_expired)
        every(SCAN_INTERVAL, self.day_totals.tick)
        every(SCAN_INTERVAL, self.filters.save)
        every(SCAN_INTERVAL, self.filter_servers.drop_silent)
        if config.broker_role is not BrokerRole.SLAVE:
            every(LAGGARD_INTERVAL, self.laggards.stop_them)
        every(PARK_TICK, self.park.tick)
        every(STORE_TICK, self.store.tick)
        if self.gate is not None:
            every(GATE_TICK, self.gate.tick)

    async def delete_topics(self, topics: set[str]) -> None:
        """Forget topics with everything the broker knows about them. What is in the log stays until it ages."""
        for deletion in [*map(self.topics.delete, topics), *map(self.request_modes.forget_topic, topics)]:
            await deletion
        for topic in topics:
            self.offsets.forget_topic(topic)
            self.pop.forget_topic(topic)
            self.writers.forget_topic(topic)
            self.store.delete_topic(topic)
        self.stats.forget(lambda key: not topics.isdisjoint(key.split("@")))

    def _exists(self, topic: str, group: str) -> bool:
        """Whether counters of a topic, and of a group unless it is empty, are kept."""
        known = topic in self.topics or topic in names.SYSTEM_TOPICS
        return known and (not group or group in self.groups or group in names.SYSTEM_GROUPS)

    def _message_totals(self) -> tuple[int, int]:
        return self.store.stats.put_count, self.store.stats.get_transferred

    def _follow(self, message: Arrival) -> None:
        self.followers[message.topic](message)

    def _connection_closed(self, connection: Connection) -> None:
        self.locks.connection_closed(connection)
        self.heartbeats.connection_closed(connection)
        self.park.forget(connection)
        self.filter_servers.connection_closed(connection)
