"""Pulling from a real broker: what is found, what waits, what is refused."""

import asyncio
from pathlib import Path

from pyromq.broker.consume.pull import Puller
from pyromq.protocol.bodies.clients import ConsumerData, SubscriptionData
from pyromq.protocol.bodies.enums import MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    PullMessageResponseHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.servers import Peer, consumer_of, standalone, until

FOREVER = 60_000
"""Longer than any test; only an arrival ends such a pull."""


async def test_every_answer_carries_the_four_offsets(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for n in range(3):
            await peer.stored("orders", f"m{n}".encode())
        cases = [
            (0, 0, ResponseCode.SUCCESS, 3),
            (0, 3, ResponseCode.PULL_NOT_FOUND, 3),
            (0, 9, ResponseCode.PULL_OFFSET_MOVED, 3),
            (0, -1, ResponseCode.PULL_OFFSET_MOVED, 0),
            (1, 0, ResponseCode.PULL_NOT_FOUND, 0),
            (1, 5, ResponseCode.PULL_OFFSET_MOVED, 0),
        ]
        for queue, offset, code, following in cases:
            answer = await peer.pull("orders", offset, queue=queue)
            header = answer.header(PullMessageResponseHeader)
            assert (answer.code, header.next_begin_offset) == (code, following), (queue, offset)
            assert (header.min_offset, header.suggest_which_broker_id) == (0, 0)
            assert header.max_offset == (3 if queue == 0 else 0)


async def test_tags_are_filtered_by_the_broker(tmp_path: Path) -> None:
    # F-01
    async with standalone(tmp_path) as (_, peer):
        for tag in ("a", "b", "c", "a"):
            await peer.stored("orders", tag.encode(), TAGS=tag)
        found = await peer.pull("orders", tags="a || c")
        assert [message.body for message in decode_records(found.body)] == [b"a", b"c", b"a"]
        none = await peer.pull("orders", tags="z")
        assert none.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert none.header(PullMessageResponseHeader).next_begin_offset == 4


async def test_a_pull_waits_for_an_arrival_that_matches(tmp_path: Path) -> None:
    # C-02
    async with standalone(tmp_path) as (broker, peer), Peer(broker.address) as other:
        await peer.stored("orders", TAGS="b")

        async def wanted() -> Command:
            offset = 1
            while True:
                answer = await other.pull("orders", offset, hold=FOREVER, tags="a")
                if answer.code == ResponseCode.SUCCESS:
                    return answer
                # Now and then a held pull is told to go on from beyond what it does not want.
                assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
                offset = answer.header(PullMessageResponseHeader).next_begin_offset

        waiting = asyncio.create_task(wanted())
        await until(lambda: len(broker.part(Puller).park) == 1)
        await peer.stored("orders", b"not this", TAGS="b")
        assert not waiting.done()
        await peer.stored("orders", b"this", TAGS="a")
        answer = await waiting
        assert [message.body for message in decode_records(answer.body)] == [b"this"]
        assert len(broker.part(Puller).park) == 0


async def test_a_pull_is_answered_when_its_time_is_over(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders")
        answer = await peer.pull("orders", 1, hold=50)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert answer.header(PullMessageResponseHeader).next_begin_offset == 1


async def test_parked_pulls_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        waiting = asyncio.create_task(peer.pull("orders", 1, hold=FOREVER))
        await until(lambda: len(broker.part(Puller).park) == 1)
        await broker.stop()
        assert (await waiting).code == ResponseCode.PULL_NOT_FOUND


async def test_one_arrival_wakes_a_thousand_parked_pulls(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        waiting = [asyncio.create_task(peer.pull("orders", 1, hold=FOREVER)) for _ in range(1_000)]
        await until(lambda: len(broker.part(Puller).park) == 1_000)
        await peer.stored("orders", b"wake up")
        answers = await asyncio.gather(*waiting)
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}


async def test_permissions_and_existence_are_checked_in_order(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await broker.core.topics.put(TopicConfig(topic_name="write-only", perm=2))
        await broker.core.groups.put(SubscriptionGroupConfig(group_name="stopped", consume_enable=False))
        cases = [
            (await peer.pull("orders", group="a/b"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, None),
            (await peer.pull("orders", group="stopped"), ResponseCode.NO_PERMISSION, "2"),
            (await peer.pull("missing"), ResponseCode.TOPIC_NOT_EXIST, None),
            (await peer.pull("write-only"), ResponseCode.NO_PERMISSION, "3"),
            (await peer.pull("orders", queue=4), ResponseCode.INVALID_PARAMETER, None),
            (await peer.pull("orders", tags=None), ResponseCode.SUBSCRIPTION_NOT_EXIST, None),
        ]
        for answer, code, kind in cases:
            assert (answer.code, answer.ext.get("forbiddenType")) == (code, kind), answer.remark
        broker.config.broker_permission = 2
        answer = await peer.pull("orders")
        assert (answer.code, answer.ext.get("forbiddenType")) == (ResponseCode.NO_PERMISSION, "1")


async def test_a_heartbeat_subscription_is_used_without_an_inline_one(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", TAGS="a")
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders", version=5))
        assert (await peer.pull("orders", tags=None, version=5)).code == ResponseCode.SUCCESS
        newer = await peer.pull("orders", tags=None, version=6)
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await peer.stored("others")
        assert (await peer.pull("others", tags=None)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await broker.core.groups.forbid("g", "orders", readable=False)
        assert (await peer.pull("orders", tags=None)).ext["forbiddenType"] == "5"


async def test_a_group_that_may_not_broadcast_is_refused(tmp_path: Path) -> None:
    # C-04
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await broker.core.groups.put(SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False))
        consumer = ConsumerData(
            group_name="g",
            message_model=MessageModel.BROADCASTING,
            subscription_data_set=[SubscriptionData(topic="orders", sub_string="*")],
        )
        await peer.heartbeat("c1", consumer=consumer)
        answer = await peer.pull("orders", tags=None)
        assert (answer.code, answer.ext["forbiddenType"]) == (ResponseCode.NO_PERMISSION, "4")


async def test_offsets_are_stored_queried_and_survive_a_restart(tmp_path: Path) -> None:
    query = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, set_zero_if_not_found=False)
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders")
        assert (await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.QUERY_NOT_FOUND
        young = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0)
        answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, young)
        assert answer.ext["offset"] == "0"
        update = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=1)
        assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code == ResponseCode.SUCCESS
    async with standalone(tmp_path) as (_, peer):
        answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert answer.ext["offset"] == "1"
        unknown = UpdateConsumerOffsetHeader(consumer_group="g", topic="nowhere", queue_id=0, commit_offset=1)
        assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, unknown)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_messages_survive_a_restart(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for n in range(100):
            await peer.stored("orders", f"m{n}".encode())
    async with standalone(tmp_path) as (_, peer):
        bodies: list[bytes] = []
        while len(bodies) < 100:
            bodies += [message.body for message in await peer.messages("orders", len(bodies))]
        assert bodies == [f"m{n}".encode() for n in range(100)]
        assert (await peer.stored("orders")).queue_offset == 100
