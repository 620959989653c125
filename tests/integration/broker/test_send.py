"""Sending to a real broker: what is stored, what is answered, what is refused."""

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.admin.stats import Stat
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.record import decode_records
from pyromq.remoting.client import Client
from tests.integration.broker.servers import TIMEOUT, standalone


async def test_a_message_is_stored_with_what_the_broker_adds(tmp_path: Path) -> None:
    # P-118 P-119 P-120
    async with standalone(tmp_path) as (broker, peer):
        answer = await peer.send("orders", b"body", UNIQ_KEY="u1", TAGS="a", KEYS="k1 k2", POP_CK="x")
        assert answer.code == ResponseCode.SUCCESS
        header = answer.header(SendMessageResponseHeader)
        assert (header.queue_id, header.queue_offset, header.transaction_id) == (0, 0, "u1")
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        assert answer.ext["TRACE_ON"] == "true"
        place = parse_offset_message_id(header.msg_id)
        assert str(place.host) == broker.address
        view = await peer.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(offset=place.physical_offset))
        (message,) = decode_records(view.body)
        assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"body", "a", ("k1", "k2"))
        assert message.properties["CLUSTER"] == "DefaultCluster"
        assert message.properties["MSG_REGION"] == "DefaultRegion"
        assert "POP_CK" not in message.properties
        assert message.born_host.ip == "127.0.0.1"
        assert message.offset_message_id == header.msg_id


async def test_a_missing_unique_key_is_made(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        header = await peer.stored("orders")
        (message,) = await peer.messages("orders")
        assert message.unique_id
        assert header.transaction_id == message.unique_id


async def test_the_first_message_creates_its_topic_and_routes_it(tmp_path: Path) -> None:
    # P-54 P-55 P-56: the five steps of automatic creation, seen from a client
    async with standalone(tmp_path) as (broker, peer):
        (namesrv,) = broker.config.namesrv_addr
        client = Client({})
        try:

            async def route(topic: str) -> Command:
                header = GetRouteInfoByTopicHeader(topic=topic, accept_standard_json_only=True)
                request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
                return await client.call(namesrv, request, TIMEOUT)

            assert (await route("orders")).code == ResponseCode.TOPIC_NOT_EXIST
            template = TopicRouteData.decode((await route("TBW102")).body)
            assert template.queue_datas[0].perm == 7
            await peer.stored("orders")
            answer = await route("orders")
            while answer.code != ResponseCode.SUCCESS:
                answer = await route("orders")
            (queues,) = TopicRouteData.decode(answer.body).queue_datas
            assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (4, 4, 6)
        finally:
            await client.close()


async def test_the_long_header_names_and_the_short_ones_mean_the_same(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        header = SendMessageHeader(
            producer_group="p",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=1,
            sys_flag=0,
            born_timestamp=1,
            flag=7,
        )
        answer = await peer.call(RequestCode.SEND_MESSAGE, header, body=b"x")
        assert answer.code == ResponseCode.SUCCESS
        (message,) = await peer.messages("orders", queue=1)
        assert message.flag == 7


async def test_a_batch_is_stored_as_single_messages(tmp_path: Path) -> None:
    # P-109 P-111 P-112
    async with standalone(tmp_path) as (_, peer):
        batch = [Message("orders", f"m{n}".encode(), tags=f"t{n}") for n in range(5)]
        for n, message in enumerate(batch):
            message.unique_id = f"U{n}"
        answer = await peer.send(
            "orders", encode_batch(batch), code=RequestCode.SEND_BATCH_MESSAGE, batch=True, UNIQ_KEY="envelope"
        )
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        ids = answer.header(SendMessageResponseHeader).msg_id.split(",")
        stored = await peer.messages("orders")
        assert [message.body for message in stored] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        assert [message.queue_offset for message in stored] == [0, 1, 2, 3, 4]
        assert [message.unique_id for message in stored] == ["U0", "U1", "U2", "U3", "U4"]
        assert [message.offset_message_id for message in stored] == ids


async def test_a_negative_queue_leaves_the_choice_to_the_broker(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(60):
            answer = await peer.send("orders", queue=-1)
            assert answer.header(SendMessageResponseHeader).queue_id in range(4)


async def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    # P-03
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders", b"first")
        header = SendMessageV2Header(
            producer_group="p",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
        )
        client = Client({})
        try:
            await client.oneway(peer.address, Command.request(310, header, body=b"second", oneway=True), TIMEOUT)
            answer = await peer.pull("orders", 1, hold=30_000)
            assert [message.body for message in decode_records(answer.body)] == [b"second"]
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("a/b", ResponseCode.INVALID_PARAMETER),
        ("../../etc/passwd", ResponseCode.INVALID_PARAMETER),
        ("", ResponseCode.INVALID_PARAMETER),
        ("x" * 128, ResponseCode.INVALID_PARAMETER),
        ("nul\0byte", ResponseCode.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION),
        ("SELF_TEST_TOPIC", ResponseCode.NO_PERMISSION),
    ],
)
async def test_topics_that_nobody_may_send_to(tmp_path: Path, topic: str, code: ResponseCode) -> None:
    # P-59 P-60
    async with standalone(tmp_path) as (broker, peer):
        before = len(broker.core.topics)
        answer = await peer.send(topic)
        assert answer.code == code, answer.remark
        assert len(broker.core.topics) == before


async def test_what_a_message_may_not_be(tmp_path: Path) -> None:
    # P-58
    async with standalone(tmp_path, max_message_size="1000") as (broker, peer):
        assert (await peer.send("orders", b"x" * 1001)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await peer.send("orders", b"x" * 1000)).code == ResponseCode.SUCCESS
        assert (await peer.send("orders", big="x" * 32760)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await peer.send("orders", queue=4)).code == ResponseCode.INVALID_PARAMETER
        broken = await peer.send("orders", b"no batch", code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        assert broken.code == ResponseCode.MESSAGE_ILLEGAL
        batch = encode_batch([Message("orders", b"x")])
        delayed = await peer.send("orders", batch, code=RequestCode.SEND_BATCH_MESSAGE, batch=True, DELAY="1")
        assert delayed.code == ResponseCode.MESSAGE_ILLEGAL
        broker.config.auto_create_topic_enable = False
        assert (await peer.send("unknown")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS


async def test_a_header_that_lacks_a_field_is_refused_by_name(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        answer = await peer.call(RequestCode.SEND_MESSAGE_V2, ext={"a": "p", "b": "orders"}, body=b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "'c'" in (answer.remark or "")


async def test_an_ordered_topic_is_refused_by_a_broker_that_takes_no_writes(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await broker.core.topics.put(TopicConfig(topic_name="ordered", order=True))
        await broker.core.topics.put(TopicConfig(topic_name="plain"))
        broker.config.broker_permission = 4
        assert (await peer.send("ordered")).code == ResponseCode.NO_PERMISSION
        assert (await peer.send("plain")).code == ResponseCode.SUCCESS


async def test_a_full_disk_is_answered_and_passes(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        room = broker.store.commit_log.room

        def full(_size: int) -> None:
            from pyromq.store.errors import DiskFullError  # noqa: PLC0415 - only this fake needs it

            raise DiskFullError("no space left for the next file")

        broker.store.commit_log.room = full  # type: ignore[method-assign, assignment]
        broker.store.commit_log.limit = -1
        answer = await peer.send("orders")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "no space" in (answer.remark or "")
        broker.store.commit_log.room = room  # type: ignore[method-assign]
        answer = await peer.send("orders")
        while answer.code != ResponseCode.SUCCESS:
            answer = await peer.send("orders")
        assert len(await peer.messages("orders")) == 2


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_sends_that_arrive_together_are_answered_each_for_itself(tmp_path: Path, flush: str) -> None:
    def frame(opaque: int, topic: str, queue: int, *, oneway: bool = False, **properties: str) -> bytes:
        header = SendMessageV2Header(
            producer_group="p",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties=encode_properties(properties).decode(),
        )
        body = b"%d" % opaque
        return encode(Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body, opaque=opaque, oneway=oneway))

    async with standalone(tmp_path, flush_disk_type=flush) as (broker, peer):
        await peer.stored("orders")
        host, port = broker.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"".join(frame(number, "orders", 0, UNIQ_KEY=f"u{number}") for number in range(1, 31)))
        writer.write(frame(31, "orders", 0, oneway=True) + frame(32, "orders", 0) + frame(33, "orders", 99))
        writer.write(frame(34, "no such topic!", 0) + frame(35, "orders", 0, WAIT="false") + frame(36, "orders", 1))
        answers: dict[int, Command] = {}
        frames = FrameReader()
        async with asyncio.timeout(TIMEOUT):
            while len(answers) < 35:
                answers |= {answer.opaque: answer for answer in frames.feed(await reader.read(65536))}
        writer.close()
        assert sorted(answers) == [*range(1, 31), *range(32, 37)]
        refused = dict.fromkeys((33, 34), ResponseCode.INVALID_PARAMETER)
        assert {number: answer.code for number, answer in answers.items() if answer.code} == refused
        offsets = [answers[number].header(SendMessageResponseHeader).queue_offset for number in (*range(1, 31), 32, 35)]
        assert offsets == [*range(1, 31), 32, 33]
        assert answers[7].header(SendMessageResponseHeader).transaction_id == "u7"
        assert [message.body for message in await peer.messages("orders")][1:6] == [b"1", b"2", b"3", b"4", b"5"]
        assert broker.core.stats.total(Stat.TOPIC_PUT_NUMS, "orders") == 35
