"""Keeping every name server informed: at start, every half minute, on each change of topics, and on leaving.

Name servers do not know each other, so each is told separately and one that is down holds up none of the others. One
that restarted has forgotten everything: the end of its connection is noticed and it is told again within a second.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import msgspec

from pyromq.broker.core import Core
from pyromq.broker.part import Figure, Part, gauge
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.registration import RegisterBrokerBody, body_crc32
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.codes import RequestCode, ResponseCode, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import RegisterBrokerHeader, RegisterBrokerResponseHeader, UnregisterBrokerHeader
from pyromq.protocol.routes import INHERIT, READ_WRITE
from pyromq.remoting.connection import Connection

log = logging.getLogger(__name__)

UNREGISTER_TIMEOUT = 3.0
START_PATIENCE = 3.0
RETRY_INTERVAL = 1.0
TAKEN_INTERVAL = 3.0
"""Between two attempts while another broker has this one's name and id."""
REMINDER = 60.0
"""Seconds after which it is said again that there is another one."""


@dataclass(slots=True)
class MasterAddress:
    """What a name server tells a slave about its master; empty when there is none."""

    address: str = ""
    ha_address: str = ""


class _Desk:
    """One name server: what it has yet to be told, and whether it listens."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.changed: dict[str, TopicConfig] = {}
        self.full = True
        self.failing = False
        self.trouble: str | None = "it has not answered yet"
        """Why this broker is not registered there; None while it is."""
        self.conflict = ""
        """What it says about another broker under the same name and id; empty while there is none."""
        self.reminded = 0.0
        self.connection: Connection | None = None
        self.wake = asyncio.Event()
        self.tried = asyncio.Event()
        self.expected: list[asyncio.Future[None]] = []
        """What waits for the next registration, whether it succeeds or not."""

    def ask_for_all(self) -> None:
        """Have everything registered again soon."""
        self.full = True
        self.wake.set()

    def expect(self) -> "asyncio.Future[None]":
        """Done once this name server was told of everything that changed until now, or could not be."""
        expected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.expected.append(expected)
        return expected

    def meet(self, expected: "list[asyncio.Future[None]]") -> None:
        """Let those go on who waited."""
        for each in expected:
            if not each.done():
                each.set_result(None)


class Registration(Part):
    """Registers one broker with all of its name servers. `registered` is told which changed topics one knows now."""

    def __init__(self, core: Core, registered: Callable[[Collection[str]], None]) -> None:
        self._config = core.config
        self._client = core.client
        self._topics = core.topics
        self._registered = registered
        self.identity = core.identity
        self._desks = [_Desk(address) for address in core.config.namesrv_addr]
        self._tasks: list[asyncio.Task[None]] = []
        self.filter_servers: list[str] = []
        self.master = MasterAddress()
        core.topics.listeners.append(self.announce)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Where this broker registers."""
        return self._config.namesrv_addr

    @property
    def standing(self) -> dict[str, str | None]:
        """For each name server why this broker is not registered there; None where it is."""
        return {desk.address: desk.trouble for desk in self._desks}

    @property
    def conflicts(self) -> int:
        """Name servers that know of another broker under this one's name and id."""
        return sum(bool(desk.conflict) for desk in self._desks)

    def metrics(self) -> Iterable[Figure]:
        """Who knows this broker."""
        known = list(self.standing.values()).count(None)
        yield gauge("pyromq_registered_name_servers", "Name servers that know this broker.", known)
        yield gauge("pyromq_name_conflicts", "Name servers that know another with its name and id.", self.conflicts)

    async def join(self) -> None:
        """Register and keep registered. Returns once every name server answered, or some take too long over it."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(desk)) for desk in self._desks]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_PATIENCE):
                for desk in self._desks:
                    await desk.tried.wait()

    def announce(self, changed: Iterable[TopicConfig]) -> "list[asyncio.Future[None]]":
        """Tell the name servers about changed topics; what is returned is done when those that listen know them.

        A client that was told that its topic exists may ask for its route at once.
        """
        topics = {topic.topic_name: topic for topic in changed}
        for desk in self._desks:
            desk.changed.update(topics)
            desk.wake.set()
        return [desk.expect() for desk in self._desks if desk.trouble is None]

    def ask_again(self) -> None:
        """Register everything again soon; the answers tell a slave who its master is."""
        for desk in self._desks:
            desk.ask_for_all()

    def announce_filter_servers(self, addresses: list[str]) -> None:
        """Tell the name servers soon which filter servers there are."""
        self.filter_servers = addresses
        for desk in self._desks:
            desk.ask_for_all()

    async def leave(self) -> None:
        """Leave every name server, so that clients stop coming at once."""
        tasks, self._tasks = self._tasks, []
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for desk in self._desks:
            desk.trouble = "this broker has left"
            desk.meet(desk.expected)
        await asyncio.gather(*(self._unregister_from(address) for address in self.name_servers))

    async def _keep(self, desk: _Desk) -> None:
        period = self._config.register_name_server_period / 1000
        while True:
            registered = await self._register_with(desk)
            desk.tried.set()
            with contextlib.suppress(TimeoutError):
                failed = TAKEN_INTERVAL if desk.conflict else RETRY_INTERVAL
                async with asyncio.timeout(period if registered else failed):
                    await desk.wake.wait()

    async def _register_with(self, desk: _Desk) -> bool:
        """One registration: of the topics that changed, else of all. What fails is made good by the next, full one."""
        desk.wake.clear()
        changed, desk.changed = desk.changed, {}
        expected, desk.expected = desk.expected, []
        full, desk.full = desk.full or not changed, False
        table = self._restricted(self._topics.table(None if full else changed.values()))
        # In a thread: of ten thousand topics it takes a tenth of a second, in which everybody would wait.
        body = await asyncio.to_thread(
            RegisterBrokerBody(topics=table, filter_servers=list(self.filter_servers)).encode
        )
        failure = desk.trouble = await self._send(desk, body)
        desk.meet(expected)
        self._note_conflict(desk)
        if failure is None:
            self._watch(desk)
            if changed:
                self._registered(changed.keys())
            if desk.failing:
                log.info("registered with name server %s", desk.address)
        elif not desk.failing and not desk.conflict:
            log.warning("cannot register with name server %s (%s); trying again and again", desk.address, failure)
        desk.failing = failure is not None
        desk.full |= desk.failing
        return not desk.failing

    def _watch(self, desk: _Desk) -> None:
        """Register anew as soon as the connection ends: a name server that restarted knows nothing any more."""
        connection = self._client.connections.get(desk.address)
        if connection is not None and connection is not desk.connection:
            desk.connection = connection
            connection.on_close(lambda _connection: desk.ask_for_all())

    def _note_conflict(self, desk: _Desk) -> None:
        """Say loudly, and now and then again, that two brokers have one name: an operator has to stop one of them."""
        now = asyncio.get_running_loop().time()
        if desk.conflict and now >= desk.reminded:
            desk.reminded = now + REMINDER
            log.error(
                "name server %s knows of two brokers %s with the id %d, this one is %s: %s",
                desk.address,
                self.identity.name,
                self.identity.broker_id,
                "registered" if desk.trouble is None else "NOT REGISTERED",
                desk.conflict,
            )
        elif not desk.conflict:
            desk.reminded = 0.0

    async def _send(self, desk: _Desk, body: bytes) -> str | None:
        """Why it failed, None when it did not."""
        identity = self.identity
        desk.conflict = ""
        header = RegisterBrokerHeader(
            broker_name=identity.name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            compressed=False,
            body_crc32=body_crc32(body),
        )
        if self._config.enable_slave_acting_master:
            header.enable_acting_master = True
            header.heartbeat_timeout_millis = self._config.broker_not_active_timeout_millis
        request = Command.request(RequestCode.REGISTER_BROKER, header, body=body)
        timeout = self._config.register_broker_timeout_mills / 1000
        try:
            answer = await self._client.call(desk.address, request, timeout)
            if answer.code in (ResponseCode.SUCCESS, ResponseCode.NAME_TAKEN):
                desk.conflict = answer.remark or ""
            if answer.code != ResponseCode.SUCCESS:
                return f"{response_name(answer.code)}: {answer.remark}"
            self._take(answer)
        except PyroMQError as error:
            return str(error)
        return None

    def _take(self, answer: Command) -> None:
        header = answer.header(RegisterBrokerResponseHeader)
        if self.identity.broker_id != 0 and header.master_addr and header.ha_server_addr:
            # The last one known stays: another name server may have lost it, or the master may come back.
            self.master = MasterAddress(header.master_addr, header.ha_server_addr)
        if answer.body:
            # If it cannot be saved, the next registration brings it again.
            _ = self._topics.mark_ordered(KVTable.decode(answer.body).table)

    async def _unregister_from(self, address: str) -> None:
        identity = self.identity
        header = UnregisterBrokerHeader(
            broker_name=identity.name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )
        try:
            await self._client.call(address, Command.request(RequestCode.UNREGISTER_BROKER, header), UNREGISTER_TIMEOUT)
        except PyroMQError as error:
            log.info("could not unregister from name server %s: %s", address, error)

    def _restricted(self, table: TopicConfigTable) -> TopicConfigTable:
        """The table as clients shall see it: a broker that takes no writes takes the bit from every topic."""
        allowed = self._config.broker_permission
        if allowed & READ_WRITE == READ_WRITE:
            return table
        mask = allowed | INHERIT
        table.topic_config_table = {
            name: msgspec.structs.replace(topic, perm=topic.perm & mask)
            for name, topic in table.topic_config_table.items()
        }
        return table
