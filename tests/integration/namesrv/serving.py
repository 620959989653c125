"""A real name server on a free port, and short ways to talk to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from pyromq.namesrv import NameServer, NamesrvConfig
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader, RegisterBrokerHeader
from pyromq.remoting.client import Client
from pyromq.remoting.tls import ClientTls

BOUND = 30.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario; the bound only ends what hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await scenario

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other callbacks of this loop bring about."""
    while not condition():  # noqa: ASYNC110 - what is waited for sets no event
        await asyncio.sleep(0.005)


@asynccontextmanager
async def name_server(
    folder: Path, clock: Callable[[], float] | None = None, **options: Any
) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(**{"listen_port": 0, "kv_config_path": folder / "kvConfig.json", **options})
    server = NameServer(config) if clock is None else NameServer(config, clock)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Peer:
    """Whoever has a connection to a name server: a client, an administrator, a broker."""

    def __init__(self, address: str, tls: ClientTls | None = None) -> None:
        self.address = address
        self.client = Client(tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def ask(
        self, code: int, header: Header | None = None, body: bytes = b"", *, version: int | None = None
    ) -> Command:
        command = Command.request(code, header, body=body)
        if version is not None:
            command.version = version
        return await self.client.call(self.address, command, BOUND)

    async def route(self, topic: str, *, version: int = 317, strict: bool | None = None) -> Command:
        header = GetRouteInfoByTopicHeader(topic=topic, accept_standard_json_only=strict)
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, version=version)

    async def register(
        self,
        name: str,
        *topics: str,
        broker_id: int = 0,
        address: str = "",
        cluster: str = "c",
        counter: int = 1,
        compressed: bool = False,
        flag: int = 0,
        crc: int | None = None,
        timeout_ms: int | None = None,
        acting: bool | None = None,
        filters: tuple[str, ...] = (),
    ) -> Command:
        header = RegisterBrokerHeader(
            broker_name=name,
            broker_addr=address or f"{name}-{broker_id}:10911",
            cluster_name=cluster,
            ha_server_addr="10.0.0.1:10912",
            broker_id=broker_id,
            heartbeat_timeout_millis=timeout_ms,
            enable_acting_master=acting,
            compressed=compressed,
            body_crc32=crc,
        )
        return await self.ask(
            RequestCode.REGISTER_BROKER, header, registration(topics, counter, flag, compressed, filters)
        )


def registration(
    topics: tuple[str, ...],
    counter: int = 1,
    flag: int = 0,
    compressed: bool = False,
    filters: tuple[str, ...] = (),
) -> bytes:
    table = TopicConfigTable(
        data_version=DataVersion(counter=counter, timestamp=7),
        topic_config_table={
            topic: TopicConfig(topic_name=topic, read_queue_nums=8, write_queue_nums=4, topic_sys_flag=flag)
            for topic in topics
        },
    )
    return RegisterBrokerBody(topics=table, filter_servers=list(filters)).encode(compressed=compressed)
