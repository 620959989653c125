"""A master and its slaves in one process, over real sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.pull import Puller
from pyromq.broker.replication.master import Master
from pyromq.broker.replication.port import BLOCKS_PER_TURN, WRITE_BUFFER
from pyromq.broker.replication.verdict import MasterLog
from pyromq.broker.replication.wire import BLOCK_HEAD
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.queues import SetMessageRequestMode
from pyromq.protocol.bodies.replication import HARuntimeInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageResponseHeader, UpdateConsumerOffsetHeader
from pyromq.protocol.headers.replication import ExchangeBrokerHaInfoHeader, ExchangeBrokerHaInfoResponseHeader
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import pack_record
from pyromq.remoting.connection import Connection
from tests.integration.broker.servers import Peer, until
from tests.poison import damage, records_with
from tests.processes import free_port

FILE_SIZE = 1 << 20


@asynccontextmanager
async def name_server(path: Path) -> AsyncIterator[str]:
    server = NameServer(NamesrvConfig(listen_port=0, kv_config_path=path / "kvConfig.json"))
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


def broker_of(path: Path, namesrv: str, broker_id: int, role: str, **settings: str) -> Broker:
    flags = {
        "listen_port": "0",
        "broker_name": "broker-a",
        "broker_id": str(broker_id),
        "broker_role": role,
        "namesrv_addr": namesrv,
        "store_path_root_dir": str(path),
        "mapped_file_size_commit_log": str(FILE_SIZE),
    }
    return Broker(BrokerConfig.load(flags=flags | settings))


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[tuple[Broker, Peer]]:
    await broker.start()
    try:
        async with Peer(broker.address) as peer:
            yield broker, peer
    finally:
        await broker.stop()


@asynccontextmanager
async def master_of(
    path: Path, namesrv: str, role: str = "ASYNC_MASTER", **settings: str
) -> AsyncIterator[tuple[Broker, Peer]]:
    async with running(broker_of(path / "master", namesrv, 0, role, **settings)) as pair:
        yield pair


@asynccontextmanager
async def slave_of(path: Path, namesrv: str, number: int = 1, **settings: str) -> AsyncIterator[tuple[Broker, Peer]]:
    async with running(broker_of(path / f"slave{number}", namesrv, number, "SLAVE", **settings)) as pair:
        yield pair


async def caught_up(master: Broker, slave: Broker) -> None:
    await until(
        lambda: slave.store.progress.confirmed == slave.store.progress.dispatched == master.store.max_physical_offset
    )


async def in_sync(master: Broker, count: int = 1) -> None:
    end = master.store.max_physical_offset
    await until(lambda: sum(follower.ack >= end for follower in master.core.ports.replicas.followers()) >= count)


async def ha_status(peer: Peer) -> HARuntimeInfo:
    return HARuntimeInfo.decode((await peer.call(RequestCode.GET_BROKER_HA_STATUS)).body)


async def test_a_body_that_rotted_on_the_master_does_not_stop_its_slaves(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        async with master_of(tmp_path, namesrv) as (_, peer):
            for number in range(3):
                await peer.stored("orders", b"body %d" % number)
        (offset,) = records_with(tmp_path / "master", b"body 1")
        damage(tmp_path / "master", offset + 88, b"B")
        async with master_of(tmp_path, namesrv) as (master, _), slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            assert [each.begin for each in slave.store.damage.stretches] == [offset]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_slave_catches_up_and_follows(tmp_path: Path, flush: str) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, flush_disk_type=flush) as (master, peer),
    ):
        for number in range(40):  # over several files
            await peer.stored("orders", b"%d" % number + b"x" * 100_000)
        async with slave_of(tmp_path, namesrv, flush_disk_type=flush, slave_read_enable="true") as (slave, reader):
            await caught_up(master, slave)
            assert len(slave.store.commit_log.files) == len(master.store.commit_log.files) > 3
            await peer.stored("orders", b"live")
            await caught_up(master, slave)
            await until(lambda: "orders" in slave.core.topics)
            found = [m.body for offset in range(41) for m in (await reader.messages("orders", offset, count=1))]
            assert found[-1] == b"live"
            assert [body.rstrip(b"x") for body in found[:-1]] == [b"%d" % number for number in range(40)]
            await in_sync(master)
            status = await ha_status(peer)
            assert (status.master, status.in_sync_slave_nums) == (True, 1)
            (info,) = status.ha_connection_info
            assert (info.diff, info.slave_ack_offset) == (0, master.store.max_physical_offset)
            assert (await ha_status(reader)).ha_client_runtime_info.max_offset == slave.store.max_physical_offset
        for mine, other in zip(
            master.store.commit_log.files, sorted((tmp_path / "slave1/commitlog").iterdir()), strict=True
        ):
            assert bytes(mine.view(0, mine.position)) == other.read_bytes()[: mine.position]


async def test_a_slave_goes_on_where_it_was(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored("orders", b"1")
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
        await until(lambda: not master.core.ports.replicas.followers())
        await peer.stored("orders", b"2")
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            assert slave.store.max_offset("orders", 0) == 2
            # a broken connection, not a stop
            session = slave.part(Master).link._session if slave.part(Master).link is not None else None
            assert session is not None
            session.close("broken by the test")
            await peer.stored("orders", b"3")
            await caught_up(master, slave)
            assert slave.store.max_offset("orders", 0) == 3


async def test_a_slave_that_hears_that_it_fell_behind_connects_anew(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv) as (master, peer),
        slave_of(tmp_path, namesrv) as (slave, _),
    ):
        await peer.stored("orders", b"1")
        await caught_up(master, slave)
        link = slave.part(Master).link
        assert link is not None
        end = slave.store.max_physical_offset
        link.look(MasterLog(end, end))
        assert link.connected
        link.look(MasterLog(end + 1, end + 1))
        await until(lambda: not link.connected)
        await until(lambda: link.connected)
        assert slave.store.max_physical_offset == end, "what the master says when asked counts"


async def test_several_slaves_and_empty_ones_get_everything(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored("orders", b"1")
        async with slave_of(tmp_path, namesrv, 1) as (first, _), slave_of(tmp_path, namesrv, 2) as (second, _):
            await peer.stored("orders", b"2")
            await caught_up(master, first)
            await caught_up(master, second)
            await in_sync(master, 2)
            assert (await ha_status(peer)).in_sync_slave_nums == 2


async def test_the_statuses_of_a_sync_master(tmp_path: Path) -> None:
    # P-17 P-114: what waits for a slave, and how it ends
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", slave_timeout="300") as (master, peer),
    ):
        assert (await peer.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (await peer.send("orders", WAIT="false")).code == ResponseCode.SUCCESS
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            await in_sync(master)
            assert (await peer.send("orders")).code == ResponseCode.SUCCESS
            assert slave.store.max_offset("orders", 0) == 3
        await until(lambda: not master.core.ports.replicas.followers())
        assert master.core.ports.replicas.address is not None
        # a slave that is near, but takes nothing
        reader, writer = await asyncio.open_connection(
            master.core.ports.replicas.address.host, master.core.ports.replicas.address.port
        )
        writer.write(master.store.max_physical_offset.to_bytes(8, "big"))
        await until(lambda: len(master.core.ports.replicas.followers()) == 1)
        answer = await peer.send("orders")
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        writer.close()
        await until(lambda: not master.core.ports.replicas.followers())
        assert (await peer.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert master.store.max_offset("orders", 0) == 5, "all of them are stored"
        del reader


async def test_replicas_wanted_may_be_set(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", in_sync_replicas="1") as (_, peer),
    ):
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", in_sync_replicas="3", enable_auto_in_sync_replicas="true") as (
            _,
            peer,
        ),
    ):
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS


async def test_copies_on_several_slaves_and_with_fewer_of_them(tmp_path: Path) -> None:
    # P-114
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", in_sync_replicas="3", min_in_sync_replicas="2") as (master, peer),
        slave_of(tmp_path, namesrv, 1) as (first, _),
    ):
        await in_sync(master, 1)
        assert (await peer.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE, "one of two slaves is there"
        async with slave_of(tmp_path, namesrv, 2) as (second, _):
            await in_sync(master, 2)
            assert (await peer.send("orders")).code == ResponseCode.SUCCESS
            assert first.store.max_offset("orders", 0) == second.store.max_offset("orders", 0) == 2
        await until(lambda: len(master.core.ports.replicas.followers()) == 1)
        master.config.enable_auto_in_sync_replicas = True
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS, "it may do with one"
        assert first.store.max_offset("orders", 0) == 3
        await first.stop()
        await until(lambda: not master.core.ports.replicas.followers())
        assert (await peer.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE, "but not with none"


async def test_a_slave_that_does_not_read_is_waited_for_and_not_buffered_for(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, mapped_file_size_commit_log=str(8 << 20)) as (master, peer),
    ):
        for _ in range(160):  # more than all buffers on the way can take
            await peer.stored("orders", b"x" * 200_000)
        assert master.core.ports.replicas.address is not None
        with socket.socket() as slave:
            slave.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slave.connect(tuple(master.core.ports.replicas.address))
            slave.sendall(bytes(8))
            await until(lambda: len(master.core.ports.replicas.followers()) == 1)
            (follower,) = master.core.ports.replicas.followers()
            await until(lambda: follower.transferred > WRITE_BUFFER)
            for _ in range(100):
                await peer.stored("orders", b"x")  # others are served meanwhile
            assert follower.transferred < 24 << 20, "of more than 30 MB"
            (session,) = master.core.ports.replicas._sessions
            assert session._transport is not None
            assert session._transport.get_write_buffer_size() < WRITE_BUFFER + BLOCKS_PER_TURN * (32 << 10)


async def test_a_slave_refuses_sends_and_serves_reads_when_the_master_is_gone(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        slave_of(tmp_path, namesrv, slave_read_enable="true") as (slave, reader),
    ):
        async with master_of(tmp_path, namesrv) as (master, peer):
            await peer.stored("orders", b"1")
            await caught_up(master, slave)
            await until(lambda: "orders" in slave.core.topics)
            assert (await reader.send("orders")).code == ResponseCode.SYSTEM_BUSY
            # While the master is there, consumers are sent to it.
            answer = await reader.pull("orders", 1, hold=20_000)
            assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            assert answer.header(PullMessageResponseHeader).suggest_which_broker_id == 0
        link = slave.part(Master).link
        assert link is not None
        await until(lambda: not link.connected)
        assert [message.body for message in await reader.messages("orders")] == [b"1"]
        held = asyncio.create_task(reader.pull("orders", 1, hold=20_000))
        await until(lambda: len(slave.part(Puller).park) == 1)
        # What is not here may be at the master: neither a new offset nor an invitation to ask again at once.
        elsewhere = asyncio.create_task(reader.pull("orders", 50, hold=20_000))
        await until(lambda: len(slave.part(Puller).park) == 2)
        elsewhere.cancel()
        async with master_of(tmp_path, namesrv) as (master, peer):
            await peer.stored("orders", b"2")
            assert (await held).code == ResponseCode.SUCCESS
    assert not held.cancelled()


async def test_reads_of_a_slave_are_off_by_default(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, slave_of(tmp_path, namesrv) as (_, reader):
        assert (await reader.pull("orders")).code == ResponseCode.SYSTEM_BUSY


async def test_tables_come_over(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored("orders", b"1")
        await peer.stored("orders", b"later", DELAY="1")
        header = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=1)
        assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
        master.core.groups.require("g")
        await master.core.tables.modes.put(SetMessageRequestMode(topic="orders", consumer_group="g"))
        await until(lambda: master.store.max_offset("orders", 0) == 2)
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await until(lambda: slave.core.tables.delays.get(1) == 1)
            await until(lambda: "orders" in slave.core.topics and "g" in slave.core.groups)
            assert slave.core.offsets.get("g", "orders", 0) == 1
            assert slave.core.tables.modes.table() == master.core.tables.modes.table()
            assert slave.core.topics.version == master.core.topics.version
            await caught_up(master, slave)
            assert slave.store.max_offset("orders", 0) == 2, "a slave delivers nothing itself"
            await peer.stored("bills", b"1")
            await until(lambda: "bills" in slave.core.topics)


async def test_a_topic_is_known_that_came_while_the_first_tables_were_copied(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        asked = asyncio.Event()

        async def never(_request: Command, _connection: Connection) -> Command:
            asked.set()
            answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
            return await answer

        master.core.ports.handlers[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = never
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await asked.wait()  # topics are copied, the rest is not
            await peer.stored("orders", b"1")
            await caught_up(master, slave)
            slave.core.client.disconnect(master.address, "the master is lost")
            await until(lambda: "orders" in slave.core.topics)


async def test_a_slave_that_was_away_too_long_starts_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        await peer.stored("orders", b"first")
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
        for _ in range(25):
            await peer.stored("orders", b"x" * 100_000)
        master.store.commit_log.files.drop_first()
        assert master.store.min_physical_offset == FILE_SIZE
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            assert slave.store.min_physical_offset == FILE_SIZE
            assert slave.store.max_offset("orders", 0) == 26
            assert slave.store.min_offset("orders", 0) > 1
        assert "away too long" in caplog.text
        async with slave_of(tmp_path, namesrv) as (slave, _):
            assert slave.store.max_offset("orders", 0) == 26


async def test_a_slave_of_another_master_changes_nothing(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        async with master_of(tmp_path, namesrv) as (master, peer), slave_of(tmp_path, namesrv) as (slave, _):
            await peer.stored("orders", b"mine")
            await caught_up(master, slave)
            end = slave.store.max_physical_offset
        async with master_of(tmp_path / "other", namesrv) as (master, peer):
            await peer.stored("orders", b"yours")
            await peer.stored("orders", b"and more")
            async with slave_of(tmp_path, namesrv) as (slave, reader):
                link = slave.part(Master).link
                assert link is not None
                await until(lambda: "Nothing is changed" in str(link.runtime()["haTrouble"]))
                assert slave.store.max_physical_offset == end
                del reader


async def test_looking_at_the_port_costs_nothing(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, ha_housekeeping_interval="200") as (master, peer),
    ):
        address = master.core.ports.replicas.address
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET")
        assert await reader.read() == b"", "a silent connection is closed"
        writer.close()
        assert not master.core.ports.replicas.followers()
        status = await ha_status(peer)
        assert status.ha_connection_info == []
        info = await peer.call(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeBrokerHaInfoHeader())
        assert info.header(ExchangeBrokerHaInfoResponseHeader).master_ha_address == str(address)


async def test_a_slave_that_lies_is_disconnected(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv, "SYNC_MASTER") as (master, peer):
        await peer.send("orders")
        address = master.core.ports.replicas.address
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(master.store.max_physical_offset.to_bytes(8, "big"))
        await until(lambda: len(master.core.ports.replicas.followers()) == 1)
        writer.write((1 << 40).to_bytes(8, "big"))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert (await peer.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_the_port_for_slaves_can_be_chosen(tmp_path: Path) -> None:
    port = free_port()
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, ha_listen_port=str(port)) as (master, peer),
        slave_of(tmp_path, namesrv) as (slave, _),
    ):
        await peer.stored("orders")
        await caught_up(master, slave)
        assert slave.part(Master).link is not None
        assert slave.part(Master).link.address == f"127.0.0.1:{port}"


class FakeMaster:
    """Accepts a slave and answers its first report with what it is told; counts how often the slave came."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.reports: list[int] = []
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.reports.append(int.from_bytes(await reader.readexactly(8), "big"))
            for answer in self.answers:
                writer.write(answer)
            while True:
                self.reports.append(int.from_bytes(await reader.readexactly(8), "big"))


def block(offset: int, data: bytes) -> bytes:
    return BLOCK_HEAD.pack(offset, len(data)) + data


def stored_record(offset: int) -> bytes:
    host = pack_host(Host("10.0.0.1", 10911))
    return pack_record(b"orders", b"body", b"", 0, 0, offset, 1, host, 1, host, 0, 0, 0)


class BadLine(FakeMaster):
    """Sends a sound record, and one that is damaged in another way each time."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sound = stored_record(0)
        damaged = stored_record(len(sound)).replace(b"body", b"%04d" % self.connections)
        self.answers = (block(0, sound[:50]), block(50, sound[50:] + damaged))
        await super()._serve(reader, writer)


async def test_a_damaged_record_is_not_written(tmp_path: Path) -> None:
    sound, master = stored_record(0), BadLine()
    async with master as address, slave_of(tmp_path, "", ha_master_address=address) as (slave, _):
        link = slave.part(Master).link
        assert link is not None
        await until(lambda: "damaged" in str(link.runtime()["haTrouble"]))
        assert slave.store.max_physical_offset in (0, len(sound))
        await until(lambda: master.connections > 2)
        assert slave.store.max_physical_offset <= len(sound)


async def test_a_slave_reports_and_gives_up_a_master_that_is_silent(tmp_path: Path) -> None:
    sound = stored_record(0)
    master = FakeMaster(block(0, sound))
    async with (
        master as address,
        slave_of(
            tmp_path,
            "",
            ha_master_address=address,
            ha_send_heartbeat_interval="50",
            ha_housekeeping_interval="1000",
        ) as (slave, _),
    ):
        link = slave.part(Master).link
        assert link is not None
        await until(lambda: master.reports.count(len(sound)) >= 3)
        assert master.reports[0] == 0
        await until(lambda: "nothing heard" in str(link.runtime()["haTrouble"]))
        assert slave.store.max_offset("orders", 0) == 1


async def test_a_slave_goes_on_at_the_very_beginning_of_its_masters_log(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv) as (master, peer):
        while master.store.max_physical_offset < FILE_SIZE - 150_000:
            await peer.stored("orders", b"x" * 100_000)
        master.store.commit_log.room(200_000)  # the file ends here, before the next message
        assert master.store.max_physical_offset == FILE_SIZE
        master.store.flush()
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await until(lambda: slave.store.max_physical_offset == FILE_SIZE)
        await peer.stored("orders", b"first of the second file")
        master.store.commit_log.files.drop_first()
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await caught_up(master, slave)
            assert slave.store.min_physical_offset == 0, "nothing had to go"
