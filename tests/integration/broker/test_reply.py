"""Request and reply through the broker, and traces of messages in the topic made for them."""

from pathlib import Path

from pyromq.aio import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage, create_reply
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.callbacks import PushReplyMessageToClientHeader
from pyromq.protocol.headers.query import QueryMessageHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.record import decode_records
from pyromq.remoting.connection import Connection
from tests.integration.broker.servers import Peer, routed, standalone, until

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT


class Asker(Peer):
    """A client that takes replies and answers them with `code`."""

    def __init__(self, address: str, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        super().__init__(address, {PUSH: self._take})
        self.code = code
        self.replies: list[tuple[PushReplyMessageToClientHeader, bytes]] = []

    def _take(self, request: Command, _connection: Connection) -> Command:
        self.replies.append((request.header(PushReplyMessageToClientHeader), bytes(request.body)))
        return request.reply(self.code, remark="no such request" if self.code else None)


async def reply(peer: Peer, client_id: str, code: int = RequestCode.SEND_REPLY_MESSAGE_V2) -> Command:
    properties = {"REPLY_TO_CLIENT": client_id, "CORRELATION_ID": "7", "MSG_TYPE": "reply", "TTL": "3000"}
    return await peer.send(REPLY_TOPIC, b"answer", code=code, **properties)  # type: ignore[arg-type]  # properties


async def test_a_reply_reaches_the_very_client_that_asked(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer), Asker(peer.address) as asker, Asker(peer.address) as other:
        await asker.heartbeat("asker", producer="p")
        await other.heartbeat("other", producer="p")
        answer = await reply(peer, "asker")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        stored = answer.header(SendMessageResponseHeader)
        assert (stored.queue_id, stored.queue_offset) == (0, 0)
        ((header, body),) = asker.replies
        assert other.replies == []
        assert (header.topic, header.producer_group, body) == (REPLY_TOPIC, "p", b"answer")
        assert header.store_host == broker.address
        assert header.born_timestamp == 1_700_000_000_000
        properties = decode_properties(header.properties or "")
        assert (properties["CORRELATION_ID"], properties["REPLY_TO_CLIENT"]) == ("7", "asker")
        assert int(properties["PUSH_REPLY_TIME"]) > 0
        (kept,) = await peer.messages(REPLY_TOPIC, hold=30_000)
        assert (kept.body, kept.offset_message_id) == (b"answer", stored.msg_id)


async def test_replies_that_are_not_kept(tmp_path: Path) -> None:
    async with standalone(tmp_path, store_reply_message_enable="false") as (broker, peer), Asker(peer.address) as asker:
        await asker.heartbeat("asker", producer="p")
        answer = (await reply(peer, "asker")).header(SendMessageResponseHeader)
        assert (answer.msg_id, answer.queue_offset) == ("0", 0)
        assert len(asker.replies) == 1
        assert broker.store.max_offset(REPLY_TOPIC, 0, committed=False) == 0


async def test_a_reply_to_nobody_is_an_error(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        async with Asker(peer.address, ResponseCode.SYSTEM_ERROR) as asker:
            await asker.heartbeat("asker", producer="p")
            refused = await reply(peer, "asker")
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "no such request" in (refused.remark or "")
        await until(lambda: broker.core.producers.connection_of("asker") is None)
        gone = await reply(peer, "asker")
        assert gone.code == ResponseCode.SYSTEM_ERROR
        assert "<asker> not found" in (gone.remark or "")
        nameless = await peer.send(REPLY_TOPIC, code=RequestCode.SEND_REPLY_MESSAGE_V2)
        assert nameless.code == ResponseCode.SYSTEM_ERROR
        assert "REPLY_TO_CLIENT" in (nameless.remark or "")


async def test_a_request_is_answered_end_to_end(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("questions", b"made the topic")
        await routed(broker, "questions", REPLY_TOPIC)
        address = broker.config.namesrv_addr[0]
        consumer = PushConsumer("answers", namesrv=address, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("questions")
        async with Producer("asking", namesrv=address) as asking, Producer("replying", namesrv=address) as replying:

            @consumer.listen
            async def handle(message: ReceivedMessage) -> None:
                if message.properties.get("CORRELATION_ID"):
                    await replying.send(create_reply(message, b"re: " + message.body))

            async with consumer:
                reply = await asking.request(Message("questions", b"why?"), timeout=30.0)
            assert reply.body == b"re: why?"


async def test_traces_are_stored_and_found_by_key(tmp_path: Path) -> None:
    async with standalone(tmp_path, trace_topic_enable="true") as (broker, peer):
        await routed(broker, TRACE_TOPIC, "TBW102")
        async with Producer("p", namesrv=broker.config.namesrv_addr[0], enable_trace=True) as producer:
            result = await producer.send(Message("orders", b"hello", keys=["o-17"]))
        await until(lambda: broker.store.max_offset(TRACE_TOPIC, 0) > 0)
        for key in (result.message_id, "o-17"):
            header = QueryMessageHeader(topic=TRACE_TOPIC, key=key, max_num=10, begin_timestamp=0, end_timestamp=2**62)
            answer = await peer.call(RequestCode.QUERY_MESSAGE, header)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            (trace,) = decode_records(answer.body)
            fields = trace.body.decode().split("\x02")[0].split("\x01")
            assert (fields[0], fields[4], fields[5]) == ("Pub", "orders", result.message_id)
