"""A slave follows only after its master has seen that the slave's log is the beginning of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.replication import peer as peers
from pyromq.broker.replication.master import Master
from pyromq.protocol.bodies.replication import LogProof, Stretch
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.replication import CompareLogHeader, CompareLogResponseHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.server import Server
from tests.integration.broker.servers import until
from tests.integration.broker.test_replication import (
    FakeMaster,
    block,
    caught_up,
    in_sync,
    master_of,
    name_server,
    slave_of,
    stored_record,
)

BODY = b"x" * 1_000
TOPIC = "orders"


def trouble(slave: Broker) -> str:
    assert slave.part(Master).link is not None
    return str(slave.part(Master).link.runtime()["haTrouble"])


async def diverge(path: Path, namesrv: str) -> None:
    """Make the slave's store one of an old master: with 5 messages of the master's, and 20 that only it has."""
    async with master_of(path, namesrv) as (master, peer), slave_of(path, namesrv) as (slave, _):
        for _ in range(5):
            await peer.stored(TOPIC, BODY)
        await caught_up(master, slave)
    (path / "old").mkdir()
    (path / "slave1").rename(path / "old" / "master")
    async with master_of(path / "old", namesrv) as (_, peer):
        for _ in range(20):
            await peer.stored(TOPIC, BODY)
    (path / "old" / "master").rename(path / "slave1")


class Pause:
    """A master that does not answer these requests until it is released."""

    def __init__(self, master: Broker, *codes: int) -> None:
        self.asked = 0
        self.released = asyncio.Event()
        for code in codes:
            master.core.ports.handlers[code] = self._behind(master.core.ports.handlers[code])

    def _behind(self, handler: Handler) -> Handler:
        async def serve(request: Command, connection: Connection) -> Command:
            self.asked += 1
            await self.released.wait()
            answer = handler(request, connection)
            found = await answer if asyncio.iscoroutine(answer) else answer
            assert isinstance(found, Command)
            return found

        return serve


@pytest.mark.parametrize("silent_about", [RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.COMPARE_LOG])
async def test_without_a_verdict_there_is_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent_about: RequestCode
) -> None:
    monkeypatch.setattr(peers, "CALL_TIMEOUT", 0.2)
    async with name_server(tmp_path) as namesrv:
        await diverge(tmp_path, namesrv)
        async with master_of(tmp_path, namesrv, "SYNC_MASTER") as (master, peer):
            for _ in range(40):
                await peer.send(TOPIC, BODY)
            pause = Pause(master, silent_about)
            async with slave_of(tmp_path, namesrv) as (slave, _):
                end = slave.store.max_physical_offset
                await until(lambda: pause.asked >= 2)
                assert "no verdict" in trouble(slave)
                assert not master.core.ports.replicas.followers()
                assert (await peer.send(TOPIC, BODY)).code == ResponseCode.SLAVE_NOT_AVAILABLE
                monkeypatch.setattr(peers, "CALL_TIMEOUT", 5.0)
                pause.released.set()
                await until(lambda: "Nothing is changed" in trouble(slave))
                assert slave.store.max_physical_offset == end
                assert not master.core.ports.replicas.followers()


async def test_a_slave_that_is_not_followed_by_a_verdict_keeps_its_tables(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        await diverge(tmp_path, namesrv)
        async with master_of(tmp_path, namesrv) as (master, peer):
            for _ in range(40):
                await peer.stored(TOPIC, BODY)
            await peer.stored("bills", BODY)
            async with slave_of(tmp_path, namesrv, slave_read_enable="true") as (slave, _):
                slave.core.offsets.commit("g", TOPIC, 0, 25)
                await until(lambda: "Nothing is changed" in trouble(slave))
                pause = Pause(master, RequestCode.COMPARE_LOG)
                pause.released.set()
                await until(lambda: pause.asked >= 3)
                assert "bills" not in slave.core.topics
                assert master.core.offsets.get("g", TOPIC, 0) is None, "what was consumed there was another log"


async def test_a_difference_further_back_is_found_too(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        for _ in range(400):
            await peer.stored(TOPIC, BODY)
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            end = slave.store.max_physical_offset
        place = end - 2 * (64 << 10) - 100  # well before the last stretch
        file = tmp_path / "slave1" / "commitlog" / "0".zfill(20)
        with file.open("r+b") as data:
            data.seek(place)
            byte = data.read(1)
            data.seek(place)
            data.write(bytes([byte[0] ^ 1]))
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await until(lambda: "Nothing is changed" in trouble(slave))


async def test_a_slave_that_proved_itself_counts_and_says_so(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv, "SYNC_MASTER") as (master, peer):
        async with slave_of(tmp_path, namesrv):
            await in_sync(master)
            assert (await peer.send(TOPIC, BODY)).code == ResponseCode.SUCCESS
        await until(lambda: not master.core.ports.replicas.followers())
        async with slave_of(tmp_path, namesrv):
            await in_sync(master)
            (follower,) = master.core.ports.replicas.followers()
            assert follower.proved
            assert master.core.ports.replicas.runtime()["haSlavesUnproved"] == 0
            assert (await peer.send(TOPIC, BODY)).code == ResponseCode.SUCCESS
        await until(lambda: not master.core.ports.replicas.followers())
        # Apache's slaves have nothing but their length to show.
        address = master.core.ports.replicas.address
        assert address is not None
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(master.store.max_physical_offset.to_bytes(8, "big"))
        await until(lambda: len(master.core.ports.replicas.followers()) == 1)
        assert master.core.ports.replicas.runtime()["haSlavesUnproved"] == 1
        writer.close()


async def test_a_ticket_of_another_master_lets_nobody_in(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored(TOPIC, BODY)
        address = master.core.ports.replicas.address
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write((-5).to_bytes(8, "big", signed=True) + master.store.max_physical_offset.to_bytes(8, "big"))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert not master.core.ports.replicas.followers()


@pytest.mark.parametrize(
    "proof",
    [
        LogProof(),
        LogProof(stretches=[Stretch(crc=1, offset=0, length=10)]),
        LogProof(stretches=[Stretch(crc=1, offset=0, length=1 << 20)]),
        LogProof(stretches=[Stretch(crc=1, offset=-10, length=10)]),
        LogProof(stretches=[Stretch(crc=1, offset=0, length=0)] * 1_000),
    ],
)
async def test_what_proves_nothing_gets_no_ticket(tmp_path: Path, proof: LogProof) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored(TOPIC, BODY)
        header = CompareLogHeader(offset=master.store.max_physical_offset)
        answer = await peer.call(RequestCode.COMPARE_LOG, header, body=proof.encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert not master.core.ports.replicas.tickets.expects("127.0.0.1")


async def test_who_asks_learns_where_the_logs_differ(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored(TOPIC, BODY)
        end = master.store.max_physical_offset
        body = LogProof(stretches=[Stretch(crc=1, offset=10, length=end - 10)]).encode()
        answer = await peer.call(RequestCode.COMPARE_LOG, CompareLogHeader(offset=end), body=body)
        header = answer.header(CompareLogResponseHeader)
        assert (header.ticket, header.differs) == (None, 10)
        async with slave_of(tmp_path, namesrv) as (slave, reader):
            await caught_up(master, slave)
            answer = await reader.call(RequestCode.COMPARE_LOG, CompareLogHeader(offset=end), body=body)
            assert answer.code == ResponseCode.SYSTEM_ERROR, "a slave has no say in it"


@asynccontextmanager
async def apache_main_port(record: bytes) -> AsyncIterator[str]:
    """The main port of a master that does not know COMPARE_LOG and whose log is one record."""

    def log(request: Command, _connection: Connection) -> Command:
        ends = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(len(record))}
        return request.reply(body=KVTable(table=ends).encode())

    def view(request: Command, _connection: Connection) -> Command:
        assert request.header(ViewMessageByIdHeader).offset == 0
        return request.reply(body=record)

    server = Server({RequestCode.GET_BROKER_RUNTIME_INFO: log, RequestCode.VIEW_MESSAGE_BY_ID: view})
    try:
        yield str(await server.listen("127.0.0.1", 0))
    finally:
        await server.stop(0)


@pytest.mark.parametrize("same", [True, False])
async def test_messages_are_compared_where_the_master_cannot_compare_logs(tmp_path: Path, same: bool) -> None:
    record = stored_record(0)
    theirs = record if same else record.replace(b"body", b"yours"[:4])
    master = FakeMaster(block(0, record))
    async with master as address, apache_main_port(theirs) as main_port:
        settings = {"ha_master_address": address, "master_broker_address": main_port}
        async with slave_of(tmp_path, "", 1, **settings) as (slave, _):
            await until(lambda: slave.store.max_offset(TOPIC, 0) == 1)
        async with slave_of(tmp_path, "", 1, **settings) as (slave, _):
            link = slave.part(Master).link
            assert link is not None
            if same:
                await until(lambda: link.connected)
                await until(lambda: len(record) in master.reports[1:])
            else:
                await until(lambda: "Nothing is changed" in trouble(slave))
                assert master.connections == 1


async def test_without_a_name_server_the_master_is_asked_below_its_replication_port(tmp_path: Path) -> None:
    async with master_of(tmp_path, "") as (master, peer):
        await peer.stored(TOPIC, BODY)
        settings = {"ha_master_address": str(master.core.ports.replicas.address)}
        for _ in range(2):
            async with slave_of(tmp_path, "", 1, **settings) as (slave, _):
                await caught_up(master, slave)
                await until(lambda: TOPIC in slave.core.topics)
                await peer.stored(TOPIC, BODY)
                await caught_up(master, slave)
                assert all(follower.proved for follower in master.core.ports.replicas.followers())


async def test_a_slave_that_cannot_ask_says_which_setting_helps(tmp_path: Path) -> None:
    record = stored_record(0)
    master = FakeMaster(block(0, record))
    async with master as address:
        async with slave_of(tmp_path, "", ha_master_address=address) as (slave, _):
            await until(lambda: slave.store.max_offset(TOPIC, 0) == 1)
        async with slave_of(tmp_path, "", ha_master_address=address) as (slave, _):
            await until(lambda: "masterBrokerAddress" in trouble(slave))
            assert master.connections == 1
