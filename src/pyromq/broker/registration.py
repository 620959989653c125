"""Keeping every name server informed: at start, every half minute, on each change of topics, and on leaving.

Name servers do not know each other, so each is told separately and one that is down holds up none of the others.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from pyromq.broker import perm
from pyromq.broker.config import BrokerConfig
from pyromq.broker.topics import Topics
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies import KVTable, RegisterBrokerBody, TopicConfig, TopicConfigTable
from pyromq.protocol.bodies.registration import body_crc32
from pyromq.protocol.codes import RequestCode, ResponseCode, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers import RegisterBrokerHeader, RegisterBrokerResponseHeader, UnregisterBrokerHeader
from pyromq.remoting import Client

log = logging.getLogger(__name__)

UNREGISTER_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Under which name and at which addresses a broker registers."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str


@dataclass(slots=True)
class MasterAddress:
    """What a name server tells a slave about its master; empty when there is none."""

    address: str = ""
    ha_address: str = ""


class Registration:
    """Registers one broker with all of its name servers."""

    def __init__(self, config: BrokerConfig, client: Client, topics: Topics, identity: Identity) -> None:
        self._config = config
        self._client = client
        self._topics = topics
        self._identity = identity
        self._failing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.filter_servers: list[str] = []
        self.master = MasterAddress()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Where this broker registers."""
        return self._config.namesrv_addr

    async def run(self) -> None:
        """Register again and again until cancelled; the first time at once."""
        while True:
            await self.register()
            await asyncio.sleep(self._config.register_name_server_period / 1000)

    def announce(self, changed: list[TopicConfig]) -> None:
        """Tell the name servers about changed topics soon, without holding up whoever changed them."""
        task = asyncio.get_running_loop().create_task(self.register(changed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def register(self, only: Iterable[TopicConfig] | None = None) -> None:
        """Send the topic table, or just the given topics, to every name server. Failures are logged, not raised."""
        if not self.name_servers:
            return
        table = self._topics.table(only)
        body = RegisterBrokerBody(topics=self._restricted(table), filter_servers=list(self.filter_servers)).encode()
        await asyncio.gather(*(self._register_with(address, body) for address in self.name_servers))

    async def unregister(self) -> None:
        """Leave every name server, so that clients stop coming at once."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(self._unregister_from(address) for address in self.name_servers))

    async def _register_with(self, address: str, body: bytes) -> None:
        identity = self._identity
        header = RegisterBrokerHeader(
            broker_name=identity.name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            compressed=False,
            body_crc32=body_crc32(body),
        )
        request = Command.request(RequestCode.REGISTER_BROKER, header, body=body)
        timeout = self._config.register_broker_timeout_mills / 1000
        try:
            answer = await self._client.call(address, request, timeout)
            if answer.code != ResponseCode.SUCCESS:
                self._failed(address, f"{response_name(answer.code)}: {answer.remark}")
                return
            self._take(answer)
        except PyroMQError as error:
            self._failed(address, str(error))
            return
        if address in self._failing:
            self._failing.discard(address)
            log.info("registered with name server %s again", address)

    def _take(self, answer: Command) -> None:
        header = answer.header(RegisterBrokerResponseHeader)
        if self._identity.broker_id != 0:
            self.master = MasterAddress(header.master_addr or "", header.ha_server_addr or "")
        if answer.body:
            self._topics.mark_ordered(KVTable.decode(answer.body).table)

    async def _unregister_from(self, address: str) -> None:
        identity = self._identity
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

    def _failed(self, address: str, why: str) -> None:
        """Say once that a name server cannot be reached, and again when it can."""
        if address not in self._failing:
            self._failing.add(address)
            log.warning("cannot register with name server %s (%s); trying again every period", address, why)

    def _restricted(self, table: TopicConfigTable) -> TopicConfigTable:
        """The table as clients shall see it: a broker that takes no writes takes the bit from every topic."""
        allowed = self._config.broker_permission
        if allowed & perm.READ_WRITE == perm.READ_WRITE:
            return table
        mask = allowed | perm.INHERIT
        table.topic_config_table = {
            name: _with_permission(topic, topic.perm & mask) for name, topic in table.topic_config_table.items()
        }
        return table


def _with_permission(topic: TopicConfig, permission: int) -> TopicConfig:
    return TopicConfig(
        attributes=topic.attributes,
        order=topic.order,
        perm=permission,
        read_queue_nums=topic.read_queue_nums,
        topic_filter_type=topic.topic_filter_type,
        topic_name=topic.topic_name,
        topic_sys_flag=topic.topic_sys_flag,
        write_queue_nums=topic.write_queue_nums,
    )
