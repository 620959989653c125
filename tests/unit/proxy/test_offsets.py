"""Offsets, pulls, recalls and lite subscriptions: what brokers are asked, and the codes of what goes wrong."""

from typing import Any

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.headers.consume import PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.headers.send import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.proxy.calls.lite import Lite
from pyromq.proxy.calls.offsets import Offsets
from pyromq.proxy.calls.recall import Recalls
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, QueryOffsetPolicy
from tests.unit.proxy.messaging import NOW, Bench, run

PULL = RequestCode.PULL_MESSAGE
RECALL = RequestCode.RECALL_MESSAGE


def place(queue_id: int = 1, topic: str = "t", broker: str = "b") -> Any:
    queue = messages.MessageQueue(id=queue_id)
    queue.topic.name, queue.broker.name = topic, broker
    return queue


GROUP = messages.Resource(name="g")


def pull(**fields: Any) -> Any:
    fields.setdefault("long_polling_timeout", duration(500))
    return messages.PullMessageRequest(group=GROUP, message_queue=place(), **fields)


class Counting(Bench):
    def __init__(self) -> None:
        super().__init__()
        self.methods = {
            **Offsets(self.core).methods(),
            **Recalls(self.core).methods(),
            **Lite(self.core).methods(),
        }

    async def code(self, name: str, request: Any) -> Code:
        return Code((await self.call(self.methods, name, request)).status.code)


def test_faults_in_requests_have_their_codes() -> None:
    async def story() -> None:
        bench = Counting()
        update = messages.UpdateOffsetRequest(group=GROUP, message_queue=place(), offset=-1)
        assert await bench.code("UpdateOffset", update) == Code.ILLEGAL_OFFSET
        for queue, code in ((place(-1), Code.BAD_REQUEST), (place(broker=""), Code.BAD_REQUEST),
                            (place(topic=""), Code.ILLEGAL_TOPIC)):  # fmt: skip
            get = messages.GetOffsetRequest(group=GROUP, message_queue=queue)
            assert await bench.code("GetOffset", get) == code
        get = messages.GetOffsetRequest(group=messages.Resource(name=" "), message_queue=place())
        assert await bench.code("GetOffset", get) == Code.ILLEGAL_CONSUMER_GROUP
        query = messages.QueryOffsetRequest(message_queue=place(), query_offset_policy=QueryOffsetPolicy.TIMESTAMP)
        assert await bench.code("QueryOffset", query) == Code.BAD_REQUEST
        assert not bench.cluster.asked

    run(story())


def test_an_offset_that_is_not_there() -> None:
    async def story() -> None:
        bench = Counting()
        code = RequestCode.QUERY_CONSUMER_OFFSET
        bench.cluster.replies[code] = lambda request: request.reply(ResponseCode.QUERY_NOT_FOUND)
        get = messages.GetOffsetRequest(group=GROUP, message_queue=place())
        assert await bench.code("GetOffset", get) == Code.OFFSET_NOT_FOUND
        bench.cluster.replies[code] = lambda request: request.reply(ResponseCode.SYSTEM_ERROR)
        assert await bench.code("GetOffset", get) == Code.INTERNAL_SERVER_ERROR

    run(story())


def test_an_empty_queue_begins_at_zero() -> None:
    async def story() -> None:
        bench = Counting()
        bench.cluster.replies[RequestCode.GET_MIN_OFFSET] = lambda request: request.reply(ext={"offset": "-1"})
        answer = await bench.call(bench.methods, "QueryOffset", messages.QueryOffsetRequest(message_queue=place()))
        assert (answer.status.code, answer.offset) == (Code.OK, 0)

    run(story())


@pytest.mark.parametrize(
    ("code", "expected", "with_offset"),
    [
        (ResponseCode.PULL_NOT_FOUND, Code.MESSAGE_NOT_FOUND, True),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, Code.MESSAGE_NOT_FOUND, True),
        (ResponseCode.PULL_OFFSET_MOVED, Code.ILLEGAL_OFFSET, True),
        (ResponseCode.SYSTEM_ERROR, Code.INTERNAL_SERVER_ERROR, False),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, Code.CONSUMER_GROUP_NOT_FOUND, False),
    ],
)
def test_a_pull_says_where_to_continue(code: ResponseCode, expected: Code, with_offset: bool) -> None:
    async def story() -> None:
        bench = Counting()
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=12, min_offset=10, max_offset=20
        )
        bench.cluster.replies[PULL] = lambda request: request.reply(code, header, remark="because")
        answers = await bench.stream(bench.methods, "PullMessage", pull(offset=5, batch_size=99))
        assert answers[0].status.code == expected
        assert [answer.next_offset for answer in answers[1:]] == ([12] if with_offset else [])
        asked = bench.cluster.of(PULL)[0].header(PullMessageHeader)
        assert (asked.queue_id, asked.queue_offset, asked.max_msg_nums) == (1, 5, 32)
        assert asked.suspend_timeout_millis == 500

    run(story())


def test_a_pull_from_nowhere_is_refused() -> None:
    async def story() -> None:
        bench = Counting()
        answers = await bench.stream(bench.methods, "PullMessage", pull(offset=-1))
        assert [answer.status.code for answer in answers] == [Code.ILLEGAL_OFFSET]

    run(story())


def test_a_recall_goes_where_the_message_is() -> None:
    async def story() -> None:
        bench = Counting()
        text = encode_recall_handle(RecallHandle("t", "b", NOW + 5000, "id"))
        request = messages.RecallMessageRequest(topic=messages.Resource(name="t"), recall_handle=text)
        answer_header = RecallMessageResponseHeader(msg_id="id")
        bench.cluster.replies[RECALL] = lambda command: command.reply(header=answer_header)
        answer = await bench.call(bench.methods, "RecallMessage", request)
        assert (answer.status.code, answer.message_id) == (Code.OK, "id")
        asked = bench.cluster.of(RECALL)[0].header(RecallMessageHeader)
        assert (asked.topic, asked.recall_handle, asked.bname) == ("t", text, "b")
        for code, expected in (
            (ResponseCode.ILLEGAL_OPERATION, Code.BAD_REQUEST),
            (ResponseCode.TOPIC_NOT_EXIST, Code.TOPIC_NOT_FOUND),
            (ResponseCode.NO_PERMISSION, Code.FORBIDDEN),
            (ResponseCode.SYSTEM_ERROR, Code.INTERNAL_SERVER_ERROR),
        ):
            bench.cluster.replies[RECALL] = lambda command, code=code: command.reply(code)  # type: ignore[misc]
            assert await bench.code("RecallMessage", request) == expected
        request.recall_handle = "rubbish"
        assert await bench.code("RecallMessage", request) == Code.BAD_REQUEST

    run(story())


def test_lite_subscriptions_are_refused_with_a_reason() -> None:
    async def story() -> None:
        bench = Counting()
        answer = await bench.call(bench.methods, "SyncLiteSubscription", messages.SyncLiteSubscriptionRequest())
        assert answer.status.code == Code.NOT_IMPLEMENTED
        assert "no lite topics" in answer.status.message

    run(story())
