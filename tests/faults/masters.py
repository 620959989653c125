"""A master and its slave as processes, for stories in which the master is lost: with its disk, if need be."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq.protocol.bodies.replication import HARuntimeInfo
from pyromq.protocol.codes import RequestCode
from tests import processes
from tests.integration.broker.servers import Peer

FILE_SIZE = 1 << 20
NAMES = ("--support-acting-master", "--scan-not-active-broker-interval", "200")
QUICK = ("--mapped-file-size-commit-log", str(FILE_SIZE), "--timer-flush-interval-ms", "100")


@dataclass
class Pair:
    """Master and slave of `broker-a`, and where they keep their data."""

    path: Path
    names: processes.Server
    master: processes.Server
    slave: processes.Server
    stack: ExitStack

    async def lose_master(self) -> None:
        """Its machine burns down."""
        await asyncio.to_thread(self.master.kill)
        shutil.rmtree(self.path / "master")

    async def promote_slave(self) -> processes.Server:
        """Start the slave's data as a master, as an operator would."""
        if self.slave.is_running:
            await asyncio.to_thread(self.slave.terminate)
        server = processes.broker(self.path / "slave", *QUICK, name_servers=self.names["namesrv"])
        await asyncio.to_thread(server.start)
        self.stack.callback(server.kill)
        return server


@asynccontextmanager
async def pair(path: Path, role: str = "ASYNC_MASTER", *settings: str) -> AsyncIterator[Pair]:
    """Started, and the slave follows."""
    with ExitStack() as stack:
        names = stack.enter_context(processes.name_server(path / "names", *NAMES))
        common = (*QUICK, *settings)
        master = processes.broker(path / "master", "--broker-role", role, *common, name_servers=names["namesrv"])
        slave = processes.broker(
            path / "slave", "--broker-role", "SLAVE", "--broker-id", "1", *common, name_servers=names["namesrv"]
        )
        for server in (master, slave):
            await asyncio.to_thread(stack.enter_context, server)
        async with Peer(master["broker"]) as peer:
            await until(lambda: follows(peer))
        yield Pair(path, names, master, slave, stack)


async def ha_status(peer: Peer) -> HARuntimeInfo:
    """What a broker says about its replicas."""
    return HARuntimeInfo.decode((await peer.call(RequestCode.GET_BROKER_HA_STATUS)).body)


async def follows(peer: Peer) -> bool:
    """Whether the slave of this master has all of its log."""
    status = await ha_status(peer)
    return any(each.diff == 0 for each in status.ha_connection_info)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that other processes bring about."""
    while not await condition():  # noqa: ASYNC110 - there is nothing to be told by
        await asyncio.sleep(0.02)
