"""Real name servers and brokers for tests of the clients: in the test's event loop, or beside it for blocking ones."""

import asyncio
import functools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.standalone import Standalone
from pyromq.client.blocking.loop import BackgroundLoop
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.remoting.client import Client

LIMIT = 120.0
"""Bounds a hang; nothing here is expected to take long."""


def asyncio_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test to its end."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT))

    return run


@asynccontextmanager
async def standalone(path: Path, **settings: str) -> AsyncIterator[Standalone]:
    """One name server and one broker."""
    server = Standalone(path, namesrv_port=0, broker_port=0, settings=settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextmanager
def standalone_beside(path: Path, **settings: str) -> Iterator[Standalone]:
    """The same on an event loop in another thread, for blocking clients."""
    loop = BackgroundLoop()
    server = Standalone(path, namesrv_port=0, broker_port=0, settings=settings)
    try:
        loop.call(server.start)
        yield server
    finally:
        loop.call(server.stop)
        loop.stop()


@contextmanager
def standalone_process(path: Path) -> Iterator[str]:
    """The same in a process of its own, for tests that count what this one holds; gives the name server's address."""
    command = [sys.executable, "-c", "from pyromq.cli import main; main()", "standalone", "--data", str(path), "--json"]
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--http-port", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"the server did not start; its exit code is {process.wait(LIMIT)}"
            yield json.loads(line)["namesrv"]
        finally:
            process.terminate()


class Cluster:
    """Two name servers, two brokers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name_servers: list[NameServer] = []
        self.brokers: dict[str, Broker] = {}

    @property
    def namesrv(self) -> str:
        return ";".join(server.address for server in self.name_servers)

    async def start(self) -> None:
        for number in range(2):
            config = NamesrvConfig(listen_port=0, kv_config_path=self._path / f"ns{number}" / "kv.json")
            server = NameServer(config)
            await server.start()
            self.name_servers.append(server)
        for name in ("broker-a", "broker-b"):
            await self.start_broker(name)

    async def start_broker(self, name: str) -> Broker:
        flags = {
            "listen_port": "0",
            "http_port": "-1",
            "store_path_root_dir": str(self._path / name),
            "namesrv_addr": self.namesrv,
            "broker_name": name,
        }
        broker = Broker(BrokerConfig.load(flags=flags))
        await broker.start()
        self.brokers[name] = broker
        return broker

    async def stop_broker(self, name: str) -> None:
        await self.brokers.pop(name).stop()

    async def stop(self) -> None:
        for name in list(self.brokers):
            await self.stop_broker(name)
        for server in self.name_servers:
            await server.stop()

    async def routed(self, topic: str, brokers: int) -> None:
        """Wait until every name server knows the topic on that many brokers."""
        client = Client()
        try:
            for server in self.name_servers:
                while await _brokers_of(client, server.address, topic) != brokers:  # noqa: ASYNC110 - in its memory
                    await asyncio.sleep(0.005)
        finally:
            await client.close()


async def _brokers_of(client: Client, address: str, topic: str) -> int:
    header = GetRouteInfoByTopicHeader(topic=topic)
    answer = await client.call(address, Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), LIMIT)
    if answer.code != ResponseCode.SUCCESS:
        return 0
    return len(TopicRouteData.decode(answer.body).broker_datas)


@asynccontextmanager
async def cluster(path: Path) -> AsyncIterator[Cluster]:
    """Two name servers and two brokers that know each other."""
    running = Cluster(path)
    try:
        await running.start()
        await running.routed("TBW102", 2)
        yield running
    finally:
        await running.stop()
