"""Push consumers against real brokers: delivery, filters, retry, dead letters, offsets, requests of brokers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import (
    ConcurrentContext,
    ConsumeOutcome,
    Message,
    MessageModel,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
)
from pyromq.client.consumer.hooks import ConsumeHookContext, FilterContext
from pyromq.client.errors import ClientError, ServiceStateError
from pyromq.client.state import ServiceState
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.bodies.offsets import ConsumerStatusBody, ResetOffsetBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from pyromq.protocol.headers.callbacks import GetConsumerStatusFromClientHeader, ResetConsumerClientOffsetHeader
from pyromq.protocol.message import MessageQueue
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually


async def send(namesrv: str, topic: str, *bodies: bytes, **options: Any) -> None:
    async with Producer("PG", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **options))


async def send_to(namesrv: str, queue: MessageQueue, *bodies: bytes) -> None:
    """As one batch into one queue."""
    async with Producer("PG", namesrv=namesrv) as producer:
        await producer.publish_queues(queue.topic)  # borrows the default route; the first message creates the topic
        await producer.send([Message(queue.topic, body) for body in bodies], queue=queue)


def push(namesrv: str, group: str = "CG", **options: Any) -> PushConsumer:
    return PushConsumer(group, namesrv=namesrv, **(QUICK | options))


@asyncio_test
async def test_plain_listeners_run_on_threads(tmp_path: Path) -> None:  # C-01 C-02 C-09 C-10
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", b"before")
        inbox = Inbox()
        consumer = push(server.namesrv_address, consume_thread_max=3, consume_thread_min=3)
        consumer.subscribe("T")
        consumer.listen(inbox)
        async with consumer:
            # The pull that finds nothing waits at the broker; a message sent now wakes it.
            await inbox.different(1)
            await send(server.namesrv_address, "T", b"after")
            await inbox.different(2)
            assert len(consumer.assignment()) == 4
        assert inbox.repeated == 0


@asyncio_test
async def test_coroutine_listeners_are_awaited(tmp_path: Path) -> None:  # C-01
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", *(b"%d" % n for n in range(20)), keys=["k"])
        inbox = Inbox()
        consumer = push(server.namesrv_address)
        consumer.subscribe("T")
        most = running = 0

        @consumer.listen
        async def handle(message: ReceivedMessage, context: ConcurrentContext) -> ConsumeOutcome:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            assert (context.queue.topic, message.broker_name) == ("T", context.queue.broker_name)
            inbox(message)
            return ConsumeOutcome.SUCCESS

        async with consumer:
            await inbox.different(20)
        assert 1 < most <= 20
        first = inbox.messages[0]
        assert (first.topic, first.keys) == ("T", ("k",))
        assert "CONSUME_START_TIME" in first.properties
        assert int(first.properties["MAX_OFFSET"]) >= 1


@asyncio_test
async def test_batches(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        queue = MessageQueue("T", "broker-a", 0)
        await send_to(server.namesrv_address, queue, *(b"%d" % n for n in range(20)))
        inbox, sizes = Inbox(), []
        consumer = push(server.namesrv_address, consume_batch_size=8)
        consumer.subscribe("T")

        @consumer.listen(batch=True)
        def handle(messages: list[ReceivedMessage]) -> None:
            sizes.append(len(messages))
            for message in messages:
                inbox(message)

        async with consumer:
            await inbox.different(20)
        assert max(sizes) == 8


@asyncio_test
async def test_tags_and_a_change_of_subscription(tmp_path: Path) -> None:  # F-01 C-13
    async with standalone(tmp_path) as server:
        namesrv = server.namesrv_address
        for tag in ("a", "b", "c"):
            await send(namesrv, "T", tag.encode(), tags=tag)
        inbox = Inbox()
        consumer = push(namesrv)
        consumer.subscribe("T", "a || b")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(2)
            assert inbox.bodies.keys() == {b"a", b"b"}
            await send(namesrv, "T2", b"other")
            consumer.subscribe("T2")
            await inbox.different(3)
            consumer.unsubscribe("T2")
            await eventually(lambda: {queue.topic for queue in consumer.assignment()} == {"T"})


@asyncio_test
async def test_sql_selects_and_is_checked_at_start(tmp_path: Path) -> None:  # F-07
    async with standalone(tmp_path, enable_property_filter="true") as server:
        namesrv = server.namesrv_address
        for number in range(4):
            await send(namesrv, "T", b"%d" % number, properties={"a": str(number)})
        bad = push(namesrv)
        bad.subscribe("T", sql="a >")
        bad.listen(lambda _: None)
        with pytest.raises(ClientError) as refusal:
            await bad.start()
        assert refusal.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert bad.state is ServiceState.START_FAILED
        inbox = Inbox()
        consumer = push(namesrv)
        consumer.subscribe("T", sql="a > 1")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(2)
        assert inbox.bodies == {b"2": 1, b"3": 1}


@asyncio_test
async def test_failed_messages_come_again(tmp_path: Path) -> None:  # C-11 C-12
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", b"fails twice", b"fine", tags="t")
        inbox = Inbox()
        consumer = push(server.namesrv_address)
        consumer.subscribe("T", "t")
        seen: list[tuple[int, str]] = []

        @consumer.listen
        def handle(message: ReceivedMessage, context: ConcurrentContext) -> bool:
            context.delay_level = 1
            if message.body == b"fails twice":
                seen.append((message.reconsume_times, message.topic))
                if len(seen) == 1:
                    raise ValueError("not today")
                if len(seen) == 2:
                    return False
            inbox(message)
            return True

        async with consumer:
            await inbox.different(2)
        assert seen == [(0, "T"), (1, "T"), (2, "T")]
        assert inbox.repeated == 0


@asyncio_test
async def test_dead_letters(tmp_path: Path) -> None:  # C-12
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", b"hopeless")
        consumer = push(server.namesrv_address)
        consumer.subscribe("T")
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()

        @consumer.listen
        def handle(_: ReceivedMessage, context: ConcurrentContext) -> bool:
            context.delay_level = -1
            loop.call_soon_threadsafe(gone.set)
            return False

        async with consumer:
            await gone.wait()
        async with PullConsumer("READER", namesrv=server.namesrv_address) as reader:
            queue = MessageQueue("%DLQ%CG", "broker-a", 0)
            result = await reader.manual.pull(queue, "*", 0)
            assert result.status is PullStatus.FOUND
            assert [message.body for message in result.messages] == [b"hopeless"]


@asyncio_test
async def test_part_of_a_batch_may_fail(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        queue = MessageQueue("T", "broker-a", 0)
        await send_to(server.namesrv_address, queue, *(b"%d" % n for n in range(4)))
        inbox = Inbox()
        consumer = push(server.namesrv_address, consume_batch_size=4)
        consumer.subscribe("T")

        @consumer.listen(batch=True)
        def handle(messages: list[ReceivedMessage], context: ConcurrentContext) -> None:
            context.delay_level = 1
            if len(messages) == 4:
                context.acknowledged = 3
            for message in messages:
                inbox(message)

        async with consumer:
            await inbox.until(lambda inbox: inbox.bodies[b"3"] == 2)
        assert inbox.bodies == {b"0": 1, b"1": 1, b"2": 1, b"3": 2}


@asyncio_test
async def test_offsets_survive_a_restart(tmp_path: Path) -> None:  # C-03 C-11
    async with standalone(tmp_path) as server:
        for run in range(3):
            await send(server.namesrv_address, "T", *(b"%d-%d" % (run, n) for n in range(10)))
            inbox = Inbox()
            consumer = push(server.namesrv_address)
            consumer.subscribe("T")
            consumer.listen(inbox)
            async with consumer:
                await inbox.different(10)
            assert inbox.bodies == {b"%d-%d" % (run, n): 1 for n in range(10)}


@asyncio_test
async def test_closing_finishes_what_runs_and_repeats_nothing(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", *(b"%d" % n for n in range(40)))
        inbox = Inbox()
        started, go_on = asyncio.Event(), asyncio.Event()
        first = push(server.namesrv_address, consume_thread_max=4, consume_thread_min=4)
        first.subscribe("T")

        @first.listen
        async def slow(message: ReceivedMessage) -> None:
            started.set()
            await go_on.wait()
            inbox(message)

        await first.start()
        await started.wait()
        closing = asyncio.create_task(first.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing
        assert 1 <= len(inbox.messages) <= 4
        second = push(server.namesrv_address)
        second.subscribe("T")
        second.listen(inbox)
        async with second:
            await inbox.different(40)
        assert inbox.repeated == 0


@asyncio_test
async def test_broadcasting(tmp_path: Path) -> None:  # C-04
    async with standalone(tmp_path / "server") as server:
        await send(server.namesrv_address, "T", *(b"%d" % n for n in range(10)))
        inboxes = [Inbox(), Inbox()]

        def member(number: int) -> PushConsumer:
            consumer = push(
                server.namesrv_address,
                model=MessageModel.BROADCASTING,
                instance_name=f"member{number}",
                client_ip="10.1.1.1",
                local_offset_dir=tmp_path / "offsets",
            )
            consumer.subscribe("T")

            @consumer.listen
            def handle(message: ReceivedMessage) -> bool:
                inboxes[number](message)
                return message.body != b"3"  # failures are passed over, not retried

            return consumer

        async with member(0), member(1):
            for inbox in inboxes:
                await inbox.different(10)
        assert all(inbox.repeated == 0 for inbox in inboxes)
        file = tmp_path / "offsets" / "10.1.1.1@member0" / "CG" / "offsets.json"
        stored = ResetOffsetBody.decode(file.read_bytes()).offset_table
        assert sum(stored.values()) == 10
        await send(server.namesrv_address, "T", b"later")
        async with member(0):
            await inboxes[0].different(11)
        assert inboxes[0].repeated == 0


@asyncio_test
async def test_suspend_resume_and_thread_numbers(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", b"1")
        inbox = Inbox()
        consumer = push(server.namesrv_address)
        consumer.subscribe("T")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(1)
            consumer.suspend()
            consumer.resume()
            assert consumer.consume_threads == 20
            consumer.set_consume_threads(2)
            await send(server.namesrv_address, "T", b"2")
            await inbox.different(2)
            assert consumer.consume_threads == 2
            with pytest.raises(ClientError, match=r"1\.\.1000"):
                consumer.set_consume_threads(0)


@asyncio_test
async def test_states_are_named_in_errors(tmp_path: Path) -> None:  # C-10
    async with standalone(tmp_path) as server:
        consumer = push(server.namesrv_address)
        with pytest.raises(ClientError, match="no listener"):
            await consumer.start()
        consumer.listen(lambda _: None)
        with pytest.raises(ServiceStateError, match="CREATE_JUST"):
            consumer.suspend()
        async with consumer:
            with pytest.raises(ServiceStateError, match="RUNNING"):
                await consumer.start()
            with pytest.raises(ClientError, match="before it is started"):
                consumer.listen(lambda _: None)
            twin = push(server.namesrv_address, instance_name="shared")
            other = push(server.namesrv_address, instance_name="shared")
            twin.listen(lambda _: None)
            other.listen(lambda _: None)
            async with twin:
                with pytest.raises(ClientError, match="already"):
                    await other.start()
                assert other.state is ServiceState.CREATE_JUST
        with pytest.raises(ServiceStateError, match="SHUTDOWN_ALREADY"):
            await consumer.start()
        with pytest.raises(ClientError, match="DEFAULT_CONSUMER"):
            await push(server.namesrv_address, "DEFAULT_CONSUMER").start()


class Notes:
    """A consume hook and a filter hook that write down what they see."""

    name = "notes"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []

    def before(self, context: ConsumeHookContext) -> None:
        self.seen.append(("before", context.group, context.success))

    def after(self, context: ConsumeHookContext) -> None:
        self.seen.append(("after", context.status, context.success))

    def filter(self, context: FilterContext) -> None:
        context.messages[:] = [message for message in context.messages if message.body != b"unwanted"]


@asyncio_test
async def test_hooks(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", b"unwanted", b"wanted")
        inbox, notes = Inbox(), Notes()
        consumer = push(server.namesrv_address)
        consumer.subscribe("T")
        consumer.listen(inbox)
        consumer.consume_hooks.append(notes)
        consumer.filter_hooks.append(notes)
        async with consumer:
            await inbox.different(1)
        assert inbox.bodies == {b"wanted": 1}
        assert notes.seen == [("before", "CG", False), ("after", "CONSUME_SUCCESS", True)]


@asyncio_test
async def test_requests_of_brokers(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "T", *(b"%d" % n for n in range(8)))
        inbox = Inbox()
        consumer = push(server.namesrv_address, client_ip="10.1.1.1", instance_name="asked")
        consumer.subscribe("T")
        consumer.listen(inbox)
        async with consumer, PullConsumer("ADMIN", namesrv=server.namesrv_address) as admin:
            await inbox.different(8)
            call = admin._instance.call

            header = GetConsumerRunningInfoHeader(consumer_group="CG", client_id="10.1.1.1@asked", jstack_enable=True)
            request = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            answer = await call(server.broker_address, request, 30.0)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            info = ConsumerRunningInfo.decode(answer.body)
            assert info.properties["PROP_CONSUMEORDERLY"] == "false"
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert {queue.topic for queue in info.mq_table} == {"T", "%RETRY%CG"}
            assert info.jstack is not None
            assert "secret_key" not in info.properties

            sent = inbox.messages[0]
            direct = ConsumeMessageDirectlyHeader(
                consumer_group="CG", client_id="10.1.1.1@asked", msg_id=sent.offset_message_id
            )
            answer = await call(
                server.broker_address, Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, direct), 30.0
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert ConsumeDirectlyResult.decode(answer.body).consume_result is ConsumeResult.CR_SUCCESS
            assert inbox.bodies[sent.body] == 2


@asyncio_test
async def test_an_operator_moves_the_offsets(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        queue = MessageQueue("T", "broker-a", 1)
        await send_to(server.namesrv_address, queue, *(b"%d" % n for n in range(6)))
        inbox = Inbox()
        consumer = push(server.namesrv_address)
        consumer.subscribe("T")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(6)
            header = ResetConsumerClientOffsetHeader(topic="T", group="CG", timestamp=0, is_force=True)
            body = ResetOffsetBody(offset_table={queue: 4}).encode()
            request = Command.request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body=body)
            assert server.broker is not None
            group = server.broker.core.consumers.get("CG")
            assert group is not None
            connection = next(iter(group.members))
            connection.send(request)
            await inbox.until(lambda inbox: inbox.bodies[b"5"] == 2)
            assert inbox.bodies == {b"0": 1, b"1": 1, b"2": 1, b"3": 1, b"4": 2, b"5": 2}

            status = Command.request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, GetConsumerStatusFromClientHeader(topic="T", group="CG")
            )
            await eventually(lambda: consumer._member.consumer_status("T").get(queue) == 6)
            answer = await connection.request(status, 30.0)
            assert ConsumerStatusBody.decode(answer.body).message_queue_table[queue] == 6


@asyncio_test
async def test_message_traces(tmp_path: Path) -> None:
    async with standalone(tmp_path, trace_topic_enable="true") as server:
        await send(server.namesrv_address, "T", b"x")
        inbox = Inbox()
        consumer = push(server.namesrv_address, enable_trace=True)
        consumer.subscribe("T")
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(1)
        reader = PullConsumer(
            "READER", namesrv=server.namesrv_address, consume_from=QUICK["consume_from"], rebalance_min_interval=0.05
        )
        reader.subscribe("RMQ_SYS_TRACE_TOPIC")
        async with reader:
            text = (await reader.poll(30.0))[0].body.decode()
        kinds = [record.split("\x01")[0] for record in text.split("\x02") if record]
        assert kinds == ["SubBefore", "SubAfter"]


@asyncio_test
async def test_namespaces_stay_out_of_sight(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        namesrv = server.namesrv_address
        async with Producer("PG", namesrv=namesrv, namespace="NS") as producer:
            await producer.send(Message("T", b"inside"))
        await send(namesrv, "T", b"outside")
        inbox = Inbox()
        consumer = push(namesrv, namespace="NS")
        consumer.subscribe("T")
        failed: list[ReceivedMessage] = []

        @consumer.listen
        def handle(message: ReceivedMessage, context: ConcurrentContext) -> bool:
            context.delay_level = 1
            assert (message.topic, context.queue.topic) in {("T", "T"), ("T", "%RETRY%CG")}
            if not failed:
                failed.append(message)
                return False
            inbox(message)
            return True

        async with consumer:
            await inbox.different(1)
            assert {queue.topic for queue in consumer.assignment()} == {"T"}
        assert inbox.bodies == {b"inside": 1}
        assert server.broker is not None
        assert {"NS%T", "T", "%RETRY%NS%CG"} <= {config.topic_name for config in server.broker.core.topics}
