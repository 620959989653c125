"""The administrative calls of every client."""

from collections.abc import Callable

import pytest

from pyromq.client.errors import BrokerError, ClientError, ErrorCode, TransportError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import SearchOffsetByTimestampHeader
from pyromq.protocol.headers.query import QueryMessageHeader, ViewMessageByIdHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.remoting.errors import CallTimeout
from tests.unit.client.fakes import WALL, FakeBroker, FakeCluster, asyncio_test

QUEUE = MessageQueue("T", "a", 2)


def cluster_of(*names: str) -> FakeCluster:
    cluster = FakeCluster(*names)
    cluster.add_topic("T")
    return cluster


def answering(kind: type[Header], seen: list[Header], **ext: str) -> Callable[[Command], Command]:
    def answer(command: Command) -> Command:
        seen.append(command.header(kind))
        return command.reply(ext=ext)

    return answer


@asyncio_test
async def test_offsets() -> None:
    # P-10
    cluster = cluster_of("a")
    producer = await cluster.producer()
    broker = cluster.brokers["a"]
    seen: list[Header] = []
    broker.answers = {
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: answering(SearchOffsetByTimestampHeader, seen, offset="5"),
        RequestCode.GET_MAX_OFFSET: lambda command: command.reply(ext={"offset": "9"}),
        RequestCode.GET_MIN_OFFSET: lambda command: command.reply(ext={"offset": "1"}),
        RequestCode.GET_EARLIEST_MSG_STORETIME: lambda command: command.reply(ext={"timestamp": "77"}),
    }
    assert await producer.search_offset(QUEUE, 123) == 5
    assert await producer.max_offset(QUEUE) == 9
    assert await producer.min_offset(QUEUE) == 1
    assert await producer.earliest_store_time(QUEUE) == 77
    header = seen[0]
    assert isinstance(header, SearchOffsetByTimestampHeader)
    assert (header.topic, header.queue_id, header.timestamp) == ("T", 2, 123)
    assert cluster.transport.calls[-1][2] == 6.0


@asyncio_test
async def test_offset_errors() -> None:
    cluster = cluster_of("a")
    producer = await cluster.producer()
    with pytest.raises(ClientError) as caught:
        await producer.max_offset(MessageQueue("T", "gone", 0))
    assert caught.value.code == ErrorCode.BROKER_NOT_EXIST
    cluster.brokers["a"].answers[RequestCode.GET_MAX_OFFSET] = lambda command: command.reply(1, remark="no")
    with pytest.raises(BrokerError, match="GET_MAX_OFFSET"):
        await producer.max_offset(QUEUE)
    cluster.brokers["a"].answers[RequestCode.GET_MAX_OFFSET] = lambda _: CallTimeout("late")
    with pytest.raises(TransportError, match="late"):
        await producer.max_offset(QUEUE)


@asyncio_test
async def test_create_topic() -> None:
    # P-10, P-54
    cluster = cluster_of("a", "b")
    cluster.add_topic("TBW102", 8)
    producer = await cluster.producer()
    seen: list[Header] = []
    for broker in cluster.brokers.values():
        broker.answers[RequestCode.UPDATE_AND_CREATE_TOPIC] = answering(UpdateAndCreateTopicHeader, seen)
    await producer.create_topic("TBW102", "new", 6, attributes={"+message.type": "FIFO"})
    assert len(seen) == 2
    header = seen[0]
    assert isinstance(header, UpdateAndCreateTopicHeader)
    assert (header.topic, header.default_topic, header.read_queue_nums, header.write_queue_nums) == (
        "new",
        "TBW102",
        6,
        6,
    )
    assert (header.perm, header.attributes) == (6, "+message.type=FIFO")


@asyncio_test
async def test_create_topic_tries_each_broker_and_fails_only_when_all_do() -> None:
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    cluster.brokers["a"].answers[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda _: CallTimeout("x")
    cluster.brokers["b"].answers[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda command: command.reply()
    await producer.create_topic("T", "new", 4)
    assert len(cluster.transport.sent(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 6
    cluster.brokers["b"].answers[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda command: command.reply(1, remark="no")
    with pytest.raises(BrokerError):
        await producer.create_topic("T", "new", 4)
    for key, topic in (("T", "bad name"), ("T", "TBW102"), ("missing", "new")):
        with pytest.raises(ClientError):
            await producer.create_topic(key, topic, 4)


def stored(key: str, unique_id: str = "U1", topic: str = "T", store_timestamp: int = 1) -> ReceivedMessage:
    return ReceivedMessage(
        topic, b"body", {"KEYS": key, "UNIQ_KEY": unique_id}, store_timestamp=store_timestamp, queue_id=2
    )


def with_messages(broker: FakeBroker, *messages: ReceivedMessage) -> list[QueryMessageHeader]:
    seen: list[QueryMessageHeader] = []

    def answer(command: Command) -> Command:
        seen.append(command.header(QueryMessageHeader))
        if not messages:
            return command.reply(ResponseCode.QUERY_NOT_FOUND)
        return command.reply(body=b"".join(map(encode_record, messages)))

    broker.answers[RequestCode.QUERY_MESSAGE] = answer
    return seen


@asyncio_test
async def test_query_by_key() -> None:
    # P-10, P-16
    cluster = cluster_of("a", "b", "c")
    producer = await cluster.producer()
    seen = with_messages(cluster.brokers["a"], stored("k1 k2"), stored("other"), stored("k1", topic="X"))
    with_messages(cluster.brokers["b"])
    cluster.brokers["c"].answers[RequestCode.QUERY_MESSAGE] = lambda _: CallTimeout("x")
    (found,) = await producer.query_message("T", "k1", 10, 5, 6)
    assert found.broker_name == "a"
    assert found.keys == ("k1", "k2")
    assert (seen[0].max_num, seen[0].begin_timestamp, seen[0].end_timestamp) == (10, 5, 6)
    assert seen[0].unique_key_query is False
    with pytest.raises(ClientError) as caught:
        await producer.query_message("T", "k9")
    assert caught.value.code == ResponseCode.NO_MESSAGE
    with pytest.raises(ClientError) as missing:
        await producer.query_message("missing", "k")
    assert missing.value.code == ResponseCode.TOPIC_NOT_EXIST


@asyncio_test
async def test_view_by_place() -> None:
    # P-10
    cluster = cluster_of("a")
    producer = await cluster.producer()
    await producer.publish_queues("T")
    offsets: list[int] = []

    def view(command: Command) -> Command:
        offsets.append(command.header(ViewMessageByIdHeader).offset)
        return command.reply(body=encode_record(stored("k")))

    cluster.brokers["a"].answers[RequestCode.VIEW_MESSAGE_BY_ID] = view
    found = await producer.view_message("T", offset_message_id("10.0.0.1", 10911, 4242))
    assert found.body == b"body"
    assert offsets == [4242]
    assert cluster.transport.calls[-1][2] == 6.0


@asyncio_test
async def test_view_by_unique_id() -> None:
    # P-10: any failure of the first way leads to the second; a guessed address gets little time
    cluster = cluster_of("a", "b")
    producer = await cluster.producer()
    unique = "0A0000FF00002A9F0012D68700050005"
    with_messages(cluster.brokers["a"], stored("k", unique, store_timestamp=9))
    seen = with_messages(cluster.brokers["b"], stored("k", unique, store_timestamp=5), stored("k", "other"))
    found = await producer.view_message("T", unique)
    assert found.store_timestamp == 5
    assert seen[0].unique_key_query
    assert seen[0].begin_timestamp == WALL - 3 * 24 * 3600 * 1000
    (guess,) = [call for call in cluster.transport.calls if call[1].code == RequestCode.VIEW_MESSAGE_BY_ID]
    assert (guess[0], guess[2]) == ("10.0.0.255:10911", 1.0)
    assert (await producer.view_message("T", unique)).message_id == unique
    with pytest.raises(ClientError):
        await producer.view_message("T", "not an id")
