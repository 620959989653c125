"""The pull consumer on a fake broker: requests, delays, positions, commits, changes of hands."""

import asyncio

import pytest

from pyromq.client.errors import ClientError, NoRouteError, ServiceStateError
from pyromq.protocol.bodies.clients import HeartbeatData
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.codes import RequestCode, ResponseCode
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import asyncio_test, settle


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@asyncio_test
async def test_requests_are_lite_and_carry_the_subscription() -> None:
    cluster = ConsumeCluster()
    consumer = cluster.pull()
    consumer.subscribe("T", "a")
    await consumer.start()
    await settle()
    [pull] = cluster.broker.pulls
    assert (pull.sys_flag, pull.subscription, pull.expression_type) == (0x16, "a", "TAG")
    assert (pull.max_msg_nums, pull.suspend_timeout_millis, pull.sub_version) == (10, 20000, 0)
    [(_, command)] = cluster.transport.sent(RequestCode.LITE_PULL_MESSAGE)
    assert command is not None
    data = HeartbeatData.decode(cluster.broker.heartbeats[0].body)
    assert data.consumer_data_set[0].consume_type == "CONSUME_ACTIVELY"
    assert {sub.topic for sub in data.consumer_data_set[0].subscription_data_set} == {"T"}  # no retry topic
    await consumer.close()


@asyncio_test
async def test_a_route_without_readable_queues_is_called_so() -> None:
    cluster = ConsumeCluster()
    cluster.add_topic("written", perm=2)
    consumer = cluster.pull()
    await consumer.start()
    with pytest.raises(NoRouteError) as caught:
        await consumer.fetch_queues("written")
    assert str(caught.value).startswith(
        "topic 'written' has a route, but no queue that can be read; name servers asked:"
    )
    assert "SUCCESS" not in str(caught.value)
    await consumer.close()


@asyncio_test
async def test_given_is_not_done() -> None:  # C-11
    cluster = ConsumeCluster()
    cluster.broker.arrive(0, *numbers(0, 30))
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    assert [message.body for message in await consumer.poll()] == numbers(0, 10)
    await cluster.clock.advance(6)
    assert [message.body for message in await consumer.poll(max_messages=3)] == numbers(10, 13)
    await cluster.clock.advance(6)
    assert cluster.broker.offsets["T", 0] == 10
    await consumer.close()
    assert cluster.broker.offsets["T", 0] == 10


@asyncio_test
async def test_reading_ahead_is_bounded() -> None:
    cluster = ConsumeCluster()
    cluster.broker.arrive(0, *numbers(0, 100))
    consumer = cluster.pull(pull_threshold_for_queue=15)
    consumer.subscribe("T")
    await consumer.start()
    await cluster.clock.advance(1)
    assert len(cluster.broker.pulls) == 2
    await consumer.poll()
    await cluster.clock.advance(0.1)
    assert len(cluster.broker.pulls) == 3
    await consumer.close()


@asyncio_test
async def test_the_bound_over_all_queues() -> None:
    cluster = ConsumeCluster(4)
    for number in range(4):
        cluster.broker.arrive(number, *numbers(0, 40))
    consumer = cluster.pull(pull_threshold_for_all=25)
    consumer.subscribe("T")
    await consumer.start()
    await cluster.clock.advance(1)
    assert len(cluster.broker.pulls) == 3
    await consumer.close()


@pytest.mark.parametrize(
    ("code", "delay"), [(ResponseCode.FLOW_CONTROL, 0.020), (ResponseCode.SYSTEM_BUSY, 1.0)], ids=["flow", "busy"]
)
@asyncio_test
async def test_delays(code: int, delay: float) -> None:
    cluster = ConsumeCluster()
    cluster.broker.pull_script = [lambda command: command.reply(code, remark="no")]
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    await cluster.clock.advance(delay - 0.005)
    assert len(cluster.broker.pulls) == 1
    await cluster.clock.advance(0.010)
    assert len(cluster.broker.pulls) == 2
    await consumer.close()


@asyncio_test
async def test_without_a_start_offset_it_tries_again_in_three_seconds() -> None:
    cluster = ConsumeCluster()
    answer = cluster.broker.answers.pop(RequestCode.QUERY_CONSUMER_OFFSET)
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await cluster.clock.advance(2.9)
    assert cluster.broker.pulls == []
    cluster.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = answer
    await cluster.clock.advance(0.2)
    assert len(cluster.broker.pulls) == 1
    await consumer.close()


@asyncio_test
async def test_filtered_stretches_count_as_done() -> None:
    cluster = ConsumeCluster()
    broker = cluster.broker
    broker.first["T", 0] = 40
    broker.pull_script = [lambda command: broker.pull_answer(command, ResponseCode.PULL_RETRY_IMMEDIATELY, 40)]
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    assert consumer.position(queue()) == 40
    await consumer.close()
    assert broker.offsets["T", 0] == 40


@asyncio_test
async def test_seek_forgets_what_was_read_ahead() -> None:
    cluster = ConsumeCluster()
    cluster.broker.arrive(0, *numbers(0, 20))
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    first = await anext(consumer)
    assert first.body == b"0"
    await consumer.seek(queue(), 15)
    await settle()
    assert (await anext(consumer)).body == b"15"
    assert consumer.position(queue()) == 16
    with pytest.raises(ClientError, match="outside"):
        await consumer.seek(queue(), 21)
    await consumer.close()


@asyncio_test
async def test_a_queue_taken_away_keeps_what_is_done() -> None:  # C-11
    cluster = ConsumeCluster(2)
    cluster.broker.arrive(1, *numbers(0, 20))
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    await consumer.poll()
    assert [message.body for message in await consumer.poll(max_messages=5)] == numbers(10, 15)
    cluster.broker.members = ["10.1.1.1@me", "10.2.2.2@other"]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(7)  # longer than the user is waited for
    assert consumer.assignment() == {queue(0)}
    assert cluster.broker.offsets["T", 1] == 10
    polling = asyncio.create_task(consumer.poll(1.0))
    await cluster.clock.advance(1.5)
    assert await polling == []  # nothing of the queue that is gone
    with pytest.raises(ClientError, match="not assigned"):
        consumer.position(queue(1))
    await consumer.close()


@asyncio_test
async def test_a_reset_moves_the_position() -> None:
    cluster = ConsumeCluster()
    cluster.broker.arrive(0, *numbers(0, 5))
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    assert len(await consumer.poll()) == 5
    await consumer._member.reset_offsets("T", {queue(): 2, queue(9): 0})
    await settle()
    assert cluster.broker.offsets["T", 0] == 2
    assert [message.body for message in await consumer.poll()] == numbers(2, 5)
    await consumer.close()


@asyncio_test
async def test_what_brokers_ask() -> None:
    cluster = ConsumeCluster()
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    info = await consumer._member.running_info(jstack=False)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert set(info.mq_table) == {queue()}
    result = await consumer._member.consume_directly(received(1), "broker-a")
    assert result.consume_result is ConsumeResult.CR_THROW_EXCEPTION
    await consumer.close()


@asyncio_test
async def test_topic_listeners() -> None:
    cluster = ConsumeCluster(2)
    consumer = cluster.pull()
    changes: list[int] = []
    consumer.on_queues_changed("T", lambda _, queues: changes.append(len(queues)))
    await consumer.start()
    await cluster.clock.advance(11)
    cluster.add_topic("T", 3)
    await cluster.clock.advance(30)
    assert changes == [3]
    await consumer.close()


@asyncio_test
async def test_modes_exclude_each_other() -> None:
    cluster = ConsumeCluster(2)
    consumer = cluster.pull()
    await consumer.assign([queue(1)], "a || b")
    with pytest.raises(ServiceStateError, match="uses assign"):
        consumer.subscribe("T")
    await consumer.start()
    await settle()
    assert [(pull.queue_id, pull.subscription) for pull in cluster.broker.pulls] == [(1, "a || b")]
    await consumer.close()
