"""Two name servers, two brokers, all processes: each is killed and returns, and clients go on through the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq.configfile import read_config
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from tests import processes
from tests.integration.broker.servers import Peer
from tests.integration.broker.test_processes import route


@dataclass
class Cluster:
    """Servers that come back where they were."""

    names: list[processes.Server]
    brokers: list[processes.Server]


@asynccontextmanager
async def cluster(path: Path) -> AsyncIterator[Cluster]:
    with ExitStack() as stack:
        names = [stack.enter_context(processes.name_server(path / f"n{number}")) for number in range(2)]
        addresses = ";".join(server["namesrv"] for server in names)
        brokers = [
            stack.enter_context(
                processes.broker(
                    path / name,
                    "--flush-consumer-offset-interval",
                    "100",
                    name=name,
                    name_servers=addresses,
                )
            )
            for name in ("broker-a", "broker-b")
        ]
        yield Cluster(names, brokers)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - other processes bring it about
        await asyncio.sleep(0.02)


async def brokers_known(server: processes.Server) -> set[str]:
    return set(await route(server["namesrv"], "TBW102"))


async def test_a_killed_name_server_learns_everything_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        first, second = servers.names
        both = {"broker-a", "broker-b"}
        assert await brokers_known(first) == await brokers_known(second) == both
        await asyncio.to_thread(first.kill)
        async with Peer(servers.brokers[0]["broker"]) as peer:
            await peer.stored("orders")

        async def knows() -> bool:
            return set(await route(second["namesrv"], "orders")) == {"broker-a"}

        await until(knows)
        assert await brokers_known(second) == both
        await asyncio.to_thread(first.start)

        async def knows_again() -> bool:
            return await brokers_known(first) == both and bool(await route(first["namesrv"], "orders"))

        await until(knows_again)


async def test_a_killed_broker_leaves_the_routes_and_returns_with_its_messages(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        first, second = servers.brokers
        async with Peer(first["broker"]) as peer, Peer(second["broker"]) as other:
            for number in range(100):
                await peer.stored("orders", f"m{number}".encode())
            await other.stored("orders")
            commit = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=60)
            await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            offsets = tmp_path / "broker-a" / "config" / "consumerOffset.json"

            async def saved() -> bool:
                table = read_config(offsets, ConsumerOffsetTable.decode)
                return table is not None and table.offset_table.get("orders@g") == {0: 60}

            await until(saved)
            await asyncio.to_thread(first.kill)
            for names in servers.names:

                async def gone(names: processes.Server = names) -> bool:
                    return set(await route(names["namesrv"], "orders")) == {"broker-b"}

                await until(gone)
            await other.stored("orders", b"meanwhile")
        assert (tmp_path / "broker-a" / "abort").exists()
        await asyncio.to_thread(first.start)
        for names in servers.names:

            async def back(names: processes.Server = names) -> bool:
                return set(await route(names["namesrv"], "orders")) == {"broker-a", "broker-b"}

            await until(back)
        async with Peer(first["broker"]) as peer:
            bodies: list[bytes] = []
            while found := await peer.messages("orders", len(bodies)):
                bodies += [bytes(message.body) for message in found]
            assert bodies == [f"m{number}".encode() for number in range(100)]
            query = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0)
            answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, query)
            assert answer.header(QueryConsumerOffsetResponseHeader).offset == 60


async def test_a_broker_that_stops_leaves_the_routes_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        assert await asyncio.to_thread(servers.brokers[0].terminate) == 0
        for names in servers.names:
            assert await brokers_known(names) == {"broker-b"}


async def test_brokers_go_on_without_any_name_server(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        for names in servers.names:
            await asyncio.to_thread(names.kill)
        async with Peer(servers.brokers[0]["broker"]) as peer:
            await peer.stored("orders")
            assert (await peer.pull("orders")).code == ResponseCode.SUCCESS
        assert await asyncio.to_thread(servers.brokers[0].terminate) == 0
