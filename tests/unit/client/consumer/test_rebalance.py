"""Rebalancing: when rounds run and what they do."""

from typing import Any

import pytest

from pyromq.aio import ByConfig
from pyromq.protocol.bodies.queues import QueryAssignmentResponse
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.message import MessageQueue
from tests.unit.client.consumer.fakes import ConsumeCluster, assigned, queue
from tests.unit.client.fakes import asyncio_test, settle


def rounds(cluster: ConsumeCluster) -> int:
    """How often a broker was asked for the members of the group (the retry topic does not exist here)."""
    return len(cluster.transport.sent(RequestCode.GET_CONSUMER_LIST_BY_GROUP))


def nothing(_: Any) -> None:
    return None


@asyncio_test
async def test_rounds_come_every_20_seconds() -> None:  # C-07
    cluster = ConsumeCluster(4)
    consumer = cluster.push(nothing)
    await consumer.start()
    assert rounds(cluster) == 1
    await cluster.clock.advance(19)
    assert rounds(cluster) == 1
    await cluster.clock.advance(42)
    assert rounds(cluster) == 4
    await consumer.close()


@asyncio_test
async def test_a_notice_wakes_at_once_but_a_swarm_of_them_ten_times_a_second() -> None:  # C-07
    cluster = ConsumeCluster(4)
    consumer = cluster.push(nothing)
    await consumer.start()
    await cluster.clock.advance(5)
    consumer._member.wake_rebalance()
    await settle()
    assert rounds(cluster) == 2
    for _ in range(50):
        consumer._member.wake_rebalance()
        await cluster.clock.advance(0.01)
    assert 5 <= rounds(cluster) <= 7
    await consumer.close()


@asyncio_test
async def test_unsettled_rounds_are_repeated_after_a_second() -> None:  # C-07
    cluster = ConsumeCluster(4)
    cluster.broker.members = []
    consumer = cluster.push(nothing)
    await consumer.start()
    assert consumer.assignment() == set()
    await cluster.clock.advance(3.5)
    assert rounds(cluster) >= 4
    cluster.broker.members = ["10.1.1.1@me"]
    await cluster.clock.advance(1)
    assert len(consumer.assignment()) == 4
    await consumer.close()


@asyncio_test
async def test_shares_change_with_the_members() -> None:  # C-06
    cluster = ConsumeCluster(4)
    changes: list[int] = []
    consumer = cluster.push(nothing, pull_threshold_for_topic=100)
    consumer.queue_listeners.append(lambda _topic, _every, mine: changes.append(len(mine)))
    await consumer.start()
    beats = len(cluster.broker.heartbeats)
    cluster.broker.members = ["10.1.1.1@me", "10.2.2.2@other"]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1.5)
    assert consumer.assignment() == {queue(0), queue(1)}
    assert len(cluster.broker.heartbeats) > beats  # the broker learns of the new version at once
    cluster.broker.members = ["10.1.1.1@me"]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1.5)
    assert len(consumer.assignment()) == 4
    assert changes == [4, 2, 4]
    await consumer.close()


@asyncio_test
async def test_a_queue_that_cannot_be_read_yet_is_taken_later() -> None:
    cluster = ConsumeCluster(1)
    answer = cluster.broker.answers.pop(RequestCode.QUERY_CONSUMER_OFFSET)
    consumer = cluster.push(nothing)
    await consumer.start()
    assert consumer.assignment() == set()
    cluster.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = answer
    await cluster.clock.advance(1.5)
    assert consumer.assignment() == {queue()}
    await consumer.close()


@asyncio_test
async def test_the_position_of_a_new_group_is_written_at_once() -> None:
    cluster = ConsumeCluster(1)
    cluster.broker.arrive(0, b"old", b"older")
    consumer = cluster.push(nothing, consume_from="CONSUME_FROM_LAST_OFFSET")
    await consumer.start()
    # A member that takes over before anything was consumed must not choose again, past what arrived meanwhile.
    assert cluster.broker.offsets["T", 0] == 2
    await consumer.close()


@asyncio_test
async def test_the_broker_divides() -> None:  # C-07
    cluster = ConsumeCluster(4)
    cluster.broker.assignment = assigned(queue(1), queue(3))
    consumer = cluster.push(nothing, client_rebalance=False)
    await consumer.start()
    assert consumer.assignment() == {queue(1), queue(3)}
    assert rounds(cluster) == 0
    cluster.broker.assignment = QueryAssignmentResponse()  # nothing new
    await cluster.clock.advance(21)
    assert consumer.assignment() == {queue(1), queue(3)}
    cluster.broker.assignment = assigned()
    await cluster.clock.advance(21)
    assert consumer.assignment() == set()
    await consumer.close()


@asyncio_test
async def test_a_broker_that_cannot_divide_is_not_needed() -> None:  # C-07
    cluster = ConsumeCluster(4)
    consumer = cluster.push(nothing, client_rebalance=False)
    await consumer.start()
    assert len(consumer.assignment()) == 4
    await consumer.close()


@asyncio_test
async def test_a_strategy_that_fails_leaves_everything_as_it_is() -> None:
    class Broken:
        name = "BROKEN"
        works = True

        def allocate(self, me: str, queues: Any, members: Any) -> list[MessageQueue]:  # noqa: ARG002 - as all
            if self.works:
                return list(queues)
            raise ZeroDivisionError

    cluster, strategy = ConsumeCluster(2), Broken()
    consumer = cluster.push(nothing, allocation=strategy)
    await consumer.start()
    strategy.works = False
    await cluster.clock.advance(21)
    assert len(consumer.assignment()) == 2
    await consumer.close()


@asyncio_test
async def test_configured_queues() -> None:  # C-05
    cluster = ConsumeCluster(4)
    cluster.broker.members = ["10.1.1.1@me", "10.2.2.2@other"]
    consumer = cluster.push(nothing, allocation=ByConfig([queue(2)]))
    await consumer.start()
    assert consumer.assignment() == {queue(2)}
    await consumer.close()


@asyncio_test
async def test_unsubscribed_topics_are_left() -> None:
    cluster = ConsumeCluster(2)
    cluster.add_topic("U", 1)
    consumer = cluster.push(nothing)
    consumer.subscribe("U")
    await consumer.start()
    assert len(consumer.assignment()) == 3
    consumer.unsubscribe("U")
    await cluster.clock.advance(2)
    assert {each.topic for each in consumer.assignment()} == {"T"}
    await consumer.close()


@asyncio_test
async def test_a_topic_subscribed_to_while_no_name_server_answers(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ConsumeCluster(2)
    cluster.add_topic("U", 1)
    consumer = cluster.push(nothing)
    await consumer.start()
    told = len(cluster.broker.heartbeats)
    name_server = cluster.transport.peers.pop("ns1:9876")
    consumer.subscribe("U")
    await settle()
    assert len(cluster.broker.heartbeats) > told  # brokers learn of it all the same
    assert not [record for record in caplog.records if record.exc_info]
    cluster.transport.peers["ns1:9876"] = name_server
    await cluster.clock.advance(60)
    assert {each.topic for each in consumer.assignment()} == {"T", "U"}
    await consumer.close()


@asyncio_test
async def test_what_the_last_owner_still_finished_is_not_repeated() -> None:  # C-11
    cluster = ConsumeCluster(1)
    cluster.broker.arrive(0, b"0", b"1", b"2")
    cluster.broker.offsets["T", 0] = 1
    heard: list[bytes] = []

    async def listener(message: Any) -> None:
        heard.append(message.body)

    consumer = cluster.push(listener)
    await consumer.start()
    cluster.broker.offsets["T", 0] = 2
    await cluster.clock.advance(1)
    assert heard == [b"2"]
    await consumer.close()
