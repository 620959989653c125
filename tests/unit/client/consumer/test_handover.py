"""A queue that moves from one member to another: what the old owner finishes, what the new one waits for."""

import asyncio
from typing import Any

from pyromq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import GetConsumerRunningInfoHeader
from pyromq.protocol.message import MessageQueue
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.fakes import Answer, asyncio_test, settle

ME, OTHER = "10.1.1.1@me", "10.2.2.2@other"


class Gated:
    """A listener that notes what it gets and works on it until it is let go on."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.gate = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        self.begun.append(message.body)
        await self.gate.wait()


class Owner:
    """Another member: answers which queues it has, as often as it is asked."""

    def __init__(self, cluster: ConsumeCluster, *held: MessageQueue) -> None:
        self.held = set(held)
        self.asked: list[str] = []
        self.refuses = False
        cluster.broker.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = self._tell

    def _tell(self, command: Command) -> Answer:
        self.asked.append(command.header(GetConsumerRunningInfoHeader).client_id)
        if self.refuses:
            return command.reply(ResponseCode.NO_PERMISSION, remark="not for you")
        info = ConsumerRunningInfo(mq_table={each: ProcessQueueInfo() for each in self.held})
        return command.reply(body=info.encode())


def pulled(cluster: ConsumeCluster) -> set[int]:
    return {pull.queue_id for pull in cluster.broker.pulls}


@asyncio_test
async def test_a_change_told_of_before_the_first_pull_is_followed_before_it() -> None:
    cluster = ConsumeCluster(4)
    for number in range(4):
        cluster.broker.arrive(number, b"x")
    listener = Gated()
    listener.gate.set()
    consumer = cluster.push(listener)
    await consumer.start()
    await cluster.clock.advance(0.2)
    cluster.broker.members = [ME, OTHER]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(2)
    assert consumer.assignment() == {queue(0), queue(1)}
    assert pulled(cluster) == {0, 1}
    await consumer.close()


@asyncio_test
async def test_what_is_in_work_is_finished_and_written_before_a_queue_is_left() -> None:
    cluster, listener = ConsumeCluster(2), Gated()
    cluster.broker.arrive(1, b"0", b"1", b"2", b"3")
    consumer = cluster.push(listener, consume_thread_max=2, consume_thread_min=2)
    await consumer.start()
    await cluster.clock.advance(1)
    assert listener.begun == [b"0", b"1"]
    cluster.broker.members = [ME, OTHER]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1)
    assert consumer.assignment() == {queue(0)}
    told = await consumer._member.running_info(jstack=False)
    assert queue(1) in told.mq_table  # whoever asks learns that it is not free yet
    listener.gate.set()
    await cluster.clock.advance(1)
    assert listener.begun == [b"0", b"1"]  # what only waited is left to the next owner
    assert cluster.broker.offsets["T", 1] == 2
    assert queue(1) not in (await consumer._member.running_info(jstack=False)).mq_table
    await consumer.close()


@asyncio_test
async def test_a_listener_that_takes_too_long_does_not_keep_a_queue() -> None:
    cluster, listener = ConsumeCluster(2), Gated()
    cluster.broker.arrive(1, b"0", b"1")
    consumer = cluster.push(listener, handover_timeout=3.0)
    await consumer.start()
    await cluster.clock.advance(1)
    cluster.broker.members = [ME, OTHER]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(2)
    assert queue(1) in (await consumer._member.running_info(jstack=False)).mq_table
    await cluster.clock.advance(2)
    assert queue(1) not in (await consumer._member.running_info(jstack=False)).mq_table
    listener.gate.set()
    await settle()
    assert cluster.broker.offsets["T", 1] == 0  # too late to count
    await consumer.close()


@asyncio_test
async def test_a_queue_that_comes_back_while_it_is_left_is_taken_again() -> None:
    cluster, listener = ConsumeCluster(2), Gated()
    cluster.broker.arrive(1, b"0")
    consumer = cluster.push(listener)
    await consumer.start()
    await cluster.clock.advance(1)
    cluster.broker.members = [ME, OTHER]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1)
    cluster.broker.members = [ME]
    consumer._member.wake_rebalance()
    listener.gate.set()
    await cluster.clock.advance(2)
    assert consumer.assignment() == {queue(0), queue(1)}
    cluster.broker.arrive(1, b"1")
    await settle()
    assert listener.begun == [b"0", b"1"]
    await consumer.close()


@asyncio_test
async def test_the_first_pull_waits_until_the_last_owner_has_let_go() -> None:
    cluster, listener = ConsumeCluster(2), Gated()
    owner = Owner(cluster, queue(0), queue(1))
    cluster.broker.members = [ME, OTHER]
    for number in range(2):
        cluster.broker.arrive(number, b"0", b"1", b"2")
        cluster.broker.offsets["T", number] = 0
    consumer = cluster.push(listener)
    await consumer.start()
    await cluster.clock.advance(2)
    assert pulled(cluster) == set()
    assert set(owner.asked) == {OTHER}
    cluster.broker.offsets["T", 0] = 2  # it finishes, writes and goes
    owner.held = {queue(1)}
    await cluster.clock.advance(1)
    assert listener.begun == [b"2"]
    listener.gate.set()
    await consumer.close()


@asyncio_test
async def test_an_owner_that_does_not_let_go_is_not_waited_for_without_end() -> None:
    cluster = ConsumeCluster(2)
    Owner(cluster, queue(0), queue(1))
    cluster.broker.members = [ME, OTHER]
    consumer = cluster.push(Gated(), handover_timeout=3.0)
    await consumer.start()
    await cluster.clock.advance(3)
    assert pulled(cluster) == set()
    await cluster.clock.advance(3)
    assert pulled(cluster) == {0}
    await consumer.close()


@asyncio_test
async def test_who_may_not_ask_waits_half_a_second_and_asks_no_more() -> None:
    cluster = ConsumeCluster(4)
    owner = Owner(cluster, queue(0))
    owner.refuses = True
    cluster.broker.members = [ME, OTHER]
    consumer = cluster.push(Gated())
    await consumer.start()
    await cluster.clock.advance(0.6)
    assert pulled(cluster) == {0, 1}
    assert len(owner.asked) == 1
    cluster.broker.members = [ME]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(2)
    assert pulled(cluster) == {0, 1, 2, 3}
    assert len(owner.asked) == 1
    await consumer.close()


@asyncio_test
async def test_nobody_is_asked_for_what_a_member_left_behind() -> None:
    cluster = ConsumeCluster(2)
    owner = Owner(cluster, queue(0), queue(1))
    owner.held.clear()
    cluster.broker.members = [ME, OTHER]
    consumer = cluster.push(Gated())
    await consumer.start()
    await cluster.clock.advance(2)
    asked = len(owner.asked)
    owner.held = {queue(1)}
    cluster.broker.members = [ME]  # the other one died
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1)
    assert pulled(cluster) == {0, 1}
    assert len(owner.asked) == asked
    await consumer.close()


@asyncio_test
async def test_a_pull_consumer_waits_for_the_last_owner_too() -> None:
    cluster = ConsumeCluster(2)
    owner = Owner(cluster, queue(0), queue(1))
    cluster.broker.members = [ME, OTHER]
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await cluster.clock.advance(1)
    assert pulled(cluster) == set()
    cluster.broker.offsets["T", 0] = 1
    owner.held.clear()
    await cluster.clock.advance(1)
    assert [message.body for message in await consumer.poll()] == [b"1"]
    await consumer.close()


@asyncio_test
async def test_a_pull_consumer_leaves_a_queue_when_its_user_has_come_back() -> None:
    cluster = ConsumeCluster(2)
    cluster.broker.arrive(1, b"0", b"1", b"2")
    consumer = cluster.pull()
    consumer.subscribe("T")
    await consumer.start()
    await settle()
    assert [message.body for message in await consumer.poll(max_messages=2)] == [b"0", b"1"]
    cluster.broker.members = [ME, OTHER]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(1)
    assert consumer.assignment() == {queue(0)}
    assert queue(1) in (await consumer._member.running_info(jstack=False)).mq_table
    assert await consumer.poll(0) == []  # the third is left to the next owner
    await cluster.clock.advance(1)
    assert cluster.broker.offsets["T", 1] == 2
    assert queue(1) not in (await consumer._member.running_info(jstack=False)).mq_table
    await consumer.close()
