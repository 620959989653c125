"""A slave that acts for its master, and the master that takes over when it is back."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.broker import Broker
from pyromq.broker.cluster.members import Members
from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.pop.part import PopPart
from pyromq.broker.replication.succession.actingmaster import ActingMaster
from pyromq.broker.transaction.transactions import Transactions
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.namesrv import (
    GetRouteInfoByTopicHeader,
    NotifyMinBrokerIdChangeHeader,
    RegisterBrokerHeader,
)
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader, EndTransactionHeader
from tests.integration.broker.pops import acked, pop, pop_command
from tests.integration.broker.servers import Peer, until

ACTING = {
    "enable_slave_acting_master": "true",
    "enable_remote_escape": "true",
    "sync_broker_member_group_period": "100",
    "mapped_file_size_commit_log": str(1 << 20),
    "message_delay_level": "1s 10s",
}


@dataclass
class Group:
    """Brokers of one cluster in this process, each of which can be stopped and started again."""

    path: Path
    namesrv: str
    running: dict[str, Broker] = field(default_factory=dict)

    async def start(self, name: str, number: int = 0, role: str = "ASYNC_MASTER", **settings: str) -> Broker:
        key = f"{name}{number}"
        flags = {
            "listen_port": "0",
            "broker_name": name,
            "broker_id": str(number),
            "broker_role": "SLAVE" if number else role,
            "namesrv_addr": self.namesrv,
            "store_path_root_dir": str(self.path / key),
        }
        broker = self.running[key] = Broker(BrokerConfig.load(flags=flags | ACTING | settings))
        await broker.start()
        return broker

    async def stop(self, broker: Broker) -> None:
        self.running = {key: each for key, each in self.running.items() if each is not broker}
        await broker.stop()


@asynccontextmanager
async def group(path: Path) -> AsyncIterator[Group]:
    server = NameServer(NamesrvConfig(listen_port=0, kv_config_path=path / "kvConfig.json", support_acting_master=True))
    await server.start()
    brokers = Group(path, server.address)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        try:
            yield brokers
        finally:
            for broker in list(brokers.running.values()):
                await broker.stop()


async def caught_up(master: Broker, slave: Broker) -> None:
    await until(
        lambda: slave.store.progress.confirmed == slave.store.progress.dispatched == master.store.max_physical_offset
    )


async def known(slave: Broker, *topics: str) -> None:
    """Wait until the slave has the topics and groups of its master, and knows how far that was with its work."""
    await until(
        lambda: slave.part(TimerDelivery).knows_its_place and all(topic in slave.core.topics for topic in topics)
    )


async def committed(peer: Peer, topic: str, group: str = "g") -> int:
    header = QueryConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=0)
    answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
    return answer.header(QueryConsumerOffsetResponseHeader).offset if answer.code == ResponseCode.SUCCESS else -1


async def commit(peer: Peer, topic: str, offset: int, group: str = "g") -> None:
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=0, commit_offset=offset)
    assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS


async def route(peer: Peer, topic: str) -> TopicRouteData:
    answer = await peer.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))
    return TopicRouteData.decode(answer.body)


async def test_consumers_go_on_at_the_slave_and_the_master_takes_over_their_offsets(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        async with Peer(master.address) as peer, Peer(slave.address) as reader, Peer(brokers.namesrv) as namesrv:
            for number in range(10):
                await peer.stored("orders", b"%d" % number)
            await commit(peer, "orders", 3)
            await caught_up(master, slave)
            await known(slave, "orders")
            assert not slave.core.role.acting
            assert (await reader.pull("orders")).code == ResponseCode.SYSTEM_BUSY, "while there is a master"
            await brokers.stop(master)
            await until(lambda: slave.core.role.acting)
            shown = await route(namesrv, "orders")
            assert shown.broker_datas[0].broker_addrs[0] == slave.address, "it is shown as the master"
            assert shown.queue_datas[0].perm == 4, "and takes no messages"
            assert (await reader.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
            found = await reader.messages("orders", 3)
            assert [message.body for message in found] == [b"%d" % number for number in range(3, 10)]
            await commit(reader, "orders", 8)
        master = await brokers.start("broker-a")
        assert master.core.offsets.get("g", "orders", 0) == 8, "before it serves anybody"
        async with Peer(master.address) as peer, Peer(brokers.namesrv) as namesrv:
            await until(lambda: not slave.core.role.acting)
            shown = await route(namesrv, "orders")
            assert shown.broker_datas[0].broker_addrs == {0: master.address, 1: slave.address}
            assert shown.queue_datas[0].perm == 6
            await peer.stored("orders", b"10")
            await caught_up(master, slave)


async def test_a_commit_that_comes_late_to_the_slave_reaches_the_master(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        async with Peer(master.address) as peer, Peer(slave.address) as late:
            for number in range(5):
                await peer.stored("orders", b"%d" % number)
            await commit(peer, "orders", 1)
            await caught_up(master, slave)
            await known(slave, "orders")
            # Its route is out of date: it takes the slave for its master.
            await commit(late, "orders", 4)
            await until(lambda: master.core.offsets.get("g", "orders", 0) == 4)
            assert slave.core.offsets.get("g", "orders", 0) == 4
            await commit(peer, "orders", 5)
            await commit(late, "orders", 2)
            await until(lambda: not slave.core.offsets.unshared)
            await until(lambda: slave.core.offsets.get("g", "orders", 0) == 5)
            assert await committed(peer, "orders") == 5, "what is further on stays"


async def test_the_master_takes_no_offset_beyond_its_own_log(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        async with Peer(master.address) as peer, Peer(slave.address) as reader:
            await peer.stored("orders", b"0")
            await caught_up(master, slave)
            await known(slave, "orders")
            await brokers.stop(master)
            await until(lambda: slave.core.role.acting)
            await commit(reader, "orders", 1_000)
        master = await brokers.start("broker-a")
        assert master.core.offsets.get("g", "orders", 0) == 1


async def test_a_slave_that_does_not_answer_does_not_keep_the_master_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with group(tmp_path) as brokers, Peer(brokers.namesrv) as namesrv:
        with socket.create_server(("127.0.0.1", 0)) as door:
            gone = f"127.0.0.1:{door.getsockname()[1]}"
        header = RegisterBrokerHeader(
            broker_name="broker-a",
            broker_addr=gone,
            cluster_name="DefaultCluster",
            ha_server_addr=gone,
            broker_id=1,
            enable_acting_master=True,
        )
        body = RegisterBrokerBody().encode()
        assert (await namesrv.call(RequestCode.REGISTER_BROKER, header, body=body)).code == ResponseCode.SUCCESS
        master = await brokers.start("broker-a")
        assert "cannot be asked" in caplog.text
        async with Peer(master.address) as peer:
            await peer.stored("orders")


async def test_delayed_and_timed_messages_go_to_another_master(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        other = await brokers.start("broker-b")
        async with Peer(master.address) as peer, Peer(other.address) as second:
            await second.stored("orders", b"there")
            await peer.stored("orders", b"here")
            due = master.clock() + 10_000
            await peer.stored("orders", b"delayed", DELAY="2")
            await peer.stored("orders", b"timed", TIMER_DELIVER_MS=str(due))
            await until(lambda: master.part(TimerDelivery).queue.offset == 1)
            await caught_up(master, slave)
            await known(slave, "orders")
            # The timer's state has come over: the master has saved it, and this slave has entered the same.
            await until(lambda: slave.part(TimerDelivery).queue.offset == 1)
            await brokers.stop(master)
            await until(lambda: slave.core.role.working)
            await until(lambda: slave.part(ActingMaster).escape.sent >= 2)
            bodies = {
                bytes(message.body) for queue in range(8) for message in await second.messages("orders", queue=queue)
            }
            assert bodies == {b"there", b"delayed", b"timed"}
            assert other.clock() >= due - 1_000
        await until(lambda: slave.core.tables.delays.get(2) == 1 and slave.part(TimerDelivery).read_time > due - 1_000)
        await slave.part(TimerDelivery).save()
        master = await brokers.start("broker-a")
        await until(lambda: master.part(TimerDelivery).read_time > due)
        assert master.core.tables.delays.get(2) == 1
        assert sum(master.store.max_offset("orders", queue) for queue in range(8)) == 1, "nothing is delivered twice"
        await until(lambda: not slave.core.role.working)


async def test_a_retry_goes_to_another_master(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        other = await brokers.start("broker-b")
        async with Peer(master.address) as peer, Peer(slave.address) as reader:
            await peer.stored("orders", b"hard")
            await master.core.groups.put(SubscriptionGroupConfig(group_name="g"))
            await caught_up(master, slave)
            await known(slave, "orders")
            (message,) = await peer.messages("orders")
            header = ConsumerSendMsgBackHeader(offset=message.physical_offset, group="g", delay_level=1)
            answer = await reader.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            assert answer.code == ResponseCode.SYSTEM_ERROR, "not while there is a master"
            await brokers.stop(master)
            await until(lambda: slave.core.role.working)
            answer = await reader.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            await until(lambda: other.store.max_offset("%RETRY%g", 0) == 1)
        async with Peer(other.address) as second:
            (again,) = await second.messages("%RETRY%g")
            assert (again.body, again.reconsume_times) == (b"hard", 1)
            assert again.properties["RETRY_TOPIC"] == "orders"


async def test_a_half_message_goes_to_another_master_which_asks_its_producer(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a", transaction_time_out="1000")
        slave = await brokers.start("broker-a", 1, transaction_time_out="1000")
        other = await brokers.start("broker-b", transaction_time_out="1000")
        async with (
            Peer(master.address) as peer,
            Peer(other.address, notes=(RequestCode.CHECK_TRANSACTION_STATE,)) as producer,
        ):
            await producer.heartbeat("p1", producer="p")
            await producer.stored("orders", b"there")
            await peer.stored("orders", b"here")
            await peer.stored("orders", b"open", TRAN_MSG="true", PGROUP="p")
            await caught_up(master, slave)
            await known(slave, "orders")
            await brokers.stop(master)
            check = await producer.received.get()
            header = check.header(CheckTransactionStateHeader)
            end = EndTransactionHeader(
                producer_group="p",
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=8,
                msg_id=header.msg_id or "",
                from_transaction_check=True,
            )
            assert (await producer.call(RequestCode.END_TRANSACTION, end)).code == ResponseCode.SUCCESS
            bodies = {bytes(m.body) for queue in range(8) for m in await producer.messages("orders", queue=queue)}
            assert bodies == {b"there", b"open"}
        await until(lambda: slave.core.offsets.get(names.TRANSACTION_GROUP, names.TRANS_HALF_TOPIC, 0) == 1)
        master = await brokers.start("broker-a", transaction_time_out="1000")
        assert not master.part(Transactions).halves.counts(), "the other master has it now"


async def test_what_was_popped_and_not_acknowledged_comes_back_through_another_master(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        other = await brokers.start("broker-b")
        async with Peer(master.address) as peer:
            for body in (b"done", b"dropped", b"done late"):
                await peer.stored("orders", body)
            popped = [(await pop(peer, "orders", "g", invisible=12_000, count=1))[0] for _ in range(3)]
            assert [each.body for each in popped] == [b"done", b"dropped", b"done late"]
            await acked(peer, popped[0])
            await until(lambda: master.part(TimerDelivery).queue.offset == 4)
            await caught_up(master, slave)
            await known(slave, "orders")
            await until(lambda: slave.part(TimerDelivery).queue.offset == 4 and "g" in slave.core.groups)
            await brokers.stop(master)
        async with Peer(slave.address) as reader:
            await until(lambda: slave.core.role.working)
            await acked(reader, popped[2])
            assert (await pop_command(reader)).code == ResponseCode.SYSTEM_BUSY, "nothing new is given out"
        retry = names.pop_retry_topic("g", "orders", plus=False)
        await until(lambda: other.store.max_offset(retry, 0) >= 1)
        await until(lambda: not slave.part(PopPart).revive.waiting)
        async with Peer(other.address) as second:
            assert [bytes(message.body) for message in await second.messages(retry)] == [b"dropped"]


async def test_ordered_pops_under_way_are_known_to_the_slave(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1)
        async with Peer(master.address) as peer:
            await peer.stored("orders", b"1")
            assert await pop(peer, "orders", "g", order=True, queue=0)
            until_then = master.core.tables.batches.blocked_until("orders", "g", 0)
            assert until_then is not None
            await until(lambda: slave.core.tables.batches.blocked_until("orders", "g", 0) == until_then)


async def test_only_the_slave_with_the_smallest_id_acts(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a")
        first = await brokers.start("broker-a", 1)
        second = await brokers.start("broker-a", 2)
        async with Peer(master.address) as peer:
            await peer.stored("orders", b"1")
            await caught_up(master, first)
            await caught_up(master, second)
        await brokers.stop(master)
        await until(lambda: first.core.role.acting)
        assert not second.core.role.acting
        await brokers.stop(first)
        await until(lambda: second.core.role.acting)
        first = await brokers.start("broker-a", 1)
        await until(lambda: first.core.role.acting and not second.core.role.acting)


async def test_a_notification_is_looked_into_and_not_believed(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        await brokers.start("broker-a")
        slave = await brokers.start("broker-a", 1, sync_broker_member_group_period="600000")
        await until(lambda: slave.part(Members).smallest == 0)
        async with Peer(slave.address) as peer:
            header = NotifyMinBrokerIdChangeHeader(
                min_broker_id=1, broker_name="broker-a", min_broker_addr=slave.address
            )
            slave.part(Members).addresses = {}
            assert (await peer.call(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)).code == ResponseCode.SUCCESS
            await until(lambda: slave.part(Members).smallest == 0)
            assert not slave.core.role.acting


def figure(broker: Broker, name: str) -> float:
    """One figure of a broker's metrics, whatever its labels."""
    lines = BrokerMetrics(broker.core, broker.parts).page().decode().splitlines()
    (value,) = [line.rpartition(" ")[2] for line in lines if line.startswith((name + "{", name + " "))]
    return float(value)


async def test_metrics_tell_how_replication_goes(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a", role="SYNC_MASTER")
        slave = await brokers.start("broker-a", 1)
        await until(lambda: len(master.core.ports.replicas.followers()) == 1)
        async with Peer(master.address) as peer:
            await peer.stored("orders")
        assert figure(master, "pyromq_ha_slaves") == figure(master, "pyromq_ha_slaves_in_sync") == 1
        assert figure(master, "pyromq_ha_slave_lag_bytes") == 0
        assert figure(master, "pyromq_ha_waits_total") == 1
        assert figure(slave, "pyromq_ha_following") == 1
        assert figure(slave, "pyromq_ha_acting") == 0
        await brokers.stop(master)
        await until(lambda: slave.core.role.acting and figure(slave, "pyromq_ha_following") == 0)
        assert figure(slave, "pyromq_ha_acting") == 1
        assert figure(slave, "pyromq_ha_escaped_messages_total") == 0


async def test_without_enough_slaves_a_sync_master_stores_nothing(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start("broker-a", role="SYNC_MASTER")
        async with Peer(master.address) as peer:
            answer = await peer.send("orders")
            assert (answer.code, master.store.max_offset("orders", 0)) == (ResponseCode.SYSTEM_ERROR, 0)
            assert "IN_SYNC_REPLICAS_NOT_ENOUGH" in (answer.remark or "")
            slave = await brokers.start("broker-a", 1)
            await until(lambda: len(master.core.ports.replicas.followers()) == 1)
            await peer.stored("orders")
            await asyncio.sleep(0)
            assert slave.store.max_offset("orders", 0) == 1
