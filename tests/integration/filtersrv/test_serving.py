"""Consumers that pull through filter servers: real processes for broker's side and jails, real clients."""

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from pyromq.aio import Message, Producer, PushConsumer
from pyromq.broker.consume.pull import Puller
from pyromq.broker.filter.filterservers import FilterProcesses, FilterServers
from pyromq.broker.standalone import Standalone
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import decode_records
from pyromq.remoting.client import Client
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually
from tests.integration.filtersrv.serving import EVEN, TIMEOUT, FilterClient, filtering, one_line


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
        await eventually(lambda: len(broker.part(Puller).park) > 0)
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
        (pid,) = broker.part(FilterProcesses).pids
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: len(broker.part(FilterServers)) == 0)
        await routed(server, "numbers", 0)
        await eventually(lambda: broker.part(FilterProcesses).pids == [])
        await broker.part(FilterProcesses).look()
        (second,) = await routed(server, "numbers", 1)
        assert second != first


@asyncio_test
async def test_hostile_groups_harm_nobody_else(tmp_path: Path) -> None:
    # F-05, F-06
    hostile = {
        "loops": ("while True: pass", ("processor time", "did not finish within")),  # on a busy machine the latter
        "eats": ("many = []\n        while True: many.append(b'x' * 1_000_000)", ("MemoryError",)),
        "raises": ("return 1 / 0 > 0", ("ZeroDivisionError",)),
        "recurses": ("return self.match(msg, context)", ("RecursionError",)),
    }
    async with filtering(tmp_path) as server:
        await one_queue(server, "numbers", b"1", b"2", b"3", b"4")
        (address,) = await routed(server, "numbers", 1)
        client = FilterClient(address)
        assert (await client.upload("evens", "numbers", "Even", EVEN)).code == ResponseCode.SUCCESS
        for group, (body, _) in hostile.items():
            assert (await client.upload(group, "numbers", "Probe", one_line(body))).code == ResponseCode.SUCCESS
        attacks = {group: asyncio.create_task(client.pull(group, "numbers")) for group in hostile}
        served = 0
        while served == 0 or not all(attack.done() for attack in attacks.values()):
            answer = await client.pull("evens", "numbers")
            assert [message.body for message in decode_records(answer.body)] == [b"2", b"4"]
            served += 1
        for group, (body, reasons) in hostile.items():
            told = attacks[group].result()
            assert told.code == ResponseCode.SYSTEM_ERROR
            (reason,) = (reason for reason in reasons if reason in (told.remark or ""))
            again = await client.upload(group, "numbers", "Probe", one_line(body))
            assert again.code == ResponseCode.SUCCESS or reason in (again.remark or ""), "while it rests, it says why"
        mended = await client.upload("raises", "numbers", "Even", EVEN)
        assert mended.code == ResponseCode.SUCCESS
        assert (await client.pull("raises", "numbers")).code == ResponseCode.SUCCESS
        await client.client.close()


@asyncio_test
async def test_a_class_is_used_until_it_is_replaced_by_another(tmp_path: Path) -> None:
    # F-03, F-04
    async with filtering(tmp_path) as server:
        namesrv = server.namesrv_address
        await send(namesrv, "numbers", b"1", b"2")
        await routed(server, "numbers", 1)
        consumer = PushConsumer("changing", namesrv=namesrv, **QUICK)
        consumer.subscribe("numbers", filter_class=("Even", EVEN))
        inbox = Inbox()
        consumer.listen(inbox)
        async with consumer:
            await inbox.different(1)
            consumer.subscribe("numbers", filter_class=("Probe", one_line("return msg.body == b'3'")))
            # Pulls that wait with the class before let none of these pass either, so it takes a pull or two.
            while b"3" not in inbox.bodies:
                await send(namesrv, "numbers", b"3", b"5")
                await asyncio.sleep(0.05)
        assert inbox.bodies.keys() == {b"2", b"3"}
