"""Popping from a real broker: the whole way through sockets, disk, timer and revive topic."""

import asyncio
from pathlib import Path

from pyromq.broker.pop.part import PopPart
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.pop import (
    NotificationHeader,
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
)
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.pops import HOLD, ack, acked, pop, pop_command, pop_until, renew
from tests.integration.broker.servers import Peer, standalone, until
from tests.unit.broker.pop.speaking import Popped, now

QUICK = {"timer_precision_ms": "100"}


async def sent(peer: Peer, *bodies: str, topic: str = "orders", **properties: str) -> None:
    for body in bodies:
        await peer.stored(topic, body.encode(), **properties)


def bodies(popped: list[Popped]) -> list[bytes]:
    return [each.body for each in popped]


async def test_pop_and_acknowledge(tmp_path: Path) -> None:
    async with standalone(tmp_path, **QUICK) as (broker, peer):
        await sent(peer, "a", "b", "c")
        popped = await pop(peer, invisible=2_000)
        assert bodies(popped) == [b"a", b"b", b"c"]
        assert await pop(peer) == []
        await acked(peer, *popped)
        await until(lambda: broker.core.offsets.get("g", "orders", 0) == 3)
        await sent(peer, "d")
        assert bodies(await pop_until(peer, 1)) == [b"d"]
        revive = broker.part(PopPart).log.topic
        queue = popped[0].handle.revive_queue
        await until(lambda: broker.store.max_offset(revive, queue) == 4)
        await until(lambda: broker.core.offsets.get("CID_RMQ_SYS_REVIVE_GROUP", revive, queue) == 3)
        assert "%RETRY%g_orders" not in broker.core.topics, "nothing had to come back"


async def test_unacknowledged_messages_come_back_and_end_as_dead_letters(tmp_path: Path) -> None:
    async with standalone(tmp_path, **QUICK) as (broker, peer):
        await broker.core.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=1))
        await sent(peer, "a", "b", TAGS="t", KEYS="k")
        first, second = await pop(peer, invisible=1_000)
        await acked(peer, second)
        (again,) = await pop_until(peer, 1, invisible=1_000)
        assert (again.body, again.message.topic, again.message.reconsume_times) == (b"a", "orders", 1)
        assert again.message.properties["1ST_POP_TIME"] == str(first.handle.pop_time)
        await until(lambda: broker.store.max_offset("%DLQ%g", 0) == 1)
        (dead,) = await peer.messages("%DLQ%g")
        assert (dead.body, dead.tags, dead.properties["RETRY_TOPIC"]) == (b"a", "t", "orders")
        assert await pop(peer) == []


async def test_a_batch_of_acknowledgements(tmp_path: Path) -> None:
    async with standalone(tmp_path, **QUICK) as (_, peer):
        await sent(peer, *"abcd")
        popped = await pop(peer, invisible=1_000)
        handle = popped[0].handle
        entry = BatchAck(
            bits=ack_bits([0, 1, 3]),
            consumer_group="g",
            invisible_time=handle.invisible_time,
            pop_time=handle.pop_time,
            queue_id=handle.queue_id,
            revive_queue_id=handle.revive_queue,
            start_offset=handle.start_offset,
            topic="orders",
        )
        body = BatchAckBody(acks=[entry], broker_name="broker-a").encode()
        assert (await peer.call(RequestCode.BATCH_ACK_MESSAGE, body=body)).code == ResponseCode.SUCCESS
        assert (await peer.call(RequestCode.BATCH_ACK_MESSAGE)).code == ResponseCode.NO_MESSAGE
        assert bodies(await pop_until(peer, 1)) == [b"c"]


async def test_renewing_the_invisible_time(tmp_path: Path) -> None:
    async with standalone(tmp_path, **QUICK) as (_, peer):
        await sent(peer, "a")
        (popped,) = await pop(peer, invisible=1_000)
        renewed = await renew(peer, popped, 3_000)
        (again,) = await pop_until(peer, 1)
        assert again.message.store_timestamp >= renewed.handle.due
        assert again.message.reconsume_times == 1
        (last,) = [await renew(peer, again, 60_000)]
        await acked(peer, last)


async def test_filters(tmp_path: Path) -> None:
    async with standalone(tmp_path, enable_property_filter="true") as (_, peer):
        for price, tag in (("5", "x"), ("15", "y"), ("25", "z")):
            await sent(peer, price, TAGS=tag, price=price)
        assert bodies(await pop(peer, group="g1", tags="x || z")) == [b"5", b"25"]
        assert bodies(await pop(peer, group="g2", sql="price > 10 AND TAGS <> 'z'")) == [b"15"]
        bad = await pop_command(peer, group="g3", sql="price >")
        assert bad.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_ordered_pops(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await sent(peer, *"abc")
        first, second = await pop(peer, order=True, count=2, attempt="1")
        assert await pop(peer, order=True) == []
        waiting = asyncio.create_task(pop_until(peer, 1, order=True))
        await until(lambda: len(broker.part(PopPart).park) == 1)
        await acked(peer, first, second)
        assert bodies(await waiting) == [b"c"]
    async with standalone(tmp_path) as (broker, peer):
        assert await pop(peer, order=True) == [], "still blocked after a restart"
        assert broker.core.offsets.get("g", "orders", 0) == 2


async def test_held_pops_and_questions(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer), Peer(peer.address) as other:
        await sent(peer, "first")
        await acked(peer, *await pop(peer))
        await acked(peer, *await pop(peer, group="other"))
        question = NotificationHeader(
            consumer_group="other", topic="orders", queue_id=-1, poll_time=HOLD, born_time=now()
        )
        asked = asyncio.create_task(other.call(RequestCode.NOTIFICATION, question))
        waiting = asyncio.create_task(pop_command(peer, hold=HOLD))
        await until(lambda: len(broker.part(PopPart).park) == len(broker.part(PopPart).questions) == 1)
        info = PollingInfoHeader(consumer_group="g", topic="orders", queue_id=-1)
        answer = await other.call(RequestCode.POLLING_INFO, info)
        assert answer.header(PollingInfoResponseHeader).polling_num == 1
        await other.stored("orders", b"second")
        assert [message.body for message in decode_records((await waiting).body)] == [b"second"]
        assert (await asked).header(NotificationResponseHeader).has_msg
        short = await pop_command(peer, hold=200)
        assert short.code == ResponseCode.POLLING_TIMEOUT
        late = await pop_command(peer, hold=1_000, born=now() - 2_000)
        assert late.code == ResponseCode.POLLING_TIMEOUT


async def test_a_stop_answers_those_who_wait(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await sent(peer, "a")
        await acked(peer, *await pop(peer))
        waiting = asyncio.create_task(pop_command(peer, hold=HOLD))
        await until(lambda: len(broker.part(PopPart).park) == 1)
        await broker.part(PopPart).stop()
        assert (await waiting).code == ResponseCode.POLLING_TIMEOUT


async def test_a_restart_in_order_repeats_nothing(tmp_path: Path) -> None:
    for merge in ("false", "true"):
        settings = QUICK | {"enable_pop_buffer_merge": merge}
        path = tmp_path / merge
        async with standalone(path, **settings) as (_, peer):
            await sent(peer, *"abcd")
            popped = await pop(peer, count=3, invisible=4_000)
            await acked(peer, popped[0])
        async with standalone(path, **settings) as (_, peer):
            assert bodies(await pop(peer)) == [b"d"]
            await acked(peer, popped[1])
            assert bodies(await pop_until(peer, 1)) == [b"c"]


async def test_many_consumers_share_a_topic(tmp_path: Path) -> None:
    async with standalone(tmp_path, flush_disk_type="ASYNC_FLUSH") as (broker, peer), Peer(peer.address) as other:
        await broker.core.topics.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4))
        expected = {str(number).encode() for number in range(200)}
        got: list[bytes] = []

        async def consume(member: Peer) -> None:
            while len(got) < len(expected):
                for each in await pop(member, count=7, hold=2_000):
                    got.append(each.body)
                    await acked(member, each)

        async with asyncio.TaskGroup() as tasks:
            for member in (peer, other):
                for _ in range(3):
                    tasks.create_task(consume(member))
            for number in range(200):
                await peer.send("orders", str(number).encode(), queue=number % 4)
        assert set(got) == expected
        assert len(got) == 200, "each message went to one of them"
        table = KVTable.decode((await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert table["popHeld"] == "0"
        await until(lambda: all(broker.core.offsets.get("g", "orders", queue) == 50 for queue in range(4)))


async def test_refused_acknowledgements(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await sent(peer, "a")
        (popped,) = await pop(peer)
        await broker.core.topics.delete("orders")
        assert (await ack(peer, popped)).code == ResponseCode.TOPIC_NOT_EXIST
