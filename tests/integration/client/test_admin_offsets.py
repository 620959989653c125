"""Administration of offsets: lag, resets, clones, on two brokers."""

import time
from pathlib import Path

import pytest

from pyromq.aio import Admin, BrokerError, ClientError, Message, MessageQueue, Producer, PushConsumer
from pyromq.protocol.codes import ResponseCode
from tests.integration.client.clusters import Cluster, cluster, standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
B0, B1 = MessageQueue("orders", "broker-b", 0), MessageQueue("orders", "broker-b", 1)


async def filled(running: Cluster, admin: Admin, each: int = 5) -> None:
    """Topic `orders` with two queues on each broker and so many messages in each."""
    await admin.create_topic("orders", queues=2)
    await admin.create_group("billing")
    await running.routed("orders", 2)
    async with Producer("pg", namesrv=running.namesrv) as producer:
        for queue in (A0, A1, B0, B1):
            for number in range(each):
                await producer.send(Message("orders", b"%d" % number, keys=[f"k{number}"]), queue=queue)


async def test_lag_is_a_table_in_which_unknown_stays_unknown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await filled(running, admin)
        await admin.update_offset("billing", A0, 3)
        await admin.update_offset("billing", A1, 0)
        await admin.update_offset("billing", B0, 5)
        lag = await admin.lag("billing", "orders")
        assert [(row.queue, row.consumer_offset, row.lag) for row in lag.queues] == [
            (A0, 3, 2),
            (A1, 0, 5),
            (B0, 5, 0),
            (B1, None, None),
        ]
        assert lag.total is None
        assert lag.known_total == 7
        assert lag.topics() == {"orders": None}
        assert lag.queues[0].last_consumed_ms is not None
        await admin.update_offset("billing", B1, 4)
        everything = await admin.lag("billing")
        assert everything.total == 8
        assert everything.topics() == {"orders": 8}
        assert await admin.topics_of_group("billing") == ["orders"]
        assert await admin.consumer_offset("billing", A0) == 3
        assert await admin.consumer_offset("stranger", A0) is None


async def test_lag_of_a_broker_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, timeout=10) as admin:
        await filled(running, admin)
        for queue in (A0, A1, B0, B1):
            await admin.update_offset("billing", queue, 5)
        assert (await admin.lag("billing", "orders")).total == 0
        await running.brokers["broker-b"].core.ports.server.stop(0)
        lag = await admin.lag("billing", "orders")
        assert [(row.queue, row.lag) for row in lag.queues] == [(A0, 0), (A1, 0), (B0, None), (B1, None)]
        assert list(lag.failed) == ["broker-b"]
        assert lag.total is None
        assert (await admin.lag("billing")).total is None


async def test_a_group_is_reset_by_time_on_all_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await filled(running, admin)
        for queue in (A0, A1, B0, B1):
            await admin.update_offset("billing", queue, 5)
        assert await admin.reset_offsets("billing", "orders", 0) == dict.fromkeys((A0, A1, B0, B1), 0)
        assert await admin.skip_accumulated("billing", "orders") == dict.fromkeys((A0, A1, B0, B1), 5)
        assert await admin.reset_offset("billing", B1, 2) == {B1: 2}
        with pytest.raises(BrokerError, match="9"):
            await admin.reset_offset("billing", B1, 9)
        with pytest.raises(ClientError) as missing:
            await admin.reset_offsets("nobody", "orders", 0)
        assert missing.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_without_an_online_consumer_the_stored_offsets_are_reset(tmp_path: Path) -> None:
    """A broker that resets through its consumers says that none is online; then the stored offsets move."""
    async with (
        standalone(tmp_path, use_server_side_reset_offset="false") as server,
        Admin(namesrv=server.namesrv_address) as admin,
    ):
        await admin.create_topic("orders", queues=2)
        await admin.create_group("billing")
        assert server.broker is not None
        await eventually(lambda: "orders" in server.name_server.routes.topics.names())
        async with Producer("pg", namesrv=server.namesrv_address) as producer:
            for number in range(4):
                await producer.send(Message("orders", b"%d" % number), queue=A0)
        await admin.update_offset("billing", A0, 2)
        assert await admin.skip_accumulated("billing", "orders", force=False) == {A1: 0}
        assert await admin.consumer_offset("billing", A0) == 2
        assert await admin.reset_offsets("billing", "orders", 0, force=False) == {A0: 0, A1: 0}
        assert await admin.consumer_offset("billing", A0) == 0
        assert await admin.skip_accumulated("billing", "orders") == {A0: 4, A1: 0}
        assert await admin.consumer_offset("billing", A0) == 4


async def test_offsets_are_cloned_and_compared(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await filled(running, admin)
        await admin.create_group("copy")
        for queue, offset in ((A0, 1), (A1, 2), (B0, 3), (B1, 4)):
            await admin.update_offset("billing", queue, offset)
        await admin.clone_offsets("billing", "copy", "orders")
        assert [row.consumer_offset for row in (await admin.lag("copy", "orders")).queues] == [1, 2, 3, 4]
        await admin.update_offset("copy", A0, 5)
        assert (await admin.correction_offsets("orders", "billing"))[A0] == 1
        assert (await admin.correction_offsets("orders", "billing", without=["billing"]))[A0] == 5
        assert await admin.groups_of_topic("orders") == ["billing", "copy"]
        stats = await admin.broker_consume_stats("broker-a")
        shown = {name: part for table in stats.consume_stats_list for name, parts in table.items() for part in parts}
        waiting = [row.broker_offset - row.consumer_offset for row in shown["copy"].offset_table.values()]
        assert waiting == [5 - 5, 5 - 2]
        assert stats.total_diff >= sum(waiting)
        progress = await admin.consume_stats("billing")
        assert [row.consumer_offset for row in progress.offset_table.values()] == [1, 2, 3, 4]


async def test_times_and_offsets_of_queues(tmp_path: Path) -> None:
    # P-10 S-11
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        before = time.time_ns() // 1_000_000
        await filled(running, admin, each=3)
        await admin.update_offset("billing", A0, 1)
        assert await admin.queues("orders") == [A0, A1, B0, B1]
        assert (await admin.min_offset(B1), await admin.max_offset(B1)) == (0, 3)
        assert await admin.search_offset(A0, before - 1) == 0
        assert await admin.search_offset(A0, before + 3_600_000) == 3
        assert await admin.earliest_store_time(A0) >= before
        spans = await admin.consume_time_spans("billing", "orders")
        assert [span.message_queue for span in spans] == [A0, A1, B0, B1]
        assert all(before <= span.min_time_stamp <= span.max_time_stamp for span in spans)


async def test_a_running_consumer_is_told_where_to_go_on(tmp_path: Path) -> None:
    """By a broker that resets through its consumers: the others wait for the next pull, which may be 15 s away."""
    async with (
        standalone(tmp_path, use_server_side_reset_offset="false") as server,
        Admin(namesrv=server.namesrv_address) as admin,
        Producer("pg", namesrv=server.namesrv_address) as producer,
    ):
        await admin.create_topic("orders", queues=2)
        await eventually(lambda: "orders" in server.name_server.routes.topics.names())
        for queue in (A0, A1):
            await producer.send(Message("orders", b"%d" % queue.queue_id), queue=queue)
        consumer = PushConsumer("billing", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("orders")
        inbox = Inbox()
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(2)
            while (await admin.lag("billing", "orders")).total != 0:
                await consumer._member.persist_offsets()
            assert await admin.reset_offsets("billing", "orders", 0) == {A0: 0, A1: 0}
            await inbox.until(lambda box: len(box.messages) == 4)
        assert inbox.bodies == {b"0": 2, b"1": 2}
