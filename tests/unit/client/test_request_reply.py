"""Request and reply, and recall."""

import asyncio
import uuid
import zlib
from typing import Any

import pytest

from pyromq.client.errors import BrokerError, ClientError, ErrorCode, RequestTimeout, TooManyRequestsError
from pyromq.client.instance.inbound import Inbound
from pyromq.client.producer.producer import Producer
from pyromq.client.request.reply import create_reply
from pyromq.client.request.table import MAX_PENDING, RequestTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.headers.callbacks import PushReplyMessageToClientHeader
from pyromq.protocol.headers.send import RecallMessageHeader, SendMessageV2Header
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.remoting.errors import SendError
from pyromq.selectors import by_hash
from tests.unit.client.fakes import FakeCluster, ManualClock, asyncio_test, settle


def cluster_of_one() -> FakeCluster:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    return cluster


def push_reply(producer: Producer, correlation_id: str, body: bytes = b"pong", **changes: Any) -> Command:
    """What the broker does with a reply."""
    properties = encode_properties({"CORRELATION_ID": correlation_id, "TTL": "3000"}).decode()
    fields: dict[str, Any] = {
        "producer_group": "PG",
        "topic": "C_REPLY_TOPIC",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 3,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 9,
        "properties": properties,
        "born_host": "10.0.0.7:5555",
        "store_host": "10.0.0.1:10911",
        "store_timestamp": 2,
    }
    header = PushReplyMessageToClientHeader(**(fields | changes))
    handler = Inbound(producer._instance).push_reply
    return handler(Command.request(326, header, body=body), None)  # type: ignore[arg-type]  # not used


async def sent_correlation_id(cluster: FakeCluster) -> str:
    await settle()
    header, _ = cluster.brokers["a"].stored[-1]
    return decode_properties(header.properties or "")["CORRELATION_ID"]


@asyncio_test
async def test_request_and_reply() -> None:
    # P-07 R1
    cluster = cluster_of_one()
    producer = await cluster.producer()
    asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    correlation_id = await sent_correlation_id(cluster)
    uuid.UUID(correlation_id)
    header, _ = cluster.brokers["a"].stored[-1]
    properties = decode_properties(header.properties or "")
    assert properties["REPLY_TO_CLIENT"] == producer._instance.client_id
    assert properties["TTL"] == "3000"
    # the broker must know this client before it can reply
    assert len(cluster.brokers["a"].heartbeats) == 1
    assert push_reply(producer, correlation_id).code == ResponseCode.SUCCESS
    reply = await asking
    assert reply.body == b"pong"
    assert reply.topic == "C_REPLY_TOPIC"
    assert (reply.queue_id, reply.flag) == (3, 9)
    assert reply.born_host == ("10.0.0.7", 5555)
    assert "ARRIVE_TIME" in reply.properties
    assert len(producer._instance.requests) == 0


@asyncio_test
async def test_request_with_selector_and_queue() -> None:
    # P-07 R3, R5
    cluster = cluster_of_one()
    producer = await cluster.producer()
    queue = MessageQueue("T", "a", 1)
    for options in ({"queue": queue}, {"selector": by_hash, "arg": 1}):
        asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0, **options))
        push_reply(producer, await sent_correlation_id(cluster))
        await asking
        assert cluster.brokers["a"].stored[-1][0].queue_id == 1


@asyncio_test
async def test_request_that_is_not_answered() -> None:
    # P-07 R1
    cluster = cluster_of_one()
    producer = await cluster.producer()
    asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    await settle()
    await cluster.clock.advance(3.0)
    with pytest.raises(RequestTimeout) as caught:
        await asking
    assert caught.value.code == ErrorCode.REQUEST_TIMEOUT
    assert len(producer._instance.requests) == 0


@asyncio_test
async def test_request_that_could_not_be_sent() -> None:
    # P-07: ClientError with the cause, and a time-out before the receipt is not a RequestTimeout
    cluster = cluster_of_one()
    producer = await cluster.producer()
    cluster.brokers["a"].script = [lambda _: SendError("down")] * 3
    with pytest.raises(ClientError) as caught:
        await producer.request(Message("T", b"ping"), 3.0)
    assert not isinstance(caught.value, RequestTimeout)
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    cluster.brokers["a"].script = [lambda _: stuck]
    asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    await settle()
    await cluster.clock.advance(3.0)
    with pytest.raises(ClientError) as late:
        await asking
    assert not isinstance(late.value, RequestTimeout)
    with pytest.raises(ClientError, match="above 0"):
        await producer.request(Message("T", b"ping"), 0)
    assert len(producer._instance.requests) == 0


@asyncio_test
async def test_reply_may_overtake_the_receipt() -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    broker = cluster.brokers["a"]
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

    def store(command: Command) -> Any:
        broker.store(command)
        return stuck

    broker.script = [store]
    asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    push_reply(producer, await sent_correlation_id(cluster))
    assert (await asking).body == b"pong"


@asyncio_test
async def test_async_requests() -> None:
    # P-07 R2, R4, R6: the callback fires once, with the reply, not when the request was sent
    cluster = cluster_of_one()
    producer = await cluster.producer()
    seen: list[tuple[ReceivedMessage | None, Exception | None]] = []

    async def callback(reply: ReceivedMessage | None, error: Exception | None) -> None:
        seen.append((reply, error))

    queue = MessageQueue("T", "a", 1)
    for options in ({}, {"queue": queue}, {"selector": by_hash, "arg": 1}):
        future = producer.request_async(Message("T", b"ping"), 3.0, callback, **options)
        correlation_id = await sent_correlation_id(cluster)
        assert seen == []
        push_reply(producer, correlation_id)
        await settle()
        reply, error = seen.pop()
        assert error is None
        assert reply is (await future)


@asyncio_test
async def test_async_request_times_out_in_the_sweep() -> None:
    # P-32: first after 3 s, then every second
    cluster = cluster_of_one()
    producer = await cluster.producer()
    future = producer.request_async(Message("T", b"ping"), 0.5)
    await settle()
    await cluster.clock.advance(2.9)
    assert not future.done()
    await cluster.clock.advance(0.1)
    with pytest.raises(RequestTimeout):
        await future
    second = producer.request_async(Message("T", b"ping"), 0.5)
    await cluster.clock.advance(1.0)
    with pytest.raises(RequestTimeout):
        await second


@asyncio_test
async def test_async_request_that_cannot_be_sent() -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    cluster.brokers["a"].script = [lambda command: command.reply(13)]
    with pytest.raises(BrokerError):
        await producer.request_async(Message("T", b"ping"), 3.0)
    assert len(producer._instance.requests) == 0


@asyncio_test
async def test_close_fails_pending_requests() -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    future = producer.request_async(Message("T", b"ping"), 30.0)
    await settle()
    await producer.close()
    with pytest.raises(ClientError, match="stopped"):
        await future


@asyncio_test
async def test_replies_nobody_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    assert push_reply(producer, "unknown").code == ResponseCode.SUCCESS
    assert "nobody waits" in caplog.text


@asyncio_test
async def test_compressed_and_broken_replies() -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    asking = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    correlation_id = await sent_correlation_id(cluster)
    assert push_reply(producer, correlation_id, born_host="nowhere").code == ResponseCode.SYSTEM_ERROR
    broken = push_reply(producer, correlation_id, b"not zlib", sys_flag=0x301)
    assert broken.code == ResponseCode.SYSTEM_ERROR
    with pytest.raises(ClientError, match="its reply is damaged"):
        await asking
    again = asyncio.ensure_future(producer.request(Message("T", b"ping"), 3.0))
    push_reply(producer, await sent_correlation_id(cluster), zlib.compress(b"pong"), sys_flag=0x301)
    reply = await again
    assert reply.body == b"pong"
    assert reply.sys_flag == 0x300


@asyncio_test
async def test_pending_requests_are_bounded() -> None:
    table = RequestTable(ManualClock())
    for number in range(MAX_PENDING):
        table.add(str(number), 1.0, lambda *_: None)
    with pytest.raises(TooManyRequestsError):
        table.add("one more", 1.0, lambda *_: None)


@asyncio_test
async def test_making_and_sending_a_reply() -> None:
    # P-99: the reply codes
    request = ReceivedMessage(
        "T", b"ping", {"CLUSTER": "C", "CORRELATION_ID": "id", "REPLY_TO_CLIENT": "me", "TTL": "3000"}
    )
    reply = create_reply(request, b"pong")
    assert reply.topic == "C_REPLY_TOPIC"
    assert reply.body == b"pong"
    assert reply.properties["MSG_TYPE"] == "reply"
    assert [reply.properties[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")] == ["id", "me", "3000"]
    cluster = FakeCluster("a")
    cluster.add_topic("C_REPLY_TOPIC", 1)
    producer = await cluster.producer()
    await producer.send(reply)
    ((_, command),) = cluster.transport.sent(RequestCode.SEND_REPLY_MESSAGE_V2)
    assert command.header(SendMessageV2Header).topic == "C_REPLY_TOPIC"
    with pytest.raises(ClientError) as caught:
        create_reply(ReceivedMessage("T", b"x", {}), b"y")
    assert caught.value.code == ErrorCode.CREATE_REPLY_MESSAGE


HANDLE = encode_recall_handle(RecallHandle("T", "a", 1_800_000_000_000, "U1"))


@asyncio_test
async def test_recall() -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    broker = cluster.brokers["a"]
    broker.answers[RequestCode.RECALL_MESSAGE] = lambda command: command.reply(ext={"msgId": "U1"})
    assert await producer.recall("T", HANDLE) == "U1"
    ((address, command),) = cluster.transport.sent(RequestCode.RECALL_MESSAGE)
    assert address == broker.address
    header = command.header(RecallMessageHeader)
    assert (header.producer_group, header.topic, header.recall_handle, header.bname) == ("PG", "T", HANDLE, "a")
    broker.answers[RequestCode.RECALL_MESSAGE] = lambda command: command.reply(604, remark="too late")
    with pytest.raises(BrokerError, match="too late"):
        await producer.recall("T", HANDLE)


@pytest.mark.parametrize(
    ("topic", "handle"), [("T", "rubbish"), ("T", "djEgVA=="), ("%RETRY%CG", HANDLE), ("%DLQ%CG", HANDLE)]
)
@asyncio_test
async def test_recall_refuses(topic: str, handle: str) -> None:
    cluster = cluster_of_one()
    producer = await cluster.producer()
    with pytest.raises(ClientError):
        await producer.recall(topic, handle)


@asyncio_test
async def test_recall_from_an_unknown_broker() -> None:
    cluster = FakeCluster("a")
    producer = await cluster.producer()
    with pytest.raises(ClientError, match="not known"):
        await producer.recall("T", HANDLE)
    cluster.add_topic("T")
    cluster.brokers["a"].answers[RequestCode.RECALL_MESSAGE] = lambda command: command.reply(ext={"msgId": "U1"})
    other = encode_recall_handle(RecallHandle("T", "gone", 1_800_000_000_000, "U1"))
    assert await producer.recall("T", other) == "U1"  # any broker of the topic
