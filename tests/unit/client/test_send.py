"""Synchronous, one-way and batch sends: the queue, the rounds, the wire, the result."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import (
    BrokerError,
    ClientError,
    ErrorCode,
    NoRouteError,
    SendFailedError,
    SendForbiddenError,
    ServiceStateError,
    TooManyRequestsError,
    TransportError,
)
from pyromq.client.hooks import ForbiddenCheck, MessageType, SendContext, SendMode
from pyromq.client.producer.envelope import prepare
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.results import SendStatus
from pyromq.client.state import ServiceState
from pyromq.protocol.bodies.clients import HeartbeatData
from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageV2Header
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch, iter_batch
from pyromq.protocol.records.compression import CompressionType, decompress
from pyromq.remoting.errors import CallTimeout, ConnectError, InFlightLimitReached, SendError
from pyromq.selectors import by_hash
from tests.unit.client.fakes import WALL, FakeCluster, asyncio_test


def refuse(code: int, remark: str = "no") -> Callable[[Command], Command]:
    return lambda command: command.reply(code, remark=remark)


def fail(error: Exception) -> Callable[[Command], Exception]:
    return lambda _: error


def one_broker(queues: int = 4) -> FakeCluster:
    cluster = FakeCluster("broker-a")
    cluster.add_topic("T", queues)
    return cluster


def two_brokers() -> FakeCluster:
    cluster = FakeCluster("broker-a", "broker-b")
    cluster.add_topic("T")
    return cluster


def sends(cluster: FakeCluster) -> list[tuple[str, Command]]:
    return [(a, c) for a, c, _ in cluster.transport.calls if c.code in (10, 310, 320, 324, 325)]


@asyncio_test
async def test_plain_send_is_synchronous() -> None:
    # P-01, P-08, P-114, P-120
    cluster = one_broker()
    producer = await cluster.producer()
    message = Message("T", b"hello", tags="A", keys=["k1", "k2"])
    result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    assert result.message_id == message.unique_id
    assert result.offset_message_id == "0A00000100002A9F0000000000000000"
    assert result.queue.topic == "T"
    assert result.queue.broker_name == "broker-a"
    assert result.queue_offset == 0
    assert result.transaction_id == "TX"
    assert result.region_id == "DefaultRegion"
    assert result.trace_on
    await producer.close()


@asyncio_test
async def test_header_on_the_wire() -> None:
    # P-95, P-99: V2 names, not compressed
    cluster = one_broker(1)
    producer = await cluster.producer(unit_mode=True, create_topic_key="KEY", default_topic_queues=6)
    await producer.send(Message("T", b"hello", tags="A", flag=7))
    (_, command), *_ = sends(cluster)
    assert command.code == RequestCode.SEND_MESSAGE_V2
    header = command.header(SendMessageV2Header)
    assert header.producer_group == "PG"
    assert (header.topic, header.default_topic, header.default_topic_queue_nums) == ("T", "KEY", 6)
    assert (header.queue_id, header.sys_flag, header.born_timestamp, header.flag) == (0, 0, WALL, 7)
    properties = decode_properties(header.properties or "")
    assert properties["TAGS"] == "A"
    assert properties["WAIT"] == "true"
    assert len(properties["UNIQ_KEY"]) == 32
    assert (header.reconsume_times, header.unit_mode, header.batch, header.bname) == (0, True, False, "broker-a")
    assert header.max_reconsume_times is None
    assert bytes(command.body) == b"hello"


@asyncio_test
async def test_message_fields_travel_as_properties() -> None:
    # P-15, P-16, P-17, P-18, P-19, P-20b, P-20c
    cluster = one_broker(1)
    producer = await cluster.producer()
    body = bytes(range(256))
    message = Message(
        "T", body, tags="A", keys=["k1", "k2"], delay_level=18, wait_store_ok=False, properties={"colour": "red"}
    )
    await producer.send(message)
    await producer.send(Message("T", b"x", tags="", keys=""))
    (header, wire), (plain, _) = cluster.brokers["broker-a"].stored
    properties = decode_properties(header.properties or "")
    assert wire == body
    assert (properties["TAGS"], properties["KEYS"], properties["DELAY"]) == ("A", "k1 k2", "18")
    assert (properties["WAIT"], properties["colour"]) == ("false", "red")
    assert set(decode_properties(plain.properties or "")) == {"WAIT", "UNIQ_KEY"}
    for name, value in (("KEYS", "x"), (" ", "x"), ("colour", "")):
        with pytest.raises(ValidationError):
            message.put_property(name, value)


@asyncio_test
async def test_no_placeholder_for_the_default_topic() -> None:
    # P-29: left out, as in current releases
    cluster = one_broker()
    producer = await cluster.producer()
    assert list(producer.published_topics()) == []


@asyncio_test
async def test_long_header_names_on_request() -> None:
    # P-99
    cluster = one_broker()
    received: list[Command] = []

    def answer(command: Command) -> Command:
        received.append(command)
        return command.reply(ext={"msgId": "0", "queueId": "0", "queueOffset": "0"})

    cluster.transport.peers["10.0.0.1:10911"] = answer
    producer = await cluster.producer(smart_send=False)
    await producer.send(Message("T", b"x"))
    assert received[-1].code == RequestCode.SEND_MESSAGE
    assert received[-1].header(SendMessageHeader).producer_group == "PG"


@asyncio_test
async def test_flag_is_not_the_system_flag() -> None:
    # P-12, P-13
    cluster = one_broker()
    producer = await cluster.producer()
    await producer.send(Message("T", b"x", flag=0x1F))
    header, _ = cluster.brokers["broker-a"].stored[0]
    assert (header.flag, header.sys_flag) == (0x1F, 0)


@pytest.mark.parametrize("kind", list(CompressionType))
@asyncio_test
async def test_large_bodies_are_compressed(kind: CompressionType) -> None:
    # P-14, P-90, P-97, P-100: the caller's message is untouched
    cluster = one_broker()
    producer = await cluster.producer(compress_type=kind)
    body = b"ab" * 2048
    message = Message("T", body)
    await producer.send(message)
    header, wire = cluster.brokers["broker-a"].stored[0]
    assert header.sys_flag == sysflag.COMPRESSED | kind << 8
    assert len(wire) < len(body)
    assert decompress(wire, header.sys_flag) == body
    assert message.body == body
    await producer.send(Message("T", body[:-1]))
    header, wire = cluster.brokers["broker-a"].stored[1]
    assert header.sys_flag == 0
    assert wire == body[:-1]


def test_body_that_cannot_be_compressed_goes_as_it_is() -> None:
    # P-90
    config = ProducerConfig(compress_level=77)
    envelope = prepare(Message("T", b"a" * 5000), config, lambda: "ID")
    assert envelope.body == b"a" * 5000
    assert envelope.sys_flag == 0


@asyncio_test
async def test_unique_id_is_set_once() -> None:
    # P-88
    cluster = one_broker()
    producer = await cluster.producer()
    message = Message("T", b"x")
    first = await producer.send(message)
    second = await producer.send(message)
    other = await producer.send(Message("T", b"x"))
    assert first.message_id == second.message_id != other.message_id


@asyncio_test
async def test_transaction_bit() -> None:
    # P-91
    cluster = one_broker()
    producer = await cluster.producer()
    message = Message("T", b"x")
    message.properties["TRAN_MSG"] = "true"
    await producer.send(message)
    assert cluster.brokers["broker-a"].stored[0][0].sys_flag == sysflag.PREPARED


@asyncio_test
async def test_namespace_is_put_on_and_taken_off() -> None:
    # P-22, P-64, P-89, P-100
    cluster = two_brokers()
    cluster.add_topic("N%T")
    producer = await cluster.producer(namespace="N", retries=2)
    for broker in cluster.brokers.values():
        broker.script = [fail(SendError("lost"))]
    message = Message("T", b"x")
    result = await producer.send(message)
    for _, command in sends(cluster):
        header = command.header(SendMessageV2Header)
        assert header.topic == "N%T"
        assert header.producer_group == "N%PG"
        assert decode_properties(header.properties or "")["INSTANCE_ID"] == "N"
    assert len(sends(cluster)) == 3
    assert message.topic == "T"
    assert result.queue.topic == "T"
    seen: list[MessageQueue] = []

    def selector(queues: Sequence[MessageQueue], given: Message, _: Any) -> MessageQueue:
        # P-76: without the namespace, and a copy
        assert given.topic == "T"
        seen.extend(queues)
        assert isinstance(queues, list)
        queues.clear()
        return seen[1]

    await producer.send(Message("T", b"x"), selector=selector)
    assert {queue.topic for queue in seen} == {"T"}
    assert len(await producer.publish_queues("T")) == 8


@asyncio_test
async def test_state_is_checked() -> None:
    # P-21, P-57
    cluster = one_broker()
    producer = cluster.new_producer()
    with pytest.raises(ServiceStateError, match="CREATE_JUST"):
        await producer.send(Message("T", b"x"))
    await producer.close()  # nothing to do
    await producer.start()
    with pytest.raises(ServiceStateError, match="RUNNING"):
        await producer.start()
    await producer.close()
    await producer.close()
    assert producer.state is ServiceState.SHUTDOWN_ALREADY
    with pytest.raises(ServiceStateError, match="SHUTDOWN_ALREADY"):
        await producer.send(Message("T", b"x"))
    with pytest.raises(ServiceStateError, match="SHUTDOWN_ALREADY"):
        await producer.start()
    assert cluster.clock.pending == 0


@asyncio_test
async def test_duplicate_group_can_start_again_later() -> None:
    # P-21, P-28
    cluster = one_broker()
    first = await cluster.producer(instance_name="shared")
    second = cluster.new_producer(instance_name="shared")
    with pytest.raises(ClientError, match="one per group"):
        await second.start()
    assert second.state is ServiceState.CREATE_JUST
    await first.close()
    await second.start()
    await second.close()


@asyncio_test
async def test_first_heartbeat_follows_the_start() -> None:
    # P-31
    cluster = one_broker()
    first = await cluster.producer("PG1", instance_name="shared")
    await first.send(Message("T", b"x"))
    await cluster.producer("PG2", instance_name="shared")
    (beat,) = cluster.brokers["broker-a"].heartbeats
    groups = {producer.group_name for producer in HeartbeatData.decode(beat.body).producer_data_set}
    assert groups == {"PG1", "PG2"}


@asyncio_test
async def test_failed_start_leaves_nothing_behind() -> None:
    cluster = one_broker()
    producer = cluster.new_producer(topics=("T",))

    def broken(_: Command) -> Command:
        raise RuntimeError("boom")

    cluster.transport.peers["ns1:9876"] = broken
    with pytest.raises(RuntimeError):
        await producer.start()
    assert producer.state is ServiceState.START_FAILED
    assert cluster.transport.closed
    assert cluster.clock.pending == 0
    with pytest.raises(ServiceStateError, match="START_FAILED"):
        await producer.start()
    await producer.close()


@asyncio_test
async def test_routes_can_be_fetched_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    cluster = one_broker()
    producer = await cluster.producer(topics=("T", "missing"))
    assert cluster.lookups == ["T", "missing", "TBW102"]
    assert "missing" in caplog.text
    await producer.send(Message("T", b"x"))
    assert len(cluster.lookups) == 3


@asyncio_test
async def test_route_is_cached_by_the_producer() -> None:
    # P-37
    cluster = one_broker()
    producer = await cluster.producer()
    for _ in range(3):
        await producer.send(Message("T", b"x"))
    assert cluster.lookups == ["T"]
    assert producer.published_topics() == ["T"]


@asyncio_test
async def test_default_topic_is_borrowed() -> None:
    # P-40, P-41, P-42, P-55 (3): the real topic is asked for first, then TBW102; its route serves the real topic
    cluster = FakeCluster("broker-a")
    cluster.add_topic("TBW102", 8, perm=7)
    producer = await cluster.producer()
    await producer.send(Message("new", b"x"))
    assert cluster.lookups == ["new", "TBW102"]
    assert len(await producer.publish_queues("new")) == 4
    header, _ = cluster.brokers["broker-a"].stored[0]
    assert (header.topic, header.default_topic, header.default_topic_queue_nums) == ("new", "TBW102", 4)
    # P-55 (5): the periodic refresh picks up what the broker registered
    cluster.add_topic("new", 2)
    await cluster.clock.advance(31.0)
    assert len(await producer.publish_queues("new")) == 2


@asyncio_test
async def test_create_topic_key_is_honoured() -> None:
    # P-40
    cluster = FakeCluster("broker-a")
    cluster.add_topic("MYKEY", 3)
    producer = await cluster.producer(create_topic_key="MYKEY", default_topic_queues=8)
    await producer.send(Message("new", b"x"))
    assert cluster.lookups == ["new", "MYKEY"]
    assert len(await producer.publish_queues("new")) == 3


@asyncio_test
async def test_no_route_says_who_was_asked() -> None:
    # P-53
    cluster = FakeCluster("broker-a", name_servers=("ns1:9876", "ns2:9876"))
    producer = await cluster.producer()
    with pytest.raises(NoRouteError) as caught:
        await producer.send(Message("T", b"x"))
    error = caught.value
    assert error.code == ErrorCode.TOPIC_NOT_FOUND
    assert error.retryable
    assert "TOPIC_NOT_EXIST" in str(error)
    assert any(name in str(error) for name in ("ns1:9876", "ns2:9876"))
    assert producer.needs_route("T")


@asyncio_test
async def test_no_name_server() -> None:
    # P-53
    cluster = FakeCluster("broker-a", name_servers=())
    producer = Producer("PG", clock=cluster.clock, transport=cluster.transport, client_ip="10.1.1.1", namesrv="x:1")
    await producer.start()
    producer._instance.name_servers.update([])
    with pytest.raises(NoRouteError) as caught:
        await producer.send(Message("T", b"x"))
    assert caught.value.code == ErrorCode.NO_NAME_SERVER


@asyncio_test
async def test_route_without_writable_queues() -> None:
    # P-53
    cluster = FakeCluster("broker-a")
    cluster.add_topic("T", perm=4)
    producer = await cluster.producer()
    with pytest.raises(NoRouteError) as caught:
        await producer.send(Message("T", b"x"))
    assert str(caught.value) == (
        "topic 'T' has a route, but no queue that can be written on a broker with a master; "
        "name servers asked: ns1:9876: answered"
    )
    assert cluster.lookups == ["T"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("", b"x"), None),
        (Message(" ", b"x"), None),
        (Message("x" * 128, b"x"), None),
        (Message("with space", b"x"), None),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), None),
        (Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x"), None),
        (Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"x"), None),
        (Message("TRANS_CHECK_MAX_TIME_TOPIC", b"x"), None),
        (Message("SELF_TEST_TOPIC", b"x"), None),
        (Message("OFFSET_MOVED_EVENT", b"x"), None),
        (Message("T", b""), 13),
        (Message("T", None), 13),  # type: ignore[arg-type]  # what a careless caller does
        (None, 13),
        (Message("T", b"x" * 101), 13),
        (Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "a/b"}), 13),
    ],
)
@asyncio_test
async def test_message_check(message: Message, code: int | None) -> None:
    # P-58, P-59, P-60
    cluster = one_broker()
    producer = await cluster.producer(max_message_size=100)
    with pytest.raises(ClientError) as caught:
        await producer.send(message)
    assert caught.value.code == code
    assert sends(cluster) == []


@asyncio_test
async def test_longest_topic_and_body() -> None:
    # P-58, P-59: 127 itself is legal, and so is the limit of the body
    cluster = FakeCluster("broker-a")
    cluster.add_topic("t" * 127)
    producer = await cluster.producer(max_message_size=100)
    await producer.send(Message("t" * 127, b"x" * 100))


@asyncio_test
async def test_properties_that_cannot_be_written() -> None:
    cluster = one_broker()
    producer = await cluster.producer()
    with pytest.raises(ClientError, match="32767") as caught:
        await producer.send(Message("T", b"x", properties={"long": "x" * 40_000}))
    assert caught.value.code == 13
    assert sends(cluster) == []


@asyncio_test
async def test_three_attempts_on_other_brokers() -> None:
    # P-61, P-62, P-71, P-108, P-115
    cluster = two_brokers()
    producer = await cluster.producer()
    a, b = cluster.brokers.values()
    a.script = [fail(SendError("x"))] * 3
    b.script = [fail(SendError("x"))] * 3
    with pytest.raises(SendFailedError) as caught:
        await producer.send(Message("T", b"x"))
    error = caught.value
    addresses = [address for address, _ in sends(cluster)]
    assert len(addresses) == 3
    assert addresses[0] != addresses[1] != addresses[2]
    assert error.attempts == 3
    assert len(error.brokers) == 3
    # P-69
    assert "'T'" in str(error)
    assert "3 attempt(s)" in str(error)
    assert all(name in str(error) for name in ("broker-a", "broker-b", "ms"))
    ids = {decode_properties(c.header(SendMessageV2Header).properties or "")["UNIQ_KEY"] for _, c in sends(cluster)}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectError("x"), ErrorCode.CONNECT_BROKER),
        (CallTimeout("x"), ErrorCode.ACCESS_BROKER_TIMEOUT),
        (SendError("x"), None),
    ],
)
@asyncio_test
async def test_final_error_code(error: Exception, code: int | None) -> None:
    # P-69
    cluster = one_broker()
    producer = await cluster.producer()
    cluster.brokers["broker-a"].script = [fail(error)] * 3
    with pytest.raises(SendFailedError) as caught:
        await producer.send(Message("T", b"x"))
    assert caught.value.code == code
    assert caught.value.__cause__ is error
    assert caught.value.broker == "broker-a"


@pytest.mark.parametrize("code", [17, 14, 1, 2, 16, 204, 205])
@asyncio_test
async def test_retryable_answers_go_elsewhere(code: int) -> None:
    # P-67, P-68
    cluster = two_brokers()
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [refuse(code)]
    result = await producer.send(Message("T", b"x"))
    assert result.status is SendStatus.SEND_OK
    assert len(sends(cluster)) == 3


@asyncio_test
async def test_final_error_keeps_the_brokers_code() -> None:
    # P-69
    cluster = one_broker()
    producer = await cluster.producer()
    cluster.brokers["broker-a"].script = [refuse(2, "[OVERLOAD]system busy")] * 3
    with pytest.raises(SendFailedError) as caught:
        await producer.send(Message("T", b"x"))
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    assert caught.value.remark == "[OVERLOAD]system busy"
    assert caught.value.retryable


@asyncio_test
async def test_other_answers_are_final() -> None:
    # P-68
    cluster = two_brokers()
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [refuse(13, "too large")]
    with pytest.raises(BrokerError) as caught:
        await producer.send(Message("T", b"x"))
    error = caught.value
    assert (error.code, error.remark, error.retryable) == (13, "too large", False)
    assert error.broker in cluster.brokers
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_retryable_codes_can_be_extended() -> None:
    # P-68
    cluster = two_brokers()
    producer = await cluster.producer(retryable_codes=frozenset({13}))
    for broker in cluster.brokers.values():
        broker.script = [refuse(13)]
    await producer.send(Message("T", b"x"))
    assert len(sends(cluster)) == 3


NOT_OK = {
    10: SendStatus.FLUSH_DISK_TIMEOUT,
    11: SendStatus.SLAVE_NOT_AVAILABLE,
    12: SendStatus.FLUSH_SLAVE_TIMEOUT,
}


@pytest.mark.parametrize("code", NOT_OK)
@asyncio_test
async def test_other_statuses_are_results(code: int) -> None:
    # P-66, P-114
    cluster = two_brokers()
    producer = await cluster.producer()
    for broker in cluster.brokers.values():
        broker.script = [lambda command, broker=broker: broker.store(command, code)]  # type: ignore[misc]  # bound now
    result = await producer.send(Message("T", b"x"))
    assert result.status is NOT_OK[code]
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_not_stored_safely_can_be_retried_elsewhere() -> None:
    # P-66
    cluster = two_brokers()
    producer = await cluster.producer(retry_when_not_stored=True)
    for broker in cluster.brokers.values():
        broker.script = [lambda command, broker=broker: broker.store(command, 12)]  # type: ignore[misc]  # bound now
    result = await producer.send(Message("T", b"x"))
    assert result.status is SendStatus.SEND_OK
    assert len(sends(cluster)) == 3


@pytest.mark.parametrize("later", [SendError("x"), BrokerError(13, "x"), None])
@asyncio_test
async def test_earlier_result_beats_a_later_error(later: Exception | None) -> None:
    # P-66, P-68, section 4.1
    cluster = one_broker()
    producer = await cluster.producer(retry_when_not_stored=True)
    broker = cluster.brokers["broker-a"]

    def slow(command: Command) -> Command:
        cluster.clock.now += 10
        return broker.store(command, 10)

    if later is None:
        broker.script = [slow]
    elif isinstance(later, BrokerError):
        broker.script = [lambda command: broker.store(command, 10), refuse(13)]
    else:
        broker.script = [lambda command: broker.store(command, 10), fail(later), fail(later)]
    result = await producer.send(Message("T", b"x"))
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT


@asyncio_test
async def test_rounds_share_the_time() -> None:
    # P-63
    cluster = two_brokers()
    producer = await cluster.producer()

    def slow(_: Command) -> Exception:
        cluster.clock.now += 1.0
        return SendError("x")

    for broker in cluster.brokers.values():
        broker.script = [slow] * 3
    with pytest.raises(SendFailedError):
        await producer.send(Message("T", b"x"), timeout=2.5)
    assert [timeout for _, command, timeout in cluster.transport.calls if command.code == 310] == [2.5, 1.5, 0.5]


@asyncio_test
async def test_time_over_between_rounds() -> None:
    # P-63: TooMuchRequest even though an earlier exception exists
    cluster = two_brokers()
    producer = await cluster.producer()

    def slow(_: Command) -> Exception:
        cluster.clock.now += 1.1
        return SendError("x")

    for broker in cluster.brokers.values():
        broker.script = [slow] * 3
    with pytest.raises(TooManyRequestsError, match="1 attempt") as caught:
        await producer.send(Message("T", b"x"), timeout=1.0)
    assert caught.value.retryable
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_bound_per_request() -> None:
    # P-63: not for the last round
    cluster = two_brokers()
    producer = await cluster.producer(max_timeout_per_request=0.5)
    for broker in cluster.brokers.values():
        broker.script = [fail(SendError("x"))] * 3
    with pytest.raises(SendFailedError):
        await producer.send(Message("T", b"x"), timeout=2.0)
    assert [timeout for _, command, timeout in cluster.transport.calls if command.code == 310] == [0.5, 0.5, 2.0]


@asyncio_test
async def test_explicit_timeout_and_default() -> None:
    # P-06: rows 1, 2, 6, 7, 11, 12
    cluster = one_broker()
    producer = await cluster.producer()
    queue = MessageQueue("T", "broker-a", 2)
    for options in ({}, {"queue": queue}, {"selector": by_hash, "arg": "x"}):
        await producer.send(Message("T", b"x"), **options)
        assert cluster.transport.calls[-1][2] == 3.0
        await producer.send(Message("T", b"x"), timeout=1.0, **options)
        assert cluster.transport.calls[-1][2] == 1.0


@asyncio_test
async def test_missing_broker_address_is_looked_up_again() -> None:
    # P-86
    cluster = one_broker()
    producer = await cluster.producer()
    await producer.send(Message("T", b"x"))
    producer._instance.topology.brokers.clear()
    producer._instance.topology.routes.clear()
    await producer.send(Message("T", b"x"))
    assert cluster.lookups == ["T", "T"]


@asyncio_test
async def test_broker_that_left() -> None:
    # P-86, P-69: ClientError counts as 10003, and each round looks again
    cluster = one_broker()
    producer = await cluster.producer()
    await producer.send(Message("T", b"x"))
    cluster.routes.clear()
    producer._instance.topology.brokers.clear()
    with pytest.raises(SendFailedError) as caught:
        await producer.send(Message("T", b"x"))
    assert caught.value.code == ErrorCode.BROKER_NOT_EXIST
    with pytest.raises(ClientError) as single:
        await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))
    assert single.value.code == ErrorCode.BROKER_NOT_EXIST


@asyncio_test
async def test_vip_channel_is_used() -> None:
    # P-87
    cluster = one_broker()
    cluster.transport.peers["10.0.0.1:10909"] = cluster.brokers["broker-a"]
    producer = await cluster.producer(vip_channel=True)
    await producer.send(Message("T", b"x"))
    assert sends(cluster)[0][0] == "10.0.0.1:10909"


@asyncio_test
async def test_cancelled_send_is_not_retried() -> None:
    # P-67: interruption
    cluster = two_brokers()
    producer = await cluster.producer(latency_faults=True)
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    for broker in cluster.brokers.values():
        broker.script = [lambda _: stuck]
    task = asyncio.ensure_future(producer.send(Message("T", b"x")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(sends(cluster)) == 1


@asyncio_test
async def test_explicit_queue_has_one_attempt() -> None:
    # P-05, P-06 rows 6, 7
    cluster = two_brokers()
    producer = await cluster.producer()
    queue = MessageQueue("T", "broker-b", 3)
    result = await producer.send(Message("T", b"x"), queue=queue)
    assert result.queue == queue
    cluster.brokers["broker-b"].script = [fail(CallTimeout("x"))]
    with pytest.raises(TransportError) as caught:
        await producer.send(Message("T", b"x"), queue=queue)
    assert caught.value.code == ErrorCode.ACCESS_BROKER_TIMEOUT
    assert caught.value.broker == "broker-b"
    cluster.brokers["broker-b"].script = [refuse(2)]
    with pytest.raises(BrokerError):
        await producer.send(Message("T", b"x"), queue=queue)
    assert len(sends(cluster)) == 3


@asyncio_test
async def test_queue_of_another_topic() -> None:
    # table 1.1a: refused, except for the one-way form, which does not check
    cluster = one_broker()
    producer = await cluster.producer()
    await producer.send(Message("T", b"x"))
    queue = MessageQueue("other", "broker-a", 0)
    with pytest.raises(ClientError, match="'other'"):
        await producer.send(Message("T", b"x"), queue=queue)
    with pytest.raises(ClientError, match="'other'"):
        await producer.send_async(Message("T", b"x"), queue=queue)
    await producer.send_oneway(Message("T", b"x"), queue=queue)
    with pytest.raises(ClientError, match="not both"):
        await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0), selector=by_hash)


@asyncio_test
async def test_selector_sends() -> None:
    # P-06 rows 11, 12; P-75, P-76
    cluster = two_brokers()
    producer = await cluster.producer()
    first = await producer.send(Message("T", b"x"), selector=by_hash, arg="order-1")
    second = await producer.send(Message("T", b"x"), selector=by_hash, arg="order-1")
    assert first.queue == second.queue == MessageQueue("T", "broker-b", 2)
    cluster.brokers["broker-b"].script = [fail(SendError("x"))]
    with pytest.raises(TransportError):
        await producer.send(Message("T", b"x"), selector=by_hash, arg="order-1")
    assert len(sends(cluster)) == 3
    with pytest.raises(ClientError, match="found none"):
        await producer.send(Message("T", b"x"), selector=lambda *_: None)

    def broken(*_: object) -> MessageQueue:
        raise KeyError("boom")

    with pytest.raises(ClientError, match="selector failed"):
        await producer.send(Message("T", b"x"), selector=broken)


@asyncio_test
async def test_ordered_topic_sends_to_its_configured_queues() -> None:
    # P-48
    cluster = two_brokers()
    cluster.routes["T"].order_topic_conf = "broker-b:1"
    producer = await cluster.producer()
    assert await producer.publish_queues("T") == [MessageQueue("T", "broker-b", 0)]


@asyncio_test
async def test_static_topic_sends_to_the_owner_of_the_queue() -> None:
    # P-49
    cluster = two_brokers()
    cluster.routes["T"].topic_queue_mapping_by_broker = {
        name: TopicQueueMappingInfo(
            bname=name, epoch=1, curr_id_map={number: 0}, scope="__global__", topic="T", total_queues=2
        )
        for number, name in enumerate(("broker-a", "broker-b"))
    }
    producer = await cluster.producer()
    queues = await producer.publish_queues("T")
    assert queues == [MessageQueue("T", "__syslo__global__", number) for number in range(2)]
    for queue, owner in zip(queues, ("broker-a", "broker-b"), strict=True):
        result = await producer.send(Message("T", b"x"), queue=queue)
        assert result.queue == queue
        header, _ = cluster.brokers[owner].stored[-1]
        assert (header.bname, header.queue_id) == (owner, queue.queue_id)


@asyncio_test
async def test_oneway() -> None:
    # P-03, P-06 rows 5, 10, 15; P-107
    cluster = one_broker()
    producer = await cluster.producer()
    await producer.send_oneway(Message("T", b"1"))
    await producer.send_oneway(Message("T", b"2"), queue=MessageQueue("T", "broker-a", 2))
    await producer.send_oneway(Message("T", b"3"), selector=by_hash, arg="order-1")
    headers = [command.header(SendMessageV2Header) for _, command in cluster.transport.oneways]
    assert [header.queue_id for header in headers[1:]] == [2, 2]
    assert len(sends(cluster)) == 0
    cluster.transport.oneway_error = ConnectError("down")
    await producer.send_oneway(Message("T", b"4"))  # silent
    cluster.transport.oneway_error = InFlightLimitReached("full")
    with pytest.raises(TooManyRequestsError):
        await producer.send_oneway(Message("T", b"5"))
    with pytest.raises(ClientError, match="batch"):
        await producer.send_oneway([Message("T", b"6")])  # type: ignore[arg-type]  # refused by type and by value


@asyncio_test
async def test_batch() -> None:
    # P-04, P-06 rows 16-19, P-110, P-111
    cluster = one_broker()
    producer = await cluster.producer()
    messages = [Message("T", b"one", tags="A"), Message("T", b"two", keys="k")]
    result = await producer.send(messages)
    (_, command), *_ = sends(cluster)
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    header = command.header(SendMessageV2Header)
    assert header.batch
    # only WAIT: brokers append the envelope's properties to every member
    assert decode_properties(header.properties or "") == {"WAIT": "true"}
    items = list(iter_batch(command.body))
    assert [bytes(item.body) for item in items] == [b"one", b"two"]
    ids = [decode_properties(bytes(item.properties))["UNIQ_KEY"] for item in items]
    assert result.message_id == ",".join(ids)
    assert ids == [message.unique_id for message in messages]
    queue = MessageQueue("T", "broker-a", 1)
    assert (await producer.send(messages, queue=queue, timeout=1.0)).queue == queue
    with pytest.raises(ClientError, match="selector"):
        await producer.send(messages, selector=by_hash)


def test_batch_record_bytes() -> None:
    # P-112
    message = Message("T", b"hi", tags="A")
    expected = "00000029000000000000000000000000000000026869001154414753014102574149540174727565" + "02"
    assert encode_batch([message]).hex() == expected
    assert encode_batch([message, message]).hex() == expected * 2


def delayed() -> Message:
    return Message("T", b"x", delay_level=3)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("T", b"x"), Message("other", b"x")],
        [Message("T", b"x"), Message("T", b"x", wait_store_ok=False)],
        [Message("T", b"x"), Message("T", b"x", delay_level=3)],
        [Message("%RETRY%CG", b"x"), Message("%RETRY%CG", b"x")],
        [Message("T", b"x"), Message("T", b"")],
    ],
)
@asyncio_test
async def test_batch_rules(messages: list[Message]) -> None:
    # P-109, P-110
    cluster = one_broker()
    producer = await cluster.producer()
    with pytest.raises(ClientError):
        await producer.send(messages)
    assert sends(cluster) == []


@asyncio_test
async def test_batch_size_and_no_compression() -> None:
    # P-113
    cluster = one_broker()
    producer = await cluster.producer(max_message_size=10_000)
    await producer.send([Message("T", b"a" * 4500), Message("T", b"a" * 4500)])
    assert cluster.brokers["broker-a"].stored[0][0].sys_flag == 0
    assert len(cluster.brokers["broker-a"].stored[0][1]) > 9000
    with pytest.raises(ClientError, match="in pieces") as caught:
        await producer.send([Message("T", b"a" * 5000), Message("T", b"a" * 5000)])
    assert caught.value.code == 13


class Recording:
    name = "recording"

    def __init__(self) -> None:
        self.before_calls: list[SendContext] = []
        self.after_calls: list[SendContext] = []

    def before(self, context: SendContext) -> None:
        assert context.result is None
        assert isinstance(context.message, Message)
        context.message.properties["TRACE_CONTEXT"] = "abc"
        self.before_calls.append(context)
        raise RuntimeError("hooks may fail")

    def after(self, context: SendContext) -> None:
        self.after_calls.append(context)
        raise RuntimeError("hooks may fail")


@asyncio_test
async def test_send_hooks() -> None:
    # P-93: errors ignored, after also runs on failure
    cluster = one_broker()
    producer = await cluster.producer(namespace=None)
    hook = Recording()
    producer.send_hooks.append(hook)
    cluster.brokers["broker-a"].script = [fail(SendError("x"))]
    await producer.send(Message("T", b"x"))
    assert len(hook.before_calls) == len(hook.after_calls) == 2
    failed, succeeded = hook.after_calls
    assert isinstance(failed.error, SendError)
    assert failed.result is None
    assert succeeded.result is not None
    assert succeeded.mode is SendMode.SYNC
    assert succeeded.broker_address == "10.0.0.1:10911"
    assert succeeded.group == "PG"
    header, _ = cluster.brokers["broker-a"].stored[0]
    assert decode_properties(header.properties or "")["TRACE_CONTEXT"] == "abc"


def test_hook_message_type() -> None:
    # P-94
    half = Message("T", b"x")
    half.properties["TRAN_MSG"] = "true"
    assert MessageType.of(half) is MessageType.TRANSACTION_HALF
    half.properties["DELAY"] = "3"
    assert MessageType.of(half) is MessageType.DELAY
    assert MessageType.of(Message("T", b"x")) is MessageType.NORMAL
    timed = Message("T", b"x", properties={"__STARTDELIVERTIME": "1"})
    assert MessageType.of(timed) is MessageType.DELAY


@asyncio_test
async def test_forbidden_check_aborts() -> None:
    # P-92
    cluster = two_brokers()
    producer = await cluster.producer(unit_mode=True)
    seen: list[ForbiddenCheck] = []

    class Forbid:
        name = "forbid"

        def check(self, context: ForbiddenCheck) -> None:
            seen.append(context)
            raise PermissionError("not today")

    producer.forbidden_hooks.append(Forbid())
    with pytest.raises(SendForbiddenError, match="not today"):
        await producer.send(Message("T", b"x"))
    assert len(seen) == 1
    context = seen[0]
    assert (context.namesrv, context.group, context.mode, context.unit_mode) == ("ns1:9876", "PG", "SYNC", True)
    assert context.queue.topic == "T"
    assert sends(cluster) == []


@asyncio_test
async def test_time_over_before_the_request_leaves() -> None:
    # P-98
    cluster = one_broker()
    producer = await cluster.producer()

    class Slow:
        name = "slow"

        def before(self, context: SendContext) -> None:
            assert context.result is None
            cluster.clock.now += 2.0

        def after(self, context: SendContext) -> None:
            assert isinstance(context.error, TooManyRequestsError)

    producer.send_hooks.append(Slow())
    with pytest.raises(TooManyRequestsError, match="before the request was sent"):
        await producer.send(Message("T", b"x"), timeout=1.0, queue=MessageQueue("T", "broker-a", 0))
    with pytest.raises(TooManyRequestsError):
        await producer.send(Message("T", b"x"), timeout=1.0)
    assert sends(cluster) == []


@asyncio_test
async def test_retry_topic_properties_move_to_the_header() -> None:
    # P-96: in every round, and gone from the message afterwards
    cluster = FakeCluster("broker-a")
    cluster.add_topic("%RETRY%CG")
    producer = await cluster.producer()
    cluster.brokers["broker-a"].script = [fail(SendError("x"))]
    message = Message("%RETRY%CG", b"x")
    message.properties |= {"RECONSUME_TIME": "4", "MAX_RECONSUME_TIMES": "16"}
    await producer.send(message)
    for _, command in sends(cluster):
        header = command.header(SendMessageV2Header)
        assert (header.reconsume_times, header.max_reconsume_times) == (4, 16)
        assert "RECONSUME_TIME" in decode_properties(header.properties or "")
    assert "RECONSUME_TIME" not in message.properties
    assert "MAX_RECONSUME_TIMES" not in message.properties


@asyncio_test
async def test_unreadable_receipt() -> None:
    cluster = one_broker()
    producer = await cluster.producer()
    cluster.brokers["broker-a"].script = [lambda command: command.reply()]
    with pytest.raises(ClientError, match="cannot be read"):
        await producer.send(Message("T", b"x"))


@asyncio_test
async def test_only_the_transactional_producer_sends_in_transactions() -> None:
    # P-11
    cluster = one_broker()
    producer = await cluster.producer()
    with pytest.raises(ClientError, match="TransactionProducer"):
        await producer.send_in_transaction(Message("T", b"x"))


@asyncio_test
async def test_inner_producer_lives_in_its_instance() -> None:
    # P-30, P-34
    cluster = one_broker()
    producer = await cluster.producer()
    instance = producer._instance
    inner = await Producer.inside(instance)
    assert inner is await Producer.inside(instance)
    await inner.send(Message("T", b"x"))
    assert set(instance.producers) == {"PG", "CLIENT_INNER_PRODUCER"}
    await producer.close()
    assert instance.state is ServiceState.SHUTDOWN_ALREADY
