"""ReceiveMessage: what a pop asks for, what the stream says, and what becomes of messages that are not delivered."""

import asyncio
from typing import Any

import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import encode_order_counts
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    PopMessageHeader,
    PopMessageResponseHeader,
)
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.message import Host, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.proxy.calls.receive import Receives
from pyromq.proxy.limits import Limits
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, FilterType
from tests.unit.proxy.messaging import NOW, Bench, FakeCall, run

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
CHANGE, BACK = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.CONSUMER_SEND_MSG_BACK


def stored(offset: int, *, reconsume_times: int = 0, **properties: str) -> ReceivedMessage:
    return ReceivedMessage(
        "t",
        b"body %d" % offset,
        {"UNIQ_KEY": f"id-{offset}", **properties},
        queue_offset=offset,
        physical_offset=1000 + offset,
        born_host=Host("10.0.0.9", 1),
        store_host=Host("10.0.0.1", 10911),
        reconsume_times=reconsume_times,
    )


def asked(**fields: Any) -> Any:
    fields.setdefault("batch_size", 32)
    fields.setdefault("invisible_duration", duration(30_000))
    fields.setdefault("long_polling_timeout", duration(5_000))
    request = messages.ReceiveMessageRequest(**fields)
    request.group.name = "g"
    request.message_queue.topic.name, request.message_queue.broker.name = "t", "b"
    return request


class Receiving(Bench):
    """A broker that has `found`, or answers with `code`; with a `gate`, only once that is open."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self.found: list[bytes] = []
        self.offsets: list[int] = []
        self.code = ResponseCode.SUCCESS
        self.counts: str | None = None
        self.gate: asyncio.Event | None = None
        self.renewal = Renewal(self.core)
        self.receives = Receives(self.core, self.catalogue, self.renewal, limits or Limits())
        self.methods = self.receives.methods()
        self.cluster.replies[POP] = self._pop

    def has(self, *found: ReceivedMessage) -> None:
        self.found = [encode_record(message) for message in found]
        self.offsets = [message.queue_offset for message in found]

    async def _pop(self, request: Command) -> Command:
        if self.gate is not None:
            await self.gate.wait()
        if not self.found or self.code != ResponseCode.SUCCESS:
            code = ResponseCode.POLLING_TIMEOUT if self.code == ResponseCode.SUCCESS else self.code
            return request.reply(code, remark="because")
        header = PopMessageResponseHeader(
            pop_time=NOW,
            invisible_time=request.header(PopMessageHeader).invisible_time,
            revive_qid=3,
            rest_num=0,
            start_offset_info=f"0 0 {self.offsets[0]}",
            msg_offset_info=f"0 0 {','.join(map(str, self.offsets))}",
            order_count_info=self.counts,
        )
        return request.reply(header=header, body=b"".join(self.found))

    async def receive(self, request: Any, call: FakeCall | None = None) -> list[Any]:
        return await self.stream(self.methods, "ReceiveMessage", request, call)

    async def code_of(self, request: Any, call: FakeCall | None = None) -> Code:
        answers = await self.receive(request, call)
        assert [answer.WhichOneof("content") for answer in answers] == ["status", "delivery_timestamp"]
        assert answers[0].status.message
        return Code(answers[0].status.code)

    @property
    def popped(self) -> PopMessageHeader:
        (command,) = self.cluster.of(POP)
        return command.header(PopMessageHeader)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_stream_is_status_messages_and_time() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.has(stored(7), stored(8))
        answers = await bench.receive(asked())
        kinds = [answer.WhichOneof("content") for answer in answers]
        assert kinds == ["status", "message", "message", "delivery_timestamp"]
        assert answers[0].status.code == Code.OK
        assert answers[3].delivery_timestamp.ToMilliseconds() == NOW
        system = answers[1].message.system_properties
        assert system.receipt_handle == f"7 {NOW} 30000 3 0 b 0 7 1007"
        assert (system.delivery_attempt, system.invisible_duration.seconds) == (1, 30)
        header = bench.popped
        assert (header.consumer_group, header.topic, header.queue_id, header.bname) == ("g", "t", -1, "b")
        assert (header.invisible_time, header.poll_time, header.max_msg_nums) == (30_000, 5_000, 32)
        assert (header.exp_type, header.exp, header.order, header.init_mode) == ("TAG", "*", False, 1)
        assert len(bench.renewal) == 0

    run(story())


def test_nothing_in_time_is_no_error() -> None:
    async def story() -> None:
        assert await Receiving().code_of(asked()) == Code.MESSAGE_NOT_FOUND

    run(story())


@pytest.mark.parametrize(
    ("asked_ms", "deadline", "expected"),
    [(5_000, 8.0, 5_000), (0, 3.0, 0), (60_000, 90.0, 20_000), (5_000, 2.0, 1_900), (None, 10.0, 8_500),
     (None, None, 20_000), (7_000, None, 7_000), (5_000, 0.05, 0)],
)  # fmt: skip
def test_a_poll_ends_before_the_deadline(asked_ms: int | None, deadline: float | None, expected: int) -> None:
    async def story() -> None:
        bench, request = Receiving(), asked()
        if asked_ms is None:
            request.ClearField("long_polling_timeout")
        else:
            request.long_polling_timeout.CopyFrom(duration(asked_ms))
        await bench.receive(request, FakeCall(deadline))
        assert bench.popped.poll_time == expected

    run(story())


def test_a_deadline_below_the_shortest_poll_is_refused() -> None:
    async def story() -> None:
        bench = Receiving(Limits(min_poll=5_000))
        assert await bench.code_of(asked(), FakeCall(4.0)) == Code.ILLEGAL_POLLING_TIME
        assert await bench.code_of(asked(long_polling_timeout=duration(1)), FakeCall(9)) == Code.MESSAGE_NOT_FOUND
        assert bench.popped.poll_time == 5_000

    run(story())


@pytest.mark.parametrize("span", [0, 9_999, 12 * 3_600_000 + 1, -5])
def test_invisible_times_have_bounds(span: int) -> None:
    async def story() -> None:
        bench = Receiving()
        assert await bench.code_of(asked(invisible_duration=duration(span))) == Code.ILLEGAL_INVISIBLE_TIME

    run(story())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("group", "name", ""), Code.ILLEGAL_CONSUMER_GROUP),
        (("group", "name", "g" * 121), Code.ILLEGAL_CONSUMER_GROUP),
        (("group", "name", "CID_RMQ_SYS_x"), Code.ILLEGAL_CONSUMER_GROUP),
        (("group", "name", "a b"), Code.ILLEGAL_CONSUMER_GROUP),
        (("message_queue.topic", "name", ""), Code.ILLEGAL_TOPIC),
        (("message_queue.topic", "name", "nowhere"), Code.TOPIC_NOT_FOUND),
        (("message_queue.broker", "name", "elsewhere"), Code.FORBIDDEN),
        (("filter_expression", "type", 7), Code.ILLEGAL_FILTER_EXPRESSION),
        (("filter_expression", "expression", "|| ||"), Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_each_fault_has_its_code(change: tuple[str, str, Any], code: Code) -> None:
    async def story() -> None:
        bench, request = Receiving(), asked()
        place, field, value = change
        part = request
        for name in place.split("."):
            part = getattr(part, name)
        setattr(part, field, value)
        assert await bench.code_of(request) == code
        assert not bench.cluster.of(POP)

    run(story())


def test_a_topic_that_nobody_may_read_is_forbidden() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.cluster.perm = 2
        assert await bench.code_of(asked()) == Code.FORBIDDEN

    run(story())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, Code.ILLEGAL_FILTER_EXPRESSION),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, Code.CONSUMER_GROUP_NOT_FOUND),
        (ResponseCode.POLLING_FULL, Code.TOO_MANY_REQUESTS),
        (ResponseCode.SYSTEM_BUSY, Code.TOO_MANY_REQUESTS),
        (ResponseCode.NO_PERMISSION, Code.FORBIDDEN),
        (ResponseCode.SYSTEM_ERROR, Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_what_a_broker_refuses_is_told(code: ResponseCode, expected: Code) -> None:
    async def story() -> None:
        bench = Receiving()
        bench.code = code
        assert await bench.code_of(asked()) == expected

    run(story())


def test_filters_reach_the_broker() -> None:
    async def story() -> None:
        bench, request = Receiving(), asked()
        request.filter_expression.type, request.filter_expression.expression = FilterType.SQL, "a > 5"
        await bench.receive(request)
        assert (bench.popped.exp_type, bench.popped.exp) == ("SQL92", "a > 5")
        request.filter_expression.expression = " "
        assert await bench.code_of(request) == Code.ILLEGAL_FILTER_EXPRESSION

    run(story())


def test_a_tag_that_only_hashes_alike_is_acknowledged_and_not_delivered() -> None:
    async def story() -> None:
        bench, request = Receiving(), asked()
        bench.has(stored(1, TAGS="AaAa"), stored(2, TAGS="BBBB"))  # one hash in Java
        request.filter_expression.type, request.filter_expression.expression = FilterType.TAG, "AaAa||x"
        answers = await bench.receive(request)
        assert [answer.message.body for answer in answers[1:-1]] == [b"body 1"]
        await settle()
        (ack,) = bench.cluster.of(ACK)
        assert ack.header(AckMessageHeader).offset == 2

    run(story())


def test_what_was_delivered_too_often_becomes_a_dead_letter() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.cluster.groups["g"] = SubscriptionGroupConfig(group_name="g", retry_max_times=2)
        bench.has(stored(1, reconsume_times=2), stored(2, reconsume_times=3))
        answers = await bench.receive(asked())
        assert [answer.message.system_properties.delivery_attempt for answer in answers[1:-1]] == [3]
        await settle()
        (back,) = bench.cluster.of(BACK)
        header = back.header(ConsumerSendMsgBackHeader)
        assert (header.offset, header.group, header.delay_level) == (1002, "g", -1)
        assert [ack.header(AckMessageHeader).offset for ack in bench.cluster.of(ACK)] == [2]

    run(story())


def test_what_cannot_become_a_dead_letter_is_not_acknowledged() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.has(stored(1, reconsume_times=17))
        bench.cluster.replies[BACK] = lambda request: request.reply(ResponseCode.SYSTEM_ERROR)
        assert await bench.code_of(asked()) == Code.MESSAGE_NOT_FOUND
        await settle()
        assert not bench.cluster.of(ACK)

    run(story())


def test_a_damaged_message_becomes_a_dead_letter() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.has(stored(1), stored(2))
        bench.found[0] = bench.found[0].replace(b"body 1", b"bodY 1")
        answers = await bench.receive(asked())
        assert [answer.message.body for answer in answers[1:-1]] == [b"body 2"]
        await settle()
        assert [back.header(ConsumerSendMsgBackHeader).offset for back in bench.cluster.of(BACK)] == [1001]

    run(story())


def test_groups_in_order_pop_in_order() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.cluster.groups["g"] = SubscriptionGroupConfig(group_name="g", consume_message_orderly=True)
        bench.has(stored(1), stored(2))
        bench.counts = encode_order_counts("0", 0, {1: 20}, 2)
        request = asked(auto_renew=True, attempt_id="again")
        request.message_queue.id = 1
        answers = await bench.receive(request)
        assert [answer.message.system_properties.delivery_attempt for answer in answers[1:-1]] == [21, 1]
        assert (bench.popped.order, bench.popped.attempt_id, bench.popped.queue_id) == (True, "again", 1)
        assert bench.popped.invisible_time == 60_000
        assert len(bench.renewal) == 2

    run(story())


def test_a_queue_that_a_consumer_names_by_itself_is_a_hint() -> None:
    async def story() -> None:
        bench, request = Receiving(), asked()
        request.message_queue.id = 1
        await bench.receive(request)
        assert bench.popped.queue_id == -1

    run(story())


def test_a_batch_has_at_most_32_messages() -> None:
    async def story() -> None:
        for asked_for, expected in ((0, 1), (-3, 1), (5, 5), (99, 32)):
            bench = Receiving()
            await bench.receive(asked(batch_size=asked_for))
            assert bench.popped.max_msg_nums == expected

    run(story())


def test_what_is_popped_for_a_caller_that_left_comes_again_soon() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.gate = asyncio.Event()
        bench.has(stored(1), stored(2))
        receiving = asyncio.ensure_future(bench.receive(asked(auto_renew=True)))
        await settle()
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        assert not bench.cluster.of(CHANGE)
        bench.gate.set()
        await settle()
        changes = [command.header(ChangeMessageInvisibletimeHeader) for command in bench.cluster.of(CHANGE)]
        assert [(change.offset, change.invisible_time) for change in changes] == [(1, 1000), (2, 1000)]
        assert len(bench.renewal) == 0

    run(story())


def test_those_who_wait_are_answered_when_the_proxy_stops() -> None:
    async def story() -> None:
        bench = Receiving()
        bench.gate = asyncio.Event()
        bench.has(stored(1))
        receiving = asyncio.ensure_future(bench.code_of(asked(auto_renew=True)))
        await settle()
        bench.receives.end_polls()
        assert await receiving == Code.MESSAGE_NOT_FOUND
        bench.gate.set()
        await settle()
        assert [command.header(ChangeMessageInvisibletimeHeader).offset for command in bench.cluster.of(CHANGE)] == [1]
        await bench.receive(asked())
        assert [command.header(PopMessageHeader).poll_time for command in bench.cluster.of(POP)][-1] == 0

    run(story())


class Leaving(FakeCall):
    """Its caller leaves after so many messages of the stream; `raises` as a transport that cancels then."""

    def __init__(self, after: int, *, raises: bool) -> None:
        super().__init__()
        self.after = after
        self.raises = raises

    async def drained(self) -> None:
        if len(self.sent) >= self.after:
            self.leave()
            if self.raises:
                raise asyncio.CancelledError


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("after", [2, 4])
def test_a_caller_that_leaves_amid_the_answer_has_none_of_it(after: int, raises: bool) -> None:
    async def story() -> None:
        bench = Receiving()
        bench.has(stored(1), stored(2))
        receiving = asyncio.ensure_future(bench.receive(asked(auto_renew=True), Leaving(after, raises=raises)))
        await asyncio.gather(receiving, return_exceptions=True)
        await settle()
        changes = [command.header(ChangeMessageInvisibletimeHeader) for command in bench.cluster.of(CHANGE)]
        assert [change.offset for change in changes] == [1, 2]
        assert len(bench.renewal) == 0

    run(story())
