"""Stories of ports: probes of the replication port cost nothing, nor do clients that knock at a dead address."""

import asyncio
import gc
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Producer
from pyromq.client.errors import ClientError
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.errors import RemotingError
from pyromq.remoting.limits import Limits
from tests import processes
from tests.faults.masters import ha_status, pair, until
from tests.integration.broker.servers import Peer

PROBES = 300


def open_files(pid: int | str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def probe(host: str, port: int, said: bytes) -> None:
    """What a load balancer does, politely or not."""
    with socket.create_connection((host, port), timeout=30) as connection:
        if said:
            connection.sendall(said)
        else:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends with a reset


async def test_health_probes_on_the_replication_port_cost_nothing(tmp_path: Path) -> None:
    async with pair(tmp_path, "SYNC_MASTER") as servers, Peer(servers.master["broker"]) as peer:
        await peer.stored("orders")
        port = processes.port_of(servers.master["broker"]) + 1
        files, lines = open_files(servers.master.pid), len(servers.master.log)
        for number in range(PROBES):
            await asyncio.to_thread(probe, "127.0.0.1", port, (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0")[number % 3])

        async def forgotten() -> bool:
            return open_files(servers.master.pid) <= files + 2  # whatever else it just has open

        await until(forgotten)
        assert len((await ha_status(peer)).ha_connection_info) == 1, "the slave, and nobody else"
        assert len(servers.master.log) - lines < PROBES // 10, "not a line for each of them"
        await peer.stored("orders")


@pytest.fixture
def silence() -> Iterator[None]:
    """Nothing is logged: pytest keeps every record with the error that it names, and all that the error holds."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Leaks:
    """What this process holds."""

    def __init__(self) -> None:
        gc.collect()
        self.files = open_files("self")
        self.threads = threading.active_count()
        self.objects = len(gc.get_objects())

    def check(self, attempts: int) -> None:
        now = Leaks()
        assert now.files <= self.files
        assert now.threads <= self.threads
        assert now.objects - self.objects < attempts, "not even one object for each attempt"


@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize("kind", ["nobody listens", "every connection is reset"])
async def test_a_client_loop_against_a_dead_address_leaks_nothing(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        door = None
        if kind == "nobody listens":
            server.close()
        else:
            door = await asyncio.start_server(lambda _, writer: writer.transport.abort(), sock=server)
        client = Client(limits=Limits(reconnect_backoff=0.001))

        async def knock() -> None:
            with pytest.raises(RemotingError):
                await client.call(address, Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), 5.0)

        for _ in range(10):  # what is made once and kept
            await knock()
        before, tasks = Leaks(), len(asyncio.all_tasks())
        for _ in range(PROBES):
            await knock()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= tasks
        assert not client.connections
        before.check(PROBES)
        await client.close()
        if door is not None:
            door.close()
            await door.wait_closed()


@pytest.mark.usefixtures("silence")
def test_producers_that_find_no_name_server_leave_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

    def attempt() -> None:
        with pytest.raises((ClientError, PyroMQError)), Producer("p", namesrv=address) as producer:
            producer.publish_queues("orders")

    for _ in range(3):
        attempt()
    before = Leaks()
    for _ in range(30):
        attempt()
    before.check(30)
