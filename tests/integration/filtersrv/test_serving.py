"""Consumers that pull through filter servers: real processes for broker's side and jails, real clients."""

import asyncio
import logging
import os
import signal
import zlib
from pathlib import Path

import pytest

from pyromq.aio import Message, Producer, PushConsumer
from pyromq.broker.standalone import Standalone
from pyromq.protocol import sysflag
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import (
    GetRouteInfoByTopicHeader,
    PullMessageHeader,
    PullMessageResponseHeader,
    RegisterMessageFilterClassHeader,
)
from pyromq.protocol.record import decode_records
from pyromq.remoting import Client
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually
from tests.integration.filtersrv.serving import EVEN, filtering, one_line

TIMEOUT = 60.0


async def send(namesrv: str, topic: str, *bodies: bytes) -> None:
    async with Producer("PG", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


async def filter_table(namesrv: str, topic: str) -> dict[str, list[str]]:
    client = Client()
    try:
        header = GetRouteInfoByTopicHeader(topic=topic)
        answer = await client.call(namesrv, Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), TIMEOUT)
        return TopicRouteData.decode(answer.body).filter_server_table if answer.code == 0 else {}
    finally:
        await client.close()


async def routed(server: Standalone, topic: str, servers: int) -> list[str]:
    """The filter servers of the only broker, once the name server knows so many."""
    while True:
        table = await filter_table(server.namesrv_address, topic)
        if len(found := table.get(server.broker_address, [])) == servers:
            return found
        await asyncio.sleep(0.02)


class FilterClient:
    """Speaks raw commands to one filter server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client = Client()

    async def upload(self, group: str, topic: str, name: str, source: str, crc: int | None = None) -> Command:
        body = source.encode()
        header = RegisterMessageFilterClassHeader(
            consumer_group=group,
            topic=topic,
            class_name=name,
            class_crc=zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
        )
        command = Command.request(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, header, body=body)
        return await self.client.call(self.address, command, TIMEOUT)

    async def pull(self, group: str, topic: str, offset: int = 0, *, queue: int = 0, hold_ms: int = 0) -> Command:
        header = PullMessageHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=8 | (2 if hold_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            sub_version=0,
        )
        return await self.client.call(self.address, Command.request(RequestCode.PULL_MESSAGE, header), TIMEOUT)


async def one_queue(server: Standalone, topic: str, *bodies: bytes) -> None:
    """A topic with all messages in one queue, queue 0."""
    async with Producer("PG", namesrv=server.namesrv_address, compress_over=1 << 20) as producer:
        queue = next(each for each in await producer.publish_queues(topic) if each.queue_id == 0)
        for body in bodies:
            await producer.send(Message(topic, body), queue=queue)


@asyncio_test
async def test_a_consumer_gets_what_its_class_wants(tmp_path: Path) -> None:
    # F-02, F-03, F-05, F-06
    async with filtering(tmp_path, servers=2) as server:
        namesrv = server.namesrv_address
        await send(namesrv, "numbers", *(b"%d" % number for number in range(40)))
        assert len(set(await routed(server, "numbers", 2))) == 2
        consumer = PushConsumer("evens", namesrv=namesrv, **QUICK)
        consumer.subscribe("numbers", filter_class=("Even", EVEN))
        inbox = Inbox()
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(20)
            await send(namesrv, "numbers", b"99", b"100")
            await inbox.different(21)
        assert inbox.bodies.keys() == {b"%d" % number for number in range(0, 40, 2)} | {b"100"}


@asyncio_test
async def test_without_filter_servers_the_consumer_is_told_what_to_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # F-05
    async with standalone(tmp_path) as server:
        await send(server.namesrv_address, "numbers", b"1")
        consumer = PushConsumer("evens", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("numbers", filter_class=("Even", EVEN))
        consumer.listen(Inbox())
        with caplog.at_level(logging.WARNING):
            async with consumer:
                await eventually(lambda: "has no filter server" in caplog.text)
        assert "filterServerNums" in caplog.text


@asyncio_test
async def test_uploading_is_off_unless_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # F-04, F-06
    async with filtering(tmp_path, client_upload_filter_class_enable="false") as server:
        await send(server.namesrv_address, "numbers", b"2")
        (address,) = await routed(server, "numbers", 1)
        client = FilterClient(address)
        answer = await client.upload("evens", "numbers", "Even", EVEN)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "clientUploadFilterClassEnable" in (answer.remark or "")
        await client.client.close()
        consumer = PushConsumer("evens", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("numbers", filter_class=("Even", EVEN))
        consumer.listen(Inbox())
        with caplog.at_level(logging.WARNING):
            async with consumer:
                await eventually(lambda: "uploading filter classes is off" in caplog.text)


@asyncio_test
async def test_answers_of_a_filter_server(tmp_path: Path) -> None:
    # F-04, F-05
    async with filtering(tmp_path) as server:
        large = b"8" * 20_000
        await one_queue(server, "numbers", b"1", b"2", b"3", b"4", large)
        (address,) = await routed(server, "numbers", 1)
        client = FilterClient(address)

        unknown = await client.pull("evens", "numbers")
        assert (unknown.code, "no filter class" in (unknown.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)

        assert (await client.upload("evens", "numbers", "Even", EVEN)).code == ResponseCode.SUCCESS
        found = await client.pull("evens", "numbers")
        assert found.code == ResponseCode.SUCCESS
        header = found.header(PullMessageResponseHeader)
        assert (header.suggest_which_broker_id, header.next_begin_offset, header.max_offset) == (0, 5, 5)
        *small, last = decode_records(found.body, decompress=False, check_crc=True)
        assert [(message.body, message.queue_offset) for message in small] == [(b"2", 1), (b"4", 3)]
        assert last.sys_flag & sysflag.COMPRESSED
        assert len(last.body) < 1000
        assert [message.body for message in decode_records(found.body)] == [b"2", b"4", large]

        none = await client.pull("evens", "numbers", offset=5)
        assert none.code == ResponseCode.PULL_NOT_FOUND
        moved = await client.pull("evens", "numbers", offset=77)
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED
        assert moved.header(PullMessageResponseHeader).next_begin_offset == 5

        never = one_line("return False")
        assert (await client.upload("evens", "numbers", "Probe", never)).code == ResponseCode.SUCCESS
        unmatched = await client.pull("evens", "numbers")
        assert unmatched.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert unmatched.header(PullMessageResponseHeader).next_begin_offset == 5

        kept = await client.upload("evens", "numbers", "Probe", one_line("return True"), crc=0)
        assert kept.code == ResponseCode.SUCCESS, "a CRC of 0 changes nothing"
        assert (await client.pull("evens", "numbers")).code == ResponseCode.PULL_RETRY_IMMEDIATELY
        forged = await client.upload("evens", "numbers", "Probe", one_line("return True"), crc=5)
        assert forged.code == ResponseCode.INVALID_PARAMETER
        await client.client.close()


@asyncio_test
async def test_a_held_pull_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    # F-05
    async with filtering(tmp_path) as server:
        await one_queue(server, "numbers", b"2")
        (address,) = await routed(server, "numbers", 1)
        client = FilterClient(address)
        assert (await client.upload("evens", "numbers", "Even", EVEN)).code == ResponseCode.SUCCESS
        held = asyncio.create_task(client.pull("evens", "numbers", offset=1, hold_ms=50_000))
        broker = server.broker
        assert broker is not None
        await eventually(lambda: len(broker.park) > 0)
        await one_queue(server, "numbers", b"4")
        assert [message.body for message in decode_records((await held).body)] == [b"4"]
        await client.client.close()


@asyncio_test
async def test_a_filter_server_that_died_is_replaced(tmp_path: Path) -> None:
    # F-02
    async with filtering(tmp_path) as server:
        await send(server.namesrv_address, "numbers", b"1")
        broker = server.broker
        assert broker is not None
        (first,) = await routed(server, "numbers", 1)
        (pid,) = broker.filter_processes.pids
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: len(broker.filter_servers) == 0)
        await routed(server, "numbers", 0)
        await eventually(lambda: broker.filter_processes.pids == [])
        await broker.filter_processes.look()
        (second,) = await routed(server, "numbers", 1)
        assert second != first
