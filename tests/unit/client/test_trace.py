"""Trace records and their way out."""

import asyncio
from typing import Any

import pytest

from pyromq.client.config import AccessChannel
from pyromq.client.hooks import MessageType
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.results import LocalTransactionState
from pyromq.client.trace.dispatcher import QUEUE_LIMIT, TraceDispatcher
from pyromq.client.trace.records import TraceBean, TraceContext, TraceType, decode, encode, pack
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.properties import decode_properties
from pyromq.remoting.errors import SendError
from tests.unit.client.fakes import WALL, FakeCluster, ManualClock, asyncio_test, settle
from tests.unit.client.test_transaction import Listener, transactional


def bean(**changes: Any) -> TraceBean:
    fields: dict[str, Any] = {
        "topic": "T",
        "message_id": "ID",
        "offset_message_id": "OFF",
        "tags": "A",
        "keys": "k1 k2",
        "store_host": "10.0.0.1:10911",
        "body_length": 5,
    }
    return TraceBean(**(fields | changes))


def context(kind: TraceType, *beans: TraceBean, **changes: Any) -> TraceContext:
    fields: dict[str, Any] = {"timestamp": 1, "region": "R", "group": "G", "cost_ms": 7, "request_id": "REQ"}
    return TraceContext(trace_type=kind, beans=list(beans) or [bean()], **(fields | changes))


def fields_of(record: str) -> list[str]:
    assert record.endswith("\x02")
    return record[:-1].split("\x01")


def test_pub_record() -> None:
    # P-33 and section 4.12
    record = encode(context(TraceType.PUB, bean(message_type=MessageType.DELAY)))
    assert fields_of(record) == [
        "Pub", "1", "R", "G", "T", "ID", "A", "k1 k2", "10.0.0.1:10911", "5", "7", "3", "OFF", "true",
    ]  # fmt: skip


def test_consumer_records() -> None:
    two = (bean(retry_times=2), bean(message_id="ID2"))
    before = encode(context(TraceType.SUB_BEFORE, *two))
    assert [fields_of(record + "\x02") for record in before.split("\x02")[:-1]] == [
        ["SubBefore", "1", "R", "G", "REQ", "ID", "2", "k1 k2"],
        ["SubBefore", "1", "R", "G", "REQ", "ID2", "0", "k1 k2"],
    ]
    after = encode(context(TraceType.SUB_AFTER, success=False, context_code=4))
    assert fields_of(after) == ["SubAfter", "REQ", "ID", "7", "false", "k1 k2", "4", "1", "G"]
    cloud = encode(context(TraceType.SUB_AFTER, access_channel=AccessChannel.CLOUD))
    assert cloud == "SubAfter\x01REQ\x01ID\x017\x01true\x01k1 k2\x010\x01\x02"


def test_transaction_and_recall_records() -> None:
    ended = bean(
        message_type=MessageType.TRANSACTION_COMMIT,
        transaction_id=None,
        transaction_state=str(LocalTransactionState.UNKNOWN),
        from_transaction_check=True,
    )
    assert fields_of(encode(context(TraceType.END_TRANSACTION, ended))) == [
        "EndTransaction", "1", "R", "G", "T", "ID", "A", "k1 k2", "10.0.0.1:10911", "2", "null", "UNKNOW", "true",
    ]  # fmt: skip
    assert fields_of(encode(context(TraceType.RECALL, success=False))) == ["Recall", "1", "R", "G", "T", "ID", "false"]


@pytest.mark.parametrize("kind", list(TraceType))
def test_records_can_be_read_back(kind: TraceType) -> None:
    original = context(
        kind,
        bean(message_type=MessageType.TRANSACTION_COMMIT, transaction_id="TX", transaction_state="COMMIT_MESSAGE"),
    )
    (read,) = decode(encode(original))
    assert read.trace_type is kind
    assert read.beans[0].message_id == "ID"
    assert encode(read) == encode(original)


def test_older_records() -> None:
    start = ["Pub", "1", "R", "G", "T", "ID", "A", "K", "H", "5", "7", "0"]
    old, middle, new = ([*start, *tail] for tail in (["false"], ["OFF", "true"], ["OFF", "true", "10.0.0.9"]))
    contexts = decode("\x02".join("\x01".join(line) for line in (old, middle, new)))
    assert [found.success for found in contexts] == [False, True, True]
    assert [found.beans[0].offset_message_id for found in contexts] == ["", "OFF", "OFF"]
    assert contexts[2].beans[0].client_host == "10.0.0.9"
    (six,) = decode("SubAfter\x01REQ\x01ID\x017\x01true\x01k\x02")
    assert six.context_code == 0
    assert six.group == ""


def test_unknown_and_broken_records() -> None:
    assert decode("Future\x01x\x02") == []
    assert decode("") == []
    for text in ("Pub\x011\x02", "SubBefore\x01x\x01R\x01G\x01Q\x01I\x010\x01k\x02", "Recall\x01\x02"):
        with pytest.raises(MessageError, match="trace record"):
            decode(text)


def test_messages_are_cut() -> None:
    one = len(encode(context(TraceType.RECALL)))
    packed = pack([context(TraceType.RECALL, bean(message_id=f"I{n}")) for n in range(5)], one * 2)
    assert [len(decode(item.text)) for item in packed] == [2, 2, 1]
    assert packed[0].keys == {"I0", "I1", "k1", "k2"}


def traced_cluster(topic: str = "RMQ_SYS_TRACE_TOPIC") -> FakeCluster:
    cluster = FakeCluster("a", "b")
    cluster.add_topic("T", 1)
    cluster.add_topic(topic, 1)
    return cluster


def traces(cluster: FakeCluster, topic: str = "RMQ_SYS_TRACE_TOPIC") -> list[tuple[SendMessageV2Header, str]]:
    return [
        (header, body.decode())
        for broker in cluster.brokers.values()
        for header, body in broker.stored
        if header.topic == topic
    ]


@asyncio_test
async def test_sends_are_traced() -> None:
    # P-33
    cluster = traced_cluster()
    producer = await cluster.producer(enable_trace=True, instance_name="traced")
    dispatcher = producer._dispatcher
    assert dispatcher is not None
    inner = dispatcher._producer
    assert isinstance(inner, Producer)
    assert inner.group.startswith("_INNER_TRACE_PRODUCER-PG-PRODUCE-")
    assert inner.config.instance_name == "PID_CLIENT_INNER_TRACE_PRODUCER_ns1:9876"
    assert (inner.config.send_timeout, inner.config.enable_trace) == (5.0, False)
    result = await producer.send(Message("T", b"hello", tags="A", keys="k"))
    cluster.brokers["a"].script = cluster.brokers["b"].script = []
    assert traces(cluster) == []
    await cluster.clock.advance(5.0)
    ((header, text),) = traces(cluster)
    (read,) = decode(text)
    assert read.trace_type is TraceType.PUB
    assert (read.timestamp, read.region, read.group, read.success) == (WALL, "DefaultRegion", "PG", True)
    (found,) = read.beans
    assert (found.topic, found.message_id, found.body_length) == ("T", result.message_id, 5)
    assert found.store_host in {broker.address for broker in cluster.brokers.values()}
    assert set(decode_properties(header.properties or "")["KEYS"].split()) == {result.message_id, "k"}
    await producer.close()
    assert cluster.clock.pending == 0


@asyncio_test
async def test_batches_and_failures() -> None:
    cluster = traced_cluster()
    producer = await cluster.producer(enable_trace=True, trace_batch_size=3, retries=0)
    for broker in cluster.brokers.values():
        broker.script = [lambda _: SendError("x")]
    for _ in range(2):
        await asyncio.gather(producer.send(Message("T", b"x")), return_exceptions=True)
    for broker in cluster.brokers.values():
        broker.script = []
    off = Message("T", b"x")
    off.properties["TRACE_ON"] = "false"
    await producer.send(off)
    await settle()
    assert traces(cluster) == []
    for _ in range(3):
        await producer.send(Message("T", b"x"))
    await settle()
    assert sum(len(decode(text)) for _, text in traces(cluster)) == 3
    await producer.close()


@asyncio_test
async def test_close_flushes() -> None:
    cluster = traced_cluster("MYTRACE")
    producer = await cluster.producer(enable_trace=True, trace_topic="MYTRACE")
    await producer.send(Message("T", b"x"))
    await producer.close()
    assert len(traces(cluster, "MYTRACE")) == 1


@asyncio_test
async def test_cloud_traces_go_to_the_region() -> None:
    topic = "rmq_sys_TRACE_DATA_DefaultRegion"
    cluster = traced_cluster(topic)
    producer = await cluster.producer(enable_trace=True, access_channel=AccessChannel.CLOUD)
    await producer.send(Message("T", b"x"))
    await producer.close()
    assert len(traces(cluster, topic)) == 1


@asyncio_test
async def test_trace_that_cannot_start_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    # P-22
    cluster = traced_cluster()
    blocker = Producer(
        "other",
        namesrv="ns1:9876",
        clock=cluster.clock,
        transport=cluster.transport,
        client_ip="10.1.1.1",
        instance_name="PID_CLIENT_INNER_TRACE_PRODUCER_ns1:9876",
    )
    await blocker.start()
    await blocker._instance.stop()

    async def fail_start(_: object) -> None:
        from pyromq.client.errors import ClientError  # noqa: PLC0415 - only this test needs it

        raise ClientError("no trace today")

    original = TraceDispatcher.start
    TraceDispatcher.start = fail_start  # type: ignore[method-assign, assignment]
    try:
        producer = await cluster.producer(enable_trace=True)
    finally:
        TraceDispatcher.start = original  # type: ignore[method-assign]
    assert "not traced" in caplog.text
    assert (await producer.send(Message("T", b"x"))).message_id


class Silent:
    """A producer that is never done."""

    def __init__(self) -> None:
        self.stuck: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def publish_queues(self, topic: str) -> list[Any]:
        assert topic
        return []

    async def send(self, payload: Message, *, timeout: float | None, queue: Any) -> object:  # noqa: ASYNC109, ARG002
        return await self.stuck


@asyncio_test
async def test_queue_is_bounded_and_closing_too() -> None:
    cluster = FakeCluster()
    clock = ManualClock()
    config = cluster.new_producer().config
    dispatcher = TraceDispatcher(Silent(), config.with_options(trace_batch_size=10_000), clock)
    dispatcher._batch = 10**9
    await dispatcher.start()
    accepted = [dispatcher.append(context(TraceType.RECALL)) for _ in range(QUEUE_LIMIT + 2)]
    assert accepted.count(False) == 2
    assert dispatcher.dropped == 2
    dispatcher._batch = 20
    closing = asyncio.ensure_future(dispatcher.close())
    await clock.advance(5.0)
    await closing


@asyncio_test
async def test_contexts_without_region_or_message_are_skipped() -> None:
    cluster = traced_cluster()
    producer = await cluster.producer(enable_trace=True)
    dispatcher = producer._dispatcher
    assert dispatcher is not None
    dispatcher.append(context(TraceType.PUB, region=None))
    empty = context(TraceType.PUB)
    empty.beans.clear()
    dispatcher.append(empty)
    await dispatcher.flush()
    assert traces(cluster) == []
    await producer.close()


@asyncio_test
async def test_transactions_and_recalls_are_traced() -> None:
    cluster = traced_cluster()
    producer = await transactional(cluster, Listener(), enable_trace=True, recall_trace=True)
    await producer.send_in_transaction(Message("T", b"x"))
    for broker in cluster.brokers.values():
        broker.answers[RequestCode.RECALL_MESSAGE] = _recalled
    await producer.recall("T", encode_recall_handle(RecallHandle("T", "a", 1_800_000_000_000, "U1")))
    await producer.close()
    kinds = {found.trace_type for _, text in traces(cluster) for found in decode(text)}
    assert kinds == {TraceType.PUB, TraceType.END_TRANSACTION, TraceType.RECALL}


def _recalled(command: Command) -> Command:
    return command.reply(ext={"msgId": "U1"})
