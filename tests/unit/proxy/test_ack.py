"""Acknowledging, hiding and giving up: what brokers are asked, and what keeps consumers from trying for ever."""

from typing import Any

import pytest

from pyromq.protocol.bodies.pop import BatchAckBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import PopHandle
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
)
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.proxy.calls.ack import Acks
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.messages.receipt import Receipt
from pyromq.proxy.messages.settlement import Given
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.errors import CallTimeout
from tests.unit.proxy.messaging import NOW, Bench, FakeCluster, run

ACK, BATCH = RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE
CHANGE, BACK = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.CONSUMER_SEND_MSG_BACK
VIEW = RequestCode.VIEW_MESSAGE_BY_ID


def receipt(offset: int = 7, *, broker: str = "b", flag: str = "0", popped: int = NOW) -> Receipt:
    return Receipt(PopHandle(5, popped, 60_000, 2, flag, broker, 1, offset), 1000 + offset)


def handle(offset: int = 7, **other: Any) -> str:
    return receipt(offset, **other).encode()


class Acking(Bench):
    def __init__(self, *brokers: str) -> None:
        super().__init__(FakeCluster(*brokers))
        self.renewal = Renewal(self.core)
        self.methods = Acks(self.core, self.renewal).methods()
        self.cluster.replies[CHANGE] = self.grant
        self.cluster.replies[VIEW] = self.view
        self.stored = ReceivedMessage("t", b"body", {}, queue_id=1, queue_offset=7, physical_offset=1007)

    def view(self, request: Command) -> Command:
        assert request.header(ViewMessageByIdHeader).offset == 1007
        return request.reply(body=encode_record(self.stored))

    def grant(self, request: Command) -> Command:
        header = request.header(ChangeMessageInvisibletimeHeader)
        return request.reply(
            header=ChangeMessageInvisibletimeResponseHeader(
                pop_time=NOW + 1, invisible_time=header.invisible_time, revive_qid=4
            )
        )

    async def ack(self, *handles: str) -> Any:
        request = messages.AckMessageRequest()
        request.group.name, request.topic.name = "g", "t"
        for number, text in enumerate(handles):
            request.entries.add(message_id=f"id-{number}", receipt_handle=text)
        return await self.call(self.methods, "AckMessage", request)

    async def change(self, text: str, span: int) -> Any:
        request = messages.ChangeInvisibleDurationRequest(receipt_handle=text, invisible_duration=duration(span))
        request.group.name, request.topic.name = "g", "t"
        return await self.call(self.methods, "ChangeInvisibleDuration", request)

    async def forward(self, text: str) -> Any:
        request = messages.ForwardMessageToDeadLetterQueueRequest(receipt_handle=text, message_id="id")
        request.group.name, request.topic.name = "g", "t"
        return await self.call(self.methods, "ForwardMessageToDeadLetterQueue", request)


def codes(answer: Any) -> list[int]:
    return [entry.status.code for entry in answer.entries]


def test_one_message_is_acknowledged() -> None:
    async def story() -> None:
        bench = Acking()
        answer = await bench.ack(handle())
        assert (answer.status.code, codes(answer)) == (Code.OK, [Code.OK])
        assert (answer.entries[0].message_id, answer.entries[0].receipt_handle) == ("id-0", handle())
        header = bench.cluster.of(ACK)[0].header(AckMessageHeader)
        assert (header.topic, header.consumer_group, header.queue_id, header.offset) == ("t", "g", 1, 7)
        assert header.extra_info == f"5 {NOW} 60000 2 0 b 1 7"

    run(story())


def test_a_retry_is_acknowledged_where_it_lies() -> None:
    async def story() -> None:
        bench = Acking()
        await bench.ack(handle(flag="1"))
        await bench.ack(handle(flag="2"))
        topics = [command.header(AckMessageHeader).topic for command in bench.cluster.of(ACK)]
        assert topics == ["%RETRY%g_t", "%RETRY%g+t"]

    run(story())


def test_several_messages_of_a_broker_are_one_request() -> None:
    async def story() -> None:
        bench = Acking("a", "b")
        answer = await bench.ack(handle(7), handle(9), handle(8, broker="a"))
        assert (answer.status.code, codes(answer)) == (Code.OK, [Code.OK] * 3)
        (batch,) = bench.cluster.of(BATCH)
        body = BatchAckBody.decode(batch.body)
        assert [list(ack.offsets()) for ack in body.acks] == [[7, 9]]
        assert [command.header(AckMessageHeader).offset for command in bench.cluster.of(ACK)] == [8]

    run(story())


def test_brokers_without_batches_are_asked_one_by_one() -> None:
    async def story() -> None:
        bench = Acking()
        bench.cluster.replies[BATCH] = lambda request: request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        for _ in range(2):
            assert (await bench.ack(handle(7), handle(8))).status.code == Code.OK
        assert (len(bench.cluster.of(BATCH)), len(bench.cluster.of(ACK))) == (1, 4)

    run(story())


def test_each_message_has_its_own_result() -> None:
    async def story() -> None:
        bench = Acking()
        answer = await bench.ack(handle(7), "rubbish", handle(8, popped=NOW - 60_000))
        assert answer.status.code == Code.MULTIPLE_RESULTS
        assert codes(answer) == [Code.OK, Code.INVALID_RECEIPT_HANDLE, Code.INVALID_RECEIPT_HANDLE]
        assert (await bench.ack("rubbish")).status.code == Code.INVALID_RECEIPT_HANDLE
        assert (await bench.ack()).status.code == Code.BAD_REQUEST

    run(story())


@pytest.mark.parametrize(
    "text",
    ["", "a b", "1 2 3", f"5 {NOW} 60000 2 0 b 1", f"5 {NOW} 60000 2 9 b 1 7", f"5 {NOW} 60000 2 0 b 1 x",
     f"9 {NOW} 60000 2 0 b 1 7", f"-1 {NOW} 60000 2 0 b 1 7", f"5 {NOW} 60000 2 0 b 1 7 x", "1" * 2000,
     f"5 {NOW} 60000 2 0 b 1 7 {2**63}"],
)  # fmt: skip
def test_what_is_no_handle_is_told_so(text: str) -> None:
    async def story() -> None:
        bench = Acking()
        assert codes(await bench.ack(text)) == [Code.INVALID_RECEIPT_HANDLE]
        answer = await bench.change(text, 1000)
        assert (answer.status.code, answer.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, text)
        assert (await bench.forward(text)).status.code == Code.INVALID_RECEIPT_HANDLE
        assert not bench.cluster.asked

    run(story())


@pytest.mark.parametrize(
    ("code", "flag", "expected"),
    [
        (ResponseCode.NO_MESSAGE, "0", Code.INVALID_RECEIPT_HANDLE),
        (ResponseCode.MESSAGE_ILLEGAL, "0", Code.INVALID_RECEIPT_HANDLE),
        (ResponseCode.INVALID_PARAMETER, "0", Code.INVALID_RECEIPT_HANDLE),
        (ResponseCode.TOPIC_NOT_EXIST, "1", Code.INVALID_RECEIPT_HANDLE),
        (ResponseCode.TOPIC_NOT_EXIST, "0", Code.TOPIC_NOT_FOUND),
        (ResponseCode.SYSTEM_BUSY, "0", Code.TOO_MANY_REQUESTS),
        (ResponseCode.SYSTEM_ERROR, "0", Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_stale_handles_and_other_refusals(code: ResponseCode, flag: str, expected: Code) -> None:
    async def story() -> None:
        bench, text = Acking(), handle(flag=flag)
        for request in (ACK, CHANGE, BACK):
            bench.cluster.replies[request] = lambda command: command.reply(code, remark="because")
        assert codes(await bench.ack(text)) == [expected]
        answer = await bench.change(text, 1000)
        assert (answer.status.code, answer.receipt_handle) == (expected, text)
        bench.stored.topic = "%RETRY%g_t" if flag == "1" else "t"
        assert (await bench.forward(text)).status.code == expected

    run(story())


def test_a_broker_that_nobody_knows() -> None:
    async def story() -> None:
        bench = Acking()
        bench.cluster.failures["gone"] = Refusal(Code.BAD_REQUEST, "there is no broker gone")
        assert codes(await bench.ack(handle(broker="gone"))) == [Code.BAD_REQUEST]
        bench.cluster.failures["b"] = CallTimeout("slow")
        assert codes(await bench.ack(handle())) == [Code.PROXY_TIMEOUT]

    run(story())


@pytest.mark.parametrize("span", [0, 3, 1_000, 12 * 3_600_000])
def test_another_time_gives_another_handle(span: int) -> None:
    async def story() -> None:
        bench = Acking()
        answer = await bench.change(handle(), span)
        assert answer.status.code == Code.OK
        assert answer.receipt_handle == f"7 {NOW + 1} {span} 4 0 b 1 7 1007"
        header = bench.cluster.of(CHANGE)[0].header(ChangeMessageInvisibletimeHeader)
        assert (header.invisible_time, header.offset) == (span, 7)

    run(story())


@pytest.mark.parametrize("span", [-1, 12 * 3_600_000 + 1])
def test_times_have_bounds(span: int) -> None:
    async def story() -> None:
        bench = Acking()
        assert (await bench.change(handle(), span)).status.code == Code.ILLEGAL_INVISIBLE_TIME

    run(story())


def test_a_dead_letter_is_stored_and_then_acknowledged() -> None:
    async def story() -> None:
        bench = Acking()
        assert (await bench.forward(handle())).status.code == Code.OK
        header = bench.cluster.of(BACK)[0].header(ConsumerSendMsgBackHeader)
        assert (header.offset, header.group, header.delay_level, header.origin_msg_id) == (1007, "g", -1, "id")
        assert [command.header(AckMessageHeader).offset for command in bench.cluster.of(ACK)] == [7]
        # It is stored: to ask for it again, as consumers do on every failure, would store it again.
        bench.cluster.replies[ACK] = lambda request: request.reply(ResponseCode.SYSTEM_ERROR)
        assert (await bench.forward(handle())).status.code == Code.OK
        without_place = f"5 {NOW} 60000 2 0 b 1 7"
        assert (await bench.forward(without_place)).status.code == Code.INVALID_RECEIPT_HANDLE

    run(story())


def test_a_dead_letter_is_made_only_of_the_message_itself() -> None:
    async def story() -> None:
        bench = Acking()
        for name, value in (("topic", "secrets"), ("queue_id", 2), ("queue_offset", 8)):
            kept = getattr(bench.stored, name)
            setattr(bench.stored, name, value)
            assert (await bench.forward(handle())).status.code == Code.INVALID_RECEIPT_HANDLE, name
            setattr(bench.stored, name, kept)
        bench.cluster.replies[VIEW] = lambda request: request.reply(ResponseCode.SYSTEM_ERROR, remark="deleted")
        assert (await bench.forward(handle())).status.code == Code.INVALID_RECEIPT_HANDLE
        bench.cluster.replies[VIEW] = lambda request: request.reply(body=b"rubbish")
        assert (await bench.forward(handle())).status.code == Code.INVALID_RECEIPT_HANDLE
        assert not bench.cluster.of(BACK)

    run(story())


def test_a_renewed_message_is_settled_by_its_latest_handle() -> None:
    async def story() -> None:
        bench = Acking()
        for call, arguments in ((bench.ack, ()), (bench.change, (5,)), (bench.forward, ())):
            bench.cluster.asked.clear()
            bench.renewal.add("client-1", Given("t", "g", receipt()), handle())
            bench.clock.now = NOW + 55_000
            await bench.renewal.step()
            bench.clock.now = NOW + 60_000  # the time of the first handle is over
            bench.cluster.asked.clear()
            assert (await call(handle(), *arguments)).status.code == Code.OK
            (_, last) = bench.cluster.asked[-1]
            assert last.ext["extraInfo"] == f"7 {NOW + 1} 60000 4 0 b 1 7"
            assert len(bench.renewal) == 0
            bench.clock.now = NOW

    run(story())


def test_what_could_not_be_settled_is_renewed_further() -> None:
    async def story() -> None:
        bench = Acking()
        bench.renewal.add("client-1", Given("t", "g", receipt()), handle())
        for request in (ACK, CHANGE, BACK):
            bench.cluster.replies[request] = lambda command: command.reply(ResponseCode.SYSTEM_BUSY)
        await bench.ack(handle())
        await bench.change(handle(), 5)
        await bench.forward(handle())
        assert len(bench.renewal) == 1
        bench.cluster.replies[ACK] = lambda command: command.reply(ResponseCode.NO_MESSAGE)
        await bench.ack(handle())
        assert len(bench.renewal) == 0

    run(story())


@pytest.mark.parametrize(
    ("group", "topic", "code"), [("", "t", Code.ILLEGAL_CONSUMER_GROUP), ("g", "", Code.ILLEGAL_TOPIC)]
)
def test_names_are_checked(group: str, topic: str, code: Code) -> None:
    async def story() -> None:
        bench = Acking()
        for name in ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue"):
            request = getattr(messages, f"{name}Request")()
            request.group.name, request.topic.name = group, topic
            assert (await bench.call(bench.methods, name, request)).status.code == code

    run(story())
