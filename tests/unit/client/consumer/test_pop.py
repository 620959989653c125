"""Pop consumption on a fake broker: handles, acknowledgements, delays, switching between pull and pop."""

import asyncio
from typing import Any

import pytest

from pyromq.client.consumer.pop.loop import last_delay, retry_delay
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.client.consumer.push.listener import ConcurrentContext
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.pop import BatchAckBody
from pyromq.protocol.bodies.queues import MessageQueueAssignment, QueryAssignmentResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.popped import attach_handles, handle_of
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
    PopMessageHeader,
    PopMessageResponseHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from tests.unit.client.consumer.fakes import ConsumeCluster, assigned, queue
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import WALL, Answer, asyncio_test, settle

ANY = MessageQueue("T", "broker-a", -1)


def answer(starts: str, offsets: str) -> PopMessageResponseHeader:
    return PopMessageResponseHeader(
        pop_time=WALL, invisible_time=60000, revive_qid=3, rest_num=0, start_offset_info=starts, msg_offset_info=offsets
    )


def test_handles_are_built_from_the_answer() -> None:
    plain = [received(8), received(7)]
    retried = received(2, topic="%RETRY%CG_T")
    own = received(9, POP_CK="5 1700000000000 60000 2 0 broker-a 1 7")
    broken = received(10, POP_CK="what is this")
    attach_handles([*plain, retried, own, broken], ANY.broker_name, answer("0 0 5;1 0 1", "0 0 17,18,20;1 0 2"))
    assert plain[1].properties["POP_CK"] == f"5 {WALL} 60000 3 0 broker-a 0 17"
    assert plain[0].properties["POP_CK"] == f"5 {WALL} 60000 3 0 broker-a 0 18"
    assert broken.properties["POP_CK"] == f"5 {WALL} 60000 3 0 broker-a 0 20"
    assert retried.properties["POP_CK"] == f"1 {WALL} 60000 3 1 broker-a 0 2"
    assert own.properties["POP_CK"] == "5 1700000000000 60000 2 0 broker-a 1 7"
    assert plain[0].properties["1ST_POP_TIME"] == str(WALL)
    with pytest.raises(MessageError):
        handle_of(received(1))


def test_delays_grow_and_end() -> None:
    assert [retry_delay(times, 0) for times in (0, 1, 15, 16)] == [10, 30, 7200, 7200]
    assert retry_delay(5, 2) == 60
    assert (last_delay(5), last_delay(10), last_delay(7200), last_delay(14400)) == (10, 30, 7200, 7200)
    assert last_delay(14401) is None


class PopCluster(ConsumeCluster):
    """The broker lets T be popped."""

    def __init__(self) -> None:
        super().__init__(2)
        self.waiting: asyncio.Queue[list[ReceivedMessage]] = asyncio.Queue()
        self.pops: list[PopMessageHeader] = []
        self.acked: list[AckMessageHeader] = []
        self.hidden: list[ChangeMessageInvisibletimeHeader] = []
        self.refusals = 0
        self.mode(ANY)
        self.transport.peers[self.broker.address] = self._serve
        self.broker.answers[RequestCode.ACK_MESSAGE] = self._ack
        self.broker.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = self._hide

    def mode(self, *popped: MessageQueue) -> None:
        self.broker.assignment = QueryAssignmentResponse(
            message_queue_assignments=[
                MessageQueueAssignment(message_queue=each, mode=MessageRequestMode.POP) for each in popped
            ]
        )

    def _serve(self, command: Command) -> Any:
        return self._pop(command) if command.code == RequestCode.POP_MESSAGE else self.broker(command)

    async def _pop(self, command: Command) -> Answer:
        self.pops.append(command.header(PopMessageHeader))
        if self.refusals:
            self.refusals -= 1
            return command.reply(ResponseCode.POLLING_FULL, remark="full")
        messages = await self.waiting.get()
        if not messages:
            return command.reply(ResponseCode.POLLING_TIMEOUT)
        offsets = ",".join(str(message.queue_offset) for message in messages)
        header = answer(f"0 0 {messages[0].queue_offset}", f"0 0 {offsets}")
        header.pop_time = self.clock.millis()
        return command.reply(header=header, body=b"".join(map(encode_record, messages)))

    def _ack(self, command: Command) -> Answer:
        self.acked.append(command.header(AckMessageHeader))
        return command.reply()

    def _hide(self, command: Command) -> Answer:
        self.hidden.append(command.header(ChangeMessageInvisibletimeHeader))
        header = ChangeMessageInvisibletimeResponseHeader(pop_time=WALL, invisible_time=1, revive_qid=0)
        return command.reply(header=header)

    async def consumer(self, listener: Any, **options: Any) -> PushConsumer:
        consumer = self.push(listener, client_rebalance=False, **options)
        await consumer.start()
        await settle()
        return consumer


@asyncio_test
async def test_popped_messages_are_acknowledged() -> None:
    cluster = PopCluster()
    heard: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        heard.append(message.body)

    consumer = await cluster.consumer(listener)
    [pop] = cluster.pops
    assert (pop.queue_id, pop.max_msg_nums, pop.invisible_time, pop.poll_time) == (-1, 32, 60000, 15000)
    assert (pop.init_mode, pop.exp, pop.exp_type, pop.order) == (0, "*", "TAG", False)
    assert consumer.assignment() == set()  # nothing is pulled
    await cluster.waiting.put([received(5, b"a"), received(6, b"b")])
    await settle()
    assert heard == [b"a", b"b"]
    assert [(ack.topic, ack.queue_id, ack.offset) for ack in cluster.acked] == [("T", 0, 5), ("T", 0, 6)]
    assert cluster.acked[0].extra_info.split()[-1] == "5"
    await cluster.waiting.put([])
    await settle()
    assert len(cluster.pops) == 3  # again at once after every answer
    info = await consumer._member.running_info(jstack=False)
    assert info.mq_pop_table[ANY].wait_ack_count == 0
    await consumer.close()


@asyncio_test
async def test_a_batch_is_acknowledged_at_once_where_the_broker_can() -> None:
    cluster = PopCluster()
    batches: list[BatchAckBody] = []
    known = True

    def take(command: Command) -> Answer:
        if not known:
            return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="5.0 does not know it")
        batches.append(BatchAckBody.decode(command.body))
        return command.reply()

    cluster.broker.answers[RequestCode.BATCH_ACK_MESSAGE] = take

    async def listener(_: list[ReceivedMessage], context: ConcurrentContext) -> None:
        context.acknowledged = 4

    consumer = cluster.push(listener, batch=True, client_rebalance=False, consume_batch_size=5)
    await consumer.start()
    await settle()
    retried = received(2, topic="T", POP_CK=f"1 {WALL} 60000 3 1 broker-a 0 2")
    await cluster.waiting.put([received(5), received(7), received(8), retried])
    await settle()
    [body] = batches
    assert body.broker_name == "broker-a"
    first, second = body.acks
    assert (list(first.offsets()), first.topic, first.retry, first.start_offset) == ([5, 7, 8], "T", "0", 5)
    assert (first.consumer_group, first.revive_queue_id, first.invisible_time) == ("CG", 3, 60_000)
    assert (list(second.offsets()), second.retry, second.start_offset) == ([2], "1", 1)
    assert cluster.acked == []
    known = False
    for start in (10, 20):
        await cluster.waiting.put([received(start + number) for number in range(5)])
        await settle()
    assert [ack.offset for ack in cluster.acked] == [10, 11, 12, 13, 20, 21, 22, 23], "one by one, and not tried again"
    assert [hide.offset for hide in cluster.hidden] == [14, 24]
    assert len(batches) == 1
    await consumer.close()


@asyncio_test
async def test_failed_messages_are_hidden_for_longer_and_longer() -> None:
    cluster = PopCluster()

    async def listener(message: ReceivedMessage, context: ConcurrentContext) -> bool:
        if message.body == b"level":
            context.delay_level = 4
        return False

    consumer = await cluster.consumer(listener, max_reconsume_times=3)
    messages = [received(1, b"first"), received(2, b"third"), received(3, b"level"), received(4, b"old")]
    messages[1].reconsume_times = 2
    messages[3].reconsume_times = 3
    messages[3].born_timestamp = WALL - 14_402_000
    for message in messages[:3]:
        message.born_timestamp = WALL
    await cluster.waiting.put(messages)
    await settle()
    assert [(hide.offset, hide.invisible_time) for hide in cluster.hidden] == [(1, 10_000), (2, 60_000), (3, 180_000)]
    assert [ack.offset for ack in cluster.acked] == [4]  # too often and too old: given up
    await consumer.close()


@asyncio_test
async def test_retried_messages_are_acknowledged_where_they_are_stored() -> None:
    cluster = PopCluster()
    seen: list[tuple[str, int]] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append((message.topic, message.reconsume_times))

    consumer = await cluster.consumer(listener)
    message = received(2, topic="T", POP_CK=f"1 {WALL} 60000 3 1 broker-a 0 2")
    message.reconsume_times = 1
    await cluster.waiting.put([message])
    await settle()
    assert seen == [("T", 1)]
    assert cluster.acked[0].topic == "%RETRY%CG_T"
    await consumer.close()


@asyncio_test
async def test_messages_that_are_due_again_are_not_begun() -> None:
    cluster = PopCluster()
    gate = asyncio.Event()
    heard: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        heard.append(message.body)
        await gate.wait()

    consumer = await cluster.consumer(listener, consume_thread_max=1, consume_thread_min=1)
    await cluster.waiting.put([received(1, b"slow"), received(2, b"late")])
    await cluster.clock.advance(61)
    gate.set()
    await settle()
    assert heard == [b"slow"]
    await consumer.close()


@asyncio_test
async def test_wrong_tags_are_acknowledged_and_dropped() -> None:  # F-01
    cluster = PopCluster()
    heard: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        heard.append(message.body)

    consumer = cluster.push(listener, client_rebalance=False)
    consumer.subscribe("T", "Aa")
    await consumer.start()
    await settle()
    await cluster.waiting.put([received(1, b"right", TAGS="Aa"), received(2, b"wrong", TAGS="BB")])
    await settle()
    assert heard == [b"right"]
    assert sorted(ack.offset for ack in cluster.acked) == [1, 2]
    await consumer.close()


@asyncio_test
async def test_too_much_unacknowledged_stops_popping() -> None:
    cluster = PopCluster()
    gate = asyncio.Event()

    async def listener(_: ReceivedMessage) -> None:
        await gate.wait()

    consumer = await cluster.consumer(listener, pop_threshold_for_queue=1)
    await cluster.waiting.put([received(1), received(2)])
    await cluster.clock.advance(1)
    assert len(cluster.pops) == 1
    gate.set()
    await cluster.clock.advance(0.1)
    assert len(cluster.pops) == 2
    await consumer.close()


@asyncio_test
async def test_a_full_broker_is_asked_again_later() -> None:
    cluster = PopCluster()
    cluster.refusals = 1
    consumer = await cluster.consumer(print)
    assert len(cluster.pops) == 1
    await cluster.clock.advance(0.9)
    assert len(cluster.pops) == 1
    await cluster.clock.advance(0.2)
    assert len(cluster.pops) == 2
    await consumer.close()


@asyncio_test
async def test_switching_between_pop_and_pull() -> None:
    cluster = PopCluster()
    cluster.add_topic("%RETRY%CG_T", 1)
    consumer = await cluster.consumer(print)
    cluster.broker.assignment = assigned(queue(0), queue(1))
    await cluster.clock.advance(21)
    assert consumer.assignment() >= {queue(0), queue(1)}
    assert "%RETRY%CG_T" in consumer._member.subscribed_topics()  # what pops left behind is pulled
    assert len(cluster.pops) == 1
    cluster.mode(ANY)
    await cluster.clock.advance(25)
    assert "%RETRY%CG_T" not in consumer._member.subscribed_topics()
    assert queue(0) not in consumer.assignment()
    assert len(cluster.pops) == 2
    await consumer.close()


@asyncio_test
async def test_what_was_popped_and_not_begun_is_given_back_on_leaving() -> None:
    cluster = PopCluster()
    heard: list[bytes] = []
    gate = asyncio.Event()

    async def listener(message: ReceivedMessage) -> None:
        heard.append(message.body)
        await gate.wait()

    consumer = await cluster.consumer(listener, consume_thread_max=1, consume_thread_min=1)
    await cluster.waiting.put([received(5, b"a"), received(6, b"b"), received(7, b"c")])
    await settle()
    closing = asyncio.create_task(consumer.close())
    await settle()
    gate.set()
    await closing
    assert heard == [b"a"]
    assert [ack.offset for ack in cluster.acked] == [5]
    assert [(hidden.offset, hidden.invisible_time) for hidden in cluster.hidden] == [(6, 1000), (7, 1000)]
