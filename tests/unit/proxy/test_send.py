"""SendMessage: what brokers are asked, which queue a message goes to, and what the caller hears."""

import asyncio
import zlib
from typing import Any

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import iter_batch
from pyromq.proxy.calls.send import OUTLET_SECONDS, Sends
from pyromq.proxy.messages.outlet import consistent_hash
from pyromq.proxy.messages.transactionid import decode_transaction_id
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, Encoding, MessageType
from pyromq.remoting.errors import CallTimeout, ConnectError, InFlightLimitReached
from tests.unit.proxy.messaging import NOW, Bench, FakeCluster, run

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
SIMPLE_ID = "01" + "00" * 16


def message(topic: str = "t", body: bytes = b"hello", **system: Any) -> Any:
    system.setdefault("message_id", SIMPLE_ID)
    system.setdefault("message_type", MessageType.NORMAL)
    made = messages.Message(body=body, system_properties=messages.SystemProperties(**system))
    made.topic.name = topic
    return made


def after(seconds: float) -> Any:
    moment = messages.Timestamp()
    moment.FromMilliseconds(NOW + int(seconds * 1000))
    return moment


class Sending(Bench):
    """Brokers that store everything, or refuse with `code`."""

    def __init__(self, *brokers: str) -> None:
        super().__init__(FakeCluster(*brokers))
        self.sends = Sends(self.core, self.catalogue)
        self.code = ResponseCode.SUCCESS
        self.recall_handle: str | None = None
        self.cluster.replies[SEND] = self.cluster.replies[BATCH] = self._store

    def _store(self, request: Command) -> Command:
        header = SendMessageResponseHeader(
            msg_id="0A00000100002A9F000000000001E240", queue_id=0, queue_offset=300, recall_handle=self.recall_handle
        )
        return request.reply(self.code, header, remark=None if self.code == ResponseCode.SUCCESS else "because")

    async def send(self, *given: Any, warm: bool = True) -> Any:
        if not warm:
            self.clock.now += int(OUTLET_SECONDS * 1000) + 1
        return await self.call(self.sends.methods(), "SendMessage", messages.SendMessageRequest(messages=given))

    def headers(self) -> list[SendMessageV2Header]:
        return [command.header(SendMessageV2Header) for command in self.cluster.of(SEND)]


def test_a_plain_message_becomes_one_request() -> None:
    async def story() -> None:
        bench = Sending()
        given = message(tag="paid", keys=["k1", "k2"], born_host="there", trace_context="tc")
        given.system_properties.born_timestamp.FromMilliseconds(NOW - 5)
        given.user_properties["colour"] = "red"
        answer = await bench.send(given)
        assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
        (entry,) = answer.entries
        assert (entry.status.code, entry.message_id, entry.offset) == (Code.OK, SIMPLE_ID, 300)
        assert (entry.transaction_id, entry.recall_handle) == ("", "")
        (header,) = bench.headers()
        assert (header.producer_group, header.topic, header.bname, header.sys_flag) == ("t", "t", "b", 0)
        assert header.born_timestamp == NOW - 5
        assert decode_properties(header.properties or "") == {
            "colour": "red",
            "TAGS": "paid",
            "KEYS": "k1 k2",
            "UNIQ_KEY": SIMPLE_ID,
            "TRACE_CONTEXT": "tc",
            "__BORNHOST": "there",
            "BORN_TIMESTAMP": str(NOW - 5),
            "PGROUP": "t",
        }
        assert bytes(bench.cluster.of(SEND)[0].body) == b"hello"

    run(story())


def test_what_a_client_leaves_out_is_filled_in() -> None:
    async def story() -> None:
        bench = Sending()
        await bench.send(message())
        properties = decode_properties(bench.headers()[0].properties or "")
        assert properties["__BORNHOST"] == "10.1.2.3"
        assert properties["BORN_TIMESTAMP"] == str(NOW)
        assert {"TAGS", "KEYS"}.isdisjoint(properties)

    run(story())


def test_plain_messages_take_all_queues_in_turn_whichever_is_named() -> None:
    async def story() -> None:
        bench = Sending("a", "b")
        for _ in range(8):
            await bench.send(message(queue_id=0))
            bench.clock.now += int(OUTLET_SECONDS * 1000) + 1  # a route that is looked up anew begins no new round
        places = [(header.bname, header.queue_id) for header in bench.headers()]
        assert sorted(places[:4]) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
        assert places[4:] == places[:4]

    run(story())


def test_a_group_keeps_its_queue() -> None:
    async def story() -> None:
        bench = Sending("a", "b")
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "FIFO"})
        for group in ("g1", "g2", "g3", "g4", "g5", "g6"):
            for _ in range(2):
                answer = await bench.send(message(message_type=MessageType.FIFO, message_group=group))
                assert answer.status.code == Code.OK
        headers = bench.headers()
        places = [(header.bname, header.queue_id) for header in headers]
        assert places[::2] == places[1::2]
        assert len(set(places)) > 2
        assert decode_properties(headers[0].properties or "")["__SHARDINGKEY"] == "g1"

    run(story())


def test_the_hash_moves_few_groups_when_queues_are_added() -> None:
    # As Guava's Hashing.consistentHash, which other proxies use.
    assert [consistent_hash(number, 100) for number in range(8)] == [0, 55, 62, 8, 45, 59, 86, 97]
    assert (consistent_hash(10863919174838991, 11), consistent_hash(2202, 100001)) == (6, 15018)
    before = [consistent_hash(number, 8) for number in range(-500, 500)]
    behind = [consistent_hash(number, 9) for number in range(-500, 500)]
    moved = [(old, new) for old, new in zip(before, behind, strict=True) if old != new]
    assert all(new == 8 for _, new in moved)
    assert 50 < len(moved) < 200
    assert set(before) == set(range(8))


def test_a_delayed_message_has_a_recall_handle() -> None:
    async def story() -> None:
        bench = Sending()
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "DELAY"})
        bench.recall_handle = "handle"
        answer = await bench.send(message(message_type=MessageType.DELAY, delivery_timestamp=after(60)))
        assert (answer.entries[0].status.code, answer.entries[0].recall_handle) == (Code.OK, "handle")
        assert decode_properties(bench.headers()[0].properties or "")["TIMER_DELIVER_MS"] == str(NOW + 60_000)

    run(story())


def test_a_transaction_is_told_where_its_half_message_lies() -> None:
    async def story() -> None:
        bench = Sending()
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "TRANSACTION"})
        given = message(message_type=MessageType.TRANSACTION)
        given.system_properties.orphaned_transaction_recovery_duration.seconds = 30
        answer = await bench.send(given)
        place = decode_transaction_id(answer.entries[0].transaction_id)
        assert (place.broker_name, place.queue_offset, place.commit_log_offset) == ("b", 300, 123456)
        (header,) = bench.headers()
        properties = decode_properties(header.properties or "")
        assert (properties["TRAN_MSG"], properties["CHECK_IMMUNITY_TIME_IN_SECONDS"]) == ("true", "30")
        assert header.sys_flag == sysflag.PREPARED

    run(story())


def test_several_plain_messages_are_one_batch() -> None:
    async def story() -> None:
        bench = Sending()
        answer = await bench.send(message(message_id="a"), message(message_id="b", body=b"two"))
        assert [(entry.message_id, entry.offset) for entry in answer.entries] == [("a", 300), ("b", 301)]
        assert answer.status.code == Code.OK
        (batch,) = bench.cluster.of(BATCH)
        header = batch.header(SendMessageV2Header)
        assert header.batch is True
        assert decode_properties(header.properties or "") == {"WAIT": "true"}
        items = list(iter_batch(batch.body))
        assert [bytes(item.body) for item in items] == [b"hello", b"two"]
        assert decode_properties(items[1].properties)["UNIQ_KEY"] == "b"

    run(story())


def test_messages_that_cannot_be_a_batch_go_one_by_one_with_a_result_each() -> None:
    async def story() -> None:
        bench = Sending()
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "MIXED"})
        codes = iter([ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT])

        def store(request: Command) -> Command:
            bench.code = next(codes)
            return bench._store(request)

        bench.cluster.replies[SEND] = store
        answer = await bench.send(*[message(message_id=name, message_group="g") for name in "abc"])
        assert answer.status.code == Code.MULTIPLE_RESULTS
        assert [(entry.message_id, entry.status.code) for entry in answer.entries] == [
            ("a", Code.OK),
            ("b", Code.TOO_MANY_REQUESTS),
            ("c", Code.MASTER_PERSISTENCE_TIMEOUT),
        ]

    run(story())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, Code.MASTER_PERSISTENCE_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, Code.SLAVE_PERSISTENCE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, Code.HA_NOT_AVAILABLE),
    ],
)
def test_a_message_that_is_stored_less_safely_has_an_entry_that_says_so(code: ResponseCode, expected: Code) -> None:
    async def story() -> None:
        bench = Sending()
        bench.code = code
        answer = await bench.send(message())
        assert (answer.status.code, answer.entries[0].status.code) == (expected, expected)
        assert answer.entries[0].offset == 300

    run(story())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ResponseCode.SYSTEM_BUSY, Code.TOO_MANY_REQUESTS),
        (ResponseCode.TOPIC_NOT_EXIST, Code.TOPIC_NOT_FOUND),
        (ResponseCode.NO_PERMISSION, Code.FORBIDDEN),
        (ResponseCode.SYSTEM_ERROR, Code.INTERNAL_SERVER_ERROR),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, Code.NOT_IMPLEMENTED),
    ],
)
def test_what_a_broker_refuses_is_told(code: ResponseCode, expected: Code) -> None:
    async def story() -> None:
        bench = Sending()
        bench.code = code
        answer = await bench.send(message())
        assert (answer.status.code, answer.status.message) == (expected, "because")
        assert not answer.entries

    run(story())


@pytest.mark.parametrize("code", ResponseCode)
def test_the_short_way_ends_as_the_long_one(code: ResponseCode) -> None:
    async def story() -> None:
        bench = Sending()
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "MIXED"})
        bench.code = code
        for given in (message(), message(message_group="g")):
            long = await bench.send(given, warm=False)
            short = await bench.send(given)
            assert short == long

    run(story())


def test_on_the_short_way_a_broker_is_asked_at_once() -> None:
    async def story() -> None:
        bench = Sending()
        await bench.send(message())
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        asked: list[Command] = []

        def ask(_caller: Any, _broker: str, command: Command, _timeout: float) -> asyncio.Future[Command]:
            asked.append(command)
            return future

        bench.cluster.ask = ask  # type: ignore[assignment, method-assign]
        tasks = len(asyncio.all_tasks())
        answering = asyncio.ensure_future(bench.send(message()))
        await asyncio.sleep(0)
        assert len(asked) == 1
        assert len(asyncio.all_tasks()) == tasks + 1, "that of this test"
        future.set_result(bench._store(asked[0]))
        assert (await answering).entries[0].offset == 300

    run(story())


def test_a_caller_that_leaves_is_not_answered() -> None:
    async def story() -> None:
        bench = Sending()
        await bench.send(message())
        gate = asyncio.Event()

        async def slowly(request: Command) -> Command:
            await gate.wait()
            return bench._store(request)

        bench.cluster.replies[SEND] = slowly
        answering = asyncio.ensure_future(bench.send(message()))
        await asyncio.sleep(0)
        answering.cancel()
        gate.set()
        await asyncio.gather(answering, return_exceptions=True)
        await asyncio.sleep(0)
        assert answering.cancelled()
        assert len(bench.cluster.of(SEND)) == 2

    run(story())


def test_another_broker_gets_what_the_first_could_not_be_asked() -> None:
    async def story() -> None:
        bench = Sending("a", "b")
        bench.cluster.failures["a"] = ConnectError("a is gone")
        for _ in range(4):
            assert (await bench.send(message())).status.code == Code.OK
        bench.cluster.failures["b"] = ConnectError("b is gone")
        answer = await bench.send(message())
        assert answer.status.code == Code.INTERNAL_SERVER_ERROR
        assert "is gone" in answer.status.message

    run(story())


def test_no_other_broker_gets_what_may_be_stored_or_must_stay_in_order() -> None:
    async def story() -> None:
        bench = Sending("a", "b")
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "MIXED"})
        await bench.send(message())
        bench.cluster.asked.clear()
        bench.cluster.failures = {"a": CallTimeout("slow"), "b": CallTimeout("slow")}
        assert (await bench.send(message())).status.code == Code.PROXY_TIMEOUT
        assert len(bench.cluster.of(SEND)) == 1
        bench.cluster.failures = {"a": InFlightLimitReached("full"), "b": InFlightLimitReached("full")}
        bench.cluster.asked.clear()
        assert (await bench.send(message(message_group="g"))).status.code == Code.TOO_MANY_REQUESTS
        assert len({broker for broker, _ in bench.cluster.asked}) == 1

    run(story())


def test_types_of_messages_and_topics_must_agree() -> None:
    async def story() -> None:
        bench = Sending()
        kinds = {
            "NORMAL": message(),
            "FIFO": message(message_group="g", message_type=MessageType.FIFO),
            "DELAY": message(delivery_timestamp=after(5), message_type=MessageType.DELAY),
            "TRANSACTION": message(message_type=MessageType.TRANSACTION),
        }
        for accepted in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", ""):
            bench.cluster.topics["t"] = TopicConfig(
                topic_name="t", attributes={"message.type": accepted} if accepted else {}
            )
            bench.clock.now += 60_000
            for kind, given in kinds.items():
                code = (await bench.send(given)).status.code
                fits = accepted == "MIXED" or kind == (accepted or "NORMAL")
                assert code == (Code.OK if fits else Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE), (accepted, kind)

    run(story())


FAULTS = {
    "no body": (message(body=b""), Code.MESSAGE_BODY_EMPTY),
    "a body too large": (message(body=bytes(4 * 1024 * 1024 + 1)), Code.MESSAGE_BODY_TOO_LARGE),
    "no topic": (message(topic=""), Code.ILLEGAL_TOPIC),
    "a long topic": (message(topic="t" * 128), Code.ILLEGAL_TOPIC),
    "an odd topic": (message(topic="a/b"), Code.ILLEGAL_TOPIC),
    "a system topic": (message(topic="RMQ_SYS_TRANS_HALF_TOPIC"), Code.ILLEGAL_TOPIC),
    "an unknown topic": (message(topic="nowhere"), Code.TOPIC_NOT_FOUND),
    "no id": (message(message_id=" "), Code.ILLEGAL_MESSAGE_ID),
    "an odd id": (message(message_id="a\x01b"), Code.ILLEGAL_MESSAGE_ID),
    "a blank tag": (message(tag="  "), Code.ILLEGAL_MESSAGE_TAG),
    "two tags": (message(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
    "an odd tag": (message(tag="a\x7fb"), Code.ILLEGAL_MESSAGE_TAG),
    "a blank key": (message(keys=["a", " "]), Code.ILLEGAL_MESSAGE_KEY),
    "an odd key": (message(keys=["a\nb"]), Code.ILLEGAL_MESSAGE_KEY),
    "a blank group": (message(message_group=" "), Code.ILLEGAL_MESSAGE_GROUP),
    "an odd group": (message(message_group="a\x02"), Code.ILLEGAL_MESSAGE_GROUP),
    "a long group": (message(message_group="é" * 32), Code.ILLEGAL_MESSAGE_GROUP),
    "a late delivery": (message(delivery_timestamp=after(24 * 3600 + 1)), Code.ILLEGAL_DELIVERY_TIME),
    "an odd trace": (message(trace_context="a\x02"), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    "no gzip": (message(body=b"\x1f\x8bno", body_encoding=Encoding.GZIP), Code.MESSAGE_CORRUPTED),
    "a lite message": (message(message_type=MessageType.LITE), Code.UNSUPPORTED),
    "a priority": (message(message_type=MessageType.PRIORITY), Code.UNSUPPORTED),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_code(fault: str) -> None:
    async def story() -> None:
        bench = Sending()
        given, code = FAULTS[fault]
        answer = await bench.send(given)
        assert answer.status.code == code, answer.status
        assert answer.status.message
        assert not bench.cluster.of(SEND)

    run(story())


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"KEYS": "x"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"PGROUP": "x"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"a\x01": "x"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"a": "\x02"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({str(number): "x" for number in range(129)}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"a": "é" * 8192}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"a": "x" * 16383}, Code.OK),
    ],
)
def test_user_properties_have_bounds(properties: dict[str, str], code: Code) -> None:
    async def story() -> None:
        bench, given = Sending(), message()
        for name, value in properties.items():
            given.user_properties[name] = value
        assert (await bench.send(given)).status.code == code

    run(story())


def test_a_recovery_duration_has_a_bound() -> None:
    async def story() -> None:
        bench, given = Sending(), message(message_type=MessageType.TRANSACTION)
        given.system_properties.orphaned_transaction_recovery_duration.seconds = 3601
        assert (await bench.send(given)).status.code == Code.BAD_REQUEST

    run(story())


def test_a_request_has_messages_of_one_topic() -> None:
    async def story() -> None:
        bench = Sending()
        assert (await bench.send()).status.code == Code.MESSAGE_CORRUPTED
        assert (await bench.send(message(), message(topic="u"))).status.code == Code.MESSAGE_CORRUPTED

    run(story())


def test_a_topic_that_nobody_may_write_to_is_forbidden() -> None:
    async def story() -> None:
        bench = Sending()
        bench.cluster.perm = 4
        assert (await bench.send(message())).status.code == Code.FORBIDDEN

    run(story())


def test_gzip_is_undone_and_zlib_is_marked() -> None:
    async def story() -> None:
        bench = Sending()
        packer = zlib.compressobj(wbits=31)
        await bench.send(message(body=packer.compress(b"plain") + packer.flush(), body_encoding=Encoding.GZIP))
        await bench.send(message(body=zlib.compress(b"plain"), body_encoding=Encoding.GZIP))
        first, second = bench.cluster.of(SEND)
        assert (bytes(first.body), bench.headers()[0].sys_flag) == (b"plain", 0)
        assert zlib.decompress(second.body) == b"plain"
        assert bench.headers()[1].sys_flag & sysflag.COMPRESSED

    run(story())
