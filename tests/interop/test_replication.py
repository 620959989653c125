"""A slave of ours behind Apache's master, and the other way round: the same bytes, tables and answers."""

import asyncio
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq import Message, Producer, SendStatus
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.servers import Peer
from tests.interop.artifacts import SERVER_VERSION
from tests.interop.matrix import REPLICATION, Note
from tests.interop.servers import Cluster, Server, apache_broker, our_broker, our_name_server

TOPIC = "orders"
FILE_SIZE = 1 << 20
PATIENCE = 400.0
"""Apache's slave copies the tables after a minute at the earliest."""

Opener = Callable[..., Server]
APACHE: tuple[str, Opener] = (f"Apache {SERVER_VERSION}", apache_broker)
PYROMQ: tuple[str, Opener] = ("PyroMQ", our_broker)


def ask(server: Server, code: int) -> Command:
    async def call() -> Command:
        async with Peer(server.address) as peer:
            return await peer.call(code)

    return asyncio.run(call())


def log_end(server: Server) -> int:
    """Where its log ends; -1 while it is not ready to say so."""
    answer = ask(server, RequestCode.GET_BROKER_RUNTIME_INFO)
    if answer.code != ResponseCode.SUCCESS:
        return -1
    return int(KVTable.decode(answer.body).table["commitLogMaxOffset"])


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def same_log(master: Server, slave: Server) -> int:
    """Compare the files that the slave has; returns how many."""
    files = sorted((slave.store / "commitlog").iterdir())
    end = log_end(master)
    for file in files:
        used = min(FILE_SIZE, end - int(file.name))
        if used > 0:
            assert file.read_bytes()[:used] == (master.store / "commitlog" / file.name).read_bytes()[:used], file.name
    return len(files)


def read_back(slave: Server, queue: int) -> list[bytes]:
    """What a slave whose master is gone gives to a consumer."""

    async def pull() -> list[bytes]:
        found: list[bytes] = []
        async with Peer(slave.address) as peer:
            offset = 0
            while True:
                answer = await peer.pull(TOPIC, offset, queue=queue)
                offset = max(int(answer.ext["nextBeginOffset"]), int(answer.ext["minOffset"]))  # ours began later
                if answer.code == ResponseCode.SUCCESS:
                    found += [message.body for message in decode_records(answer.body)]
                elif offset == int(answer.ext["maxOffset"]):
                    return found

    return asyncio.run(pull())


@pytest.mark.parametrize(
    ("master_kind", "slave_kind"), [(PYROMQ, APACHE), (APACHE, PYROMQ)], ids=["apache-slave", "our-slave"]
)
def test_a_slave_of_the_other_kind(
    tmp_path: Path,
    master_kind: tuple[str, Opener],
    slave_kind: tuple[str, Opener],
    note: Note,
) -> None:
    note(REPLICATION, f"slave {slave_kind[0]}", f"master {master_kind[0]}")
    shared = {"mappedFileSizeCommitLog": str(FILE_SIZE), "brokerIP2": "127.0.0.1"}
    with (
        our_name_server(tmp_path / "namesrv") as name_server,
        master_kind[1](
            tmp_path / "master", name_server.address, brokerRole="SYNC_MASTER", inSyncReplicas="2", **shared
        ) as master,
        Producer("p", namesrv=name_server.address) as producer,
    ):
        Cluster(name_server, master).settle()
        body = random.Random(7).randbytes(10_000)  # which does not compress

        def send(count: int, *, wait: bool) -> None:
            message = Message(TOPIC, body, wait_store_ok=wait)
            assert {producer.send(message, timeout=30.0).status for _ in range(count)} == {SendStatus.SEND_OK}

        send(250, wait=False)
        slave = slave_kind[1](
            tmp_path / "slave", name_server.address, brokerRole="SLAVE", brokerId="1", slaveReadEnable="true", **shared
        )
        with slave:
            until(lambda: log_end(slave) == log_end(master), "the slave does not catch up")
            send(150, wait=True)
            slave.stop(signal.SIGKILL)
            send(150, wait=False)
            slave.start()
            until(lambda: log_end(slave) == log_end(master), "the slave does not go on")
            send(10, wait=True)
            assert same_log(master, slave) >= 3
            topics = slave.store / "config" / "topics.json"
            until(lambda: topics.exists() and f'"{TOPIC}"' in topics.read_text(), "topics are not copied")
            end = log_end(master)
            master.stop(signal.SIGKILL)
            assert log_end(slave) == end
            found = [each for queue in range(4) for each in read_back(slave, queue)]
            assert len(found) >= 310
            assert set(found) == {body}
