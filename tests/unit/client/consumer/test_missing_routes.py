"""Routes that are not there yet, or no longer true: asked for soon and ever more rarely, and at once on a hint."""

from typing import Any

from pyromq.aio import Message
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.names import retry_topic
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.fakes import asyncio_test, route_of, settle


def nothing(_: Any) -> None:
    return None


def without_topic() -> ConsumeCluster:
    cluster = ConsumeCluster(2)
    del cluster.routes["T"]
    return cluster


@asyncio_test
async def test_a_topic_that_comes_after_its_consumer_is_found_soon() -> None:  # C-13
    cluster = without_topic()
    consumer = cluster.push(nothing)
    await consumer.start()
    await cluster.clock.advance(10)
    assert consumer.assignment() == set()
    cluster.add_topic("T", 2)
    await cluster.clock.advance(3.5)
    assert consumer.assignment() == {queue(0), queue(1)}
    await cluster.clock.advance(0.5)
    assert {pull.queue_id for pull in cluster.broker.pulls} == {0, 1}
    await consumer.close()


@asyncio_test
async def test_a_pull_consumer_finds_it_too() -> None:
    cluster = without_topic()
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await cluster.clock.advance(10)
    cluster.add_topic("T", 2)
    await cluster.clock.advance(3.5)
    assert consumer.assignment() == {queue(0), queue(1)}
    await consumer.close()


@asyncio_test
async def test_first_asked_often_then_ever_more_rarely() -> None:
    cluster = without_topic()
    consumer = cluster.push(nothing)
    await consumer.start()
    await settle()
    asked = cluster.lookups.count("T")
    await cluster.clock.advance(1)
    soon = cluster.lookups.count("T") - asked
    assert 2 <= soon <= 4
    await cluster.clock.advance(60)
    assert cluster.lookups.count("T") - asked - soon < 40  # with those of rounds and of the period
    await consumer.close()


@asyncio_test
async def test_what_is_unsubscribed_is_not_asked_for_any_more() -> None:
    cluster = ConsumeCluster(1)
    cluster.add_topic(retry_topic("CG"), 1)
    consumer = cluster.push(nothing)
    consumer.subscribe("U")
    await consumer.start()
    await cluster.clock.advance(5)
    consumer.unsubscribe("U")
    await cluster.clock.advance(4)
    asked = cluster.lookups.count("U")
    await cluster.clock.advance(60)
    assert cluster.lookups.count("U") == asked
    await consumer.close()


@asyncio_test
async def test_a_notice_of_the_broker_is_a_reason_to_ask() -> None:
    cluster = ConsumeCluster(1)
    consumer = cluster.push(nothing)
    consumer.subscribe("U")
    await consumer.start()
    await cluster.clock.advance(30.2)
    cluster.add_topic("U", 1)
    consumer._member.wake_rebalance()
    await cluster.clock.advance(0.1)
    assert queue(0, "U") in consumer.assignment()
    await consumer.close()


@asyncio_test
async def test_a_consumer_that_starts_without_a_name_server_begins_soon_after_one_answers() -> None:
    cluster = ConsumeCluster(2)
    name_server = cluster.transport.peers.pop("ns1:9876")
    consumer = cluster.push(nothing)
    await consumer.start()
    await cluster.clock.advance(40)
    cluster.transport.peers["ns1:9876"] = name_server
    await cluster.clock.advance(3.5)
    assert consumer.assignment() == {queue(0), queue(1)}
    await consumer.close()


@asyncio_test
async def test_a_broker_that_is_new_to_the_client_hears_of_it_before_it_is_asked_for_members() -> None:
    cluster = without_topic()
    consumer = cluster.push(nothing)
    await consumer.start()
    cluster.add_topic("T", 2)
    cluster.broker.members = []

    def join(command: Any) -> Any:
        cluster.broker.members = ["10.1.1.1@me"]
        return command.reply()

    cluster.broker.answers[RequestCode.HEART_BEAT] = join
    await cluster.clock.advance(0.9)  # before the first periodic heartbeat
    assert consumer.assignment() == {queue(0), queue(1)}
    await consumer.close()


@asyncio_test
async def test_the_retry_topic_of_a_new_group_is_found_soon() -> None:
    cluster = ConsumeCluster(1)
    consumer = cluster.push(nothing)
    await consumer.start()
    await cluster.clock.advance(2)
    cluster.add_topic(retry_topic("CG"), 1)  # as the broker does on the first heartbeat
    await cluster.clock.advance(4)
    assert len(cluster.broker.pulls) == 2
    await consumer.close()


@asyncio_test
async def test_a_pull_that_reaches_nobody_has_the_route_looked_up() -> None:
    cluster = ConsumeCluster(1)
    cluster.add_topic(retry_topic("CG"), 1)
    consumer = cluster.push(nothing)
    await consumer.start()
    await cluster.clock.advance(5)
    cluster.transport.peers["10.9.9.9:10911"] = cluster.transport.peers.pop(cluster.broker.address)  # it moved
    cluster.routes["T"] = route_of({"broker-a": "10.9.9.9:10911"}, 1)
    cluster.broker.arrive(0, b"wakes the pull that waits")
    await cluster.clock.advance(2)
    pulls = len(cluster.broker.pulls)
    cluster.broker.arrive(0, b"is found at the new address")
    await settle()
    assert len(cluster.broker.pulls) == pulls + 1
    await consumer.close()


@asyncio_test
async def test_a_send_that_reaches_nobody_has_the_route_looked_up() -> None:
    cluster = ConsumeCluster(1)
    producer = await cluster.producer()
    await producer.send(_message())
    asked = cluster.lookups.count("T")
    cluster.transport.peers["10.9.9.9:10911"] = cluster.transport.peers.pop(cluster.broker.address)
    cluster.routes["T"] = route_of({"broker-a": "10.9.9.9:10911"}, 1)
    sent = False
    for _ in range(2):  # the first one may fail, and brings the new route
        try:
            await producer.send(_message())
            sent = True
        except Exception:  # noqa: BLE001 - which of them is not the question
            await settle()
    assert sent
    assert cluster.lookups.count("T") == asked + 1
    await producer.close()


def _message() -> Message:
    return Message("T", b"x")
