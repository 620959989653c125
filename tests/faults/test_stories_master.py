"""Stories of lost masters: what was acknowledged, delayed or configured is still there afterwards."""

import asyncio
import signal
from pathlib import Path

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.message import ReceivedMessage
from tests import processes
from tests.faults.masters import QUICK, follows, pair, until
from tests.integration.broker.servers import Peer

DELAY_LEVEL, DELAY_MS = "3", 10_000


async def everything(peer: Peer, topic: str, queues: int = 1) -> list[ReceivedMessage]:
    """All messages of a topic."""
    found: list[ReceivedMessage] = []
    for queue in range(queues):
        offset = 0
        while page := await peer.messages(topic, offset, queue=queue):
            found += page
            offset += len(page)
    return found


async def test_an_isolated_sync_master_does_not_acknowledge_what_no_replica_has(tmp_path: Path) -> None:
    # P-114
    async with pair(tmp_path, "SYNC_MASTER", "--slave-timeout", "500") as servers:
        acknowledged: set[bytes] = set()
        answers: list[int] = []
        async with Peer(servers.master["broker"]) as peer:

            async def send(body: bytes) -> None:
                answer = await peer.send("orders", body)
                answers.append(answer.code)
                if answer.code == ResponseCode.SUCCESS:
                    acknowledged.add(body)

            for number in range(20):
                await send(b"both %d" % number)
            assert len(acknowledged) == 20
            servers.slave.signal(signal.SIGSTOP)  # it is connected, and out of reach
            for number in range(3):
                await send(b"frozen %d" % number)
            assert answers[20:] == [ResponseCode.FLUSH_SLAVE_TIMEOUT] * 3
            await asyncio.to_thread(servers.slave.kill)

            async def alone() -> bool:
                return (await peer.send("orders", b"probe")).code == ResponseCode.SLAVE_NOT_AVAILABLE

            await until(alone)
            await send(b"alone")
            assert answers[-1] == ResponseCode.SLAVE_NOT_AVAILABLE
        await servers.lose_master()
        survivor = await servers.promote_slave()
        async with Peer(survivor["broker"]) as peer:
            assert acknowledged <= {bytes(message.body) for message in await everything(peer, "orders")}


async def test_delayed_messages_survive_the_loss_of_the_master(tmp_path: Path) -> None:
    async with pair(tmp_path) as servers:
        async with Peer(servers.master["broker"]) as peer:
            await peer.stored("orders", b"at once")
            sent = await peer.stored("orders", b"delayed", DELAY=DELAY_LEVEL)
            assert sent.queue_offset == 0
            await peer.stored("orders", b"timed", TIMER_DELAY_MS=str(DELAY_MS))
            await until(lambda: follows(peer))
        await servers.lose_master()
        survivor = await servers.promote_slave()
        async with Peer(survivor["broker"]) as peer:

            async def all_there() -> bool:
                return {b"delayed", b"timed"} <= {bytes(each.body) for each in await everything(peer, "orders")}

            await until(all_there)
            found = await everything(peer, "orders")
            assert found[0].body == b"at once"
            for message in found[1:]:
                waited = message.store_timestamp - found[0].store_timestamp
                assert waited >= DELAY_MS - 1, "never early"  # the timer's slots end a millisecond before the time
            assert len(found) == 3, "the master was lost before it delivered anything"


async def test_topics_groups_and_offsets_survive_a_switch(tmp_path: Path) -> None:
    async with pair(tmp_path) as servers:
        async with Peer(servers.master["broker"]) as peer:
            header = UpdateAndCreateTopicHeader(
                topic="narrow",
                default_topic="TBW102",
                read_queue_nums=3,
                write_queue_nums=2,
                perm=6,
                order=False,
                topic_filter_type="SINGLE_TAG",
            )
            assert (await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
            group = SubscriptionGroupConfig(group_name="careful", retry_max_times=7)
            await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
            await peer.stored("narrow", b"1")
            commit = UpdateConsumerOffsetHeader(consumer_group="careful", topic="narrow", queue_id=0, commit_offset=1)
            assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        query = QueryConsumerOffsetHeader(
            consumer_group="careful", topic="narrow", queue_id=0, set_zero_if_not_found=False
        )
        async with Peer(servers.slave["broker"]) as slave:

            async def copied() -> bool:
                return (await slave.call(RequestCode.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.SUCCESS

            await until(copied)
        await servers.lose_master()
        survivor = await servers.promote_slave()
        async with Peer(survivor["broker"]) as peer:
            answer = await peer.send("narrow", queue=3)
            assert answer.code == ResponseCode.INVALID_PARAMETER, "it still has three queues"
            table = bytes((await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
            assert b'"retryMaxTimes":7' in table.replace(b" ", b"")
            answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, query)
            assert answer.header(QueryConsumerOffsetResponseHeader).offset == 1
            await peer.stored("narrow", b"2")
            assert [bytes(each.body) for each in await everything(peer, "narrow")] == [b"1", b"2"]


async def test_an_old_master_is_no_copy_of_a_new_one_that_is_paused_when_it_joins(tmp_path: Path) -> None:
    async with pair(tmp_path, "SYNC_MASTER", "--slave-timeout", "500") as servers:
        async with Peer(servers.master["broker"]) as peer:
            for _ in range(10):
                await peer.stored("orders", b"x" * 1000)
            await until(lambda: follows(peer))
            await asyncio.to_thread(servers.slave.terminate)
            for _ in range(20):
                await peer.send("orders", b"x" * 1000)  # which nobody else has
        await asyncio.to_thread(servers.master.kill)
        promoted = processes.broker(
            tmp_path / "slave", "--broker-role", "SYNC_MASTER", *QUICK, name_servers=servers.names["namesrv"]
        )
        await asyncio.to_thread(servers.stack.enter_context, promoted)
        async with Peer(promoted["broker"]) as peer:
            for _ in range(40):
                await peer.send("orders", b"x" * 1000)
            promoted.signal(signal.SIGSTOP)
            old = processes.broker(
                tmp_path / "master",
                *("--broker-role", "SLAVE", "--broker-id", "1", *QUICK),
                name_servers=servers.names["namesrv"],
            )
            await asyncio.to_thread(servers.stack.enter_context, old)
            async with Peer(old["broker"]) as slave:

                async def says(text: str) -> bool:
                    answer = await slave.call(RequestCode.GET_BROKER_RUNTIME_INFO)
                    return text in str(KVTable.decode(answer.body).table["haTrouble"])

                await until(lambda: says("no verdict"))
                promoted.signal(signal.SIGCONT)
                await until(lambda: says("Nothing is changed"))
            assert (await peer.send("orders", b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
