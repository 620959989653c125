"""Pull consumers against real brokers: polling, positions, commits, single pulls."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import (
    ConsumeFromWhere,
    Message,
    MessageModel,
    Producer,
    PullConsumer,
    PullStatus,
    ReceivedMessage,
    ServiceStateError,
)
from pyromq.client.errors import ClientError, NoRouteError
from pyromq.protocol.message import MessageQueue
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import eventually

LONG = 60.0
Q0 = MessageQueue("T", "broker-a", 0)


def pull(namesrv: str, group: str = "CG", **options: Any) -> PullConsumer:
    quick: dict[str, Any] = {
        "rebalance_interval": 1.0,
        "rebalance_min_interval": 0.05,
        "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    }
    return PullConsumer(group, namesrv=namesrv, **(quick | options))


async def fill(namesrv: str, *bodies: bytes, queues: int = 1, tags: str | None = None) -> None:
    """One batch into T, which the first one creates with so many queues."""
    async with Producer("PG", namesrv=namesrv, default_topic_queues=queues) as producer:
        await producer.send([Message("T", body, tags=tags) for body in bodies])


async def read(consumer: PullConsumer, count: int) -> list[bytes]:
    """Poll until so many messages came."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        bodies += [message.body for message in await consumer.poll(LONG)]
    return bodies


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@asyncio_test
async def test_poll_and_automatic_commits(tmp_path: Path) -> None:  # C-01
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(25))
        async with pull(server.namesrv_address, auto_commit_interval=0.001) as consumer:
            consumer.subscribe("T")
            assert await read(consumer, 25) == numbers(25)
            assert consumer.assignment() == {Q0}
            assert consumer.position(Q0) == 25
            while await consumer.committed(Q0) != 25:
                assert await consumer.poll(0.01) == []  # coming back says that all of it is done
        async with pull(server.namesrv_address) as consumer:
            consumer.subscribe("T")
            await fill(server.namesrv_address, b"next")
            assert await read(consumer, 1) == [b"next"]


@asyncio_test
async def test_what_was_not_finished_comes_again(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address, pull_batch_size=4) as consumer:
            consumer.subscribe("T")
            assert [message.body for message in await consumer.poll(LONG)] == numbers(4)
            assert [message.body for message in await consumer.poll(LONG)] == numbers(8)[4:]
            # Closed while the second batch is in the user's hands: only the first one counts as done.
        async with pull(server.namesrv_address) as consumer:
            consumer.subscribe("T")
            assert await read(consumer, 6) == numbers(10)[4:]


@asyncio_test
async def test_iteration_counts_message_by_message(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address) as consumer:
            consumer.subscribe("T")
            seen = []
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 3:
                    break
            assert consumer.position(Q0) == 3
            # What the iteration had fetched ahead is not lost for whoever reads on.
            assert [message.body for message in await consumer.poll(LONG, 2)] == [b"3", b"4"]
        async with pull(server.namesrv_address) as consumer:
            consumer.subscribe("T")
            assert await read(consumer, 7) == numbers(10)[3:]


@asyncio_test
async def test_iteration_ends_when_the_consumer_is_closed(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, b"x")
        consumer = pull(server.namesrv_address)
        await consumer.start()
        consumer.subscribe("T")
        got = asyncio.Event()

        async def iterate() -> list[ReceivedMessage]:
            found = []
            async for message in consumer:
                found.append(message)
                got.set()
            return found

        task = asyncio.create_task(iterate())
        await got.wait()
        await consumer.close()
        assert len(await task) == 1


@asyncio_test
async def test_manual_commits(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address, auto_commit=False) as consumer:
            consumer.subscribe("T")
            await read(consumer, 10)
            assert await consumer.committed(Q0) == 0  # where the group began
            await consumer.commit({Q0: 4})
            assert await consumer.manual.fetch_offset(Q0, from_store=True) == 4
        async with pull(server.namesrv_address, auto_commit=False) as consumer:
            consumer.subscribe("T")
            assert await read(consumer, 6) == numbers(10)[4:]
            await consumer.commit()
            assert await consumer.manual.fetch_offset(Q0, from_store=True) == 10
            await consumer.commit([Q0], persist=False)


@asyncio_test
async def test_closing_does_not_take_a_commit_back(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address) as consumer:  # with automatic commits, of which none is due yet
            consumer.subscribe("T")
            assert await read(consumer, 10) == numbers(10)
            await consumer.commit()
        async with pull(server.namesrv_address) as consumer:
            assert await consumer.committed(Q0) == 10


@asyncio_test
async def test_assigned_queues(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, b"x", queues=4)
        async with pull(server.namesrv_address) as consumer:
            queues = sorted(await consumer.fetch_queues("T"))
            assert len(queues) == 4
            await consumer.assign(queues)
            assert await read(consumer, 1) == [b"x"]
            await consumer.assign(queues[:1])
            assert consumer.assignment() == {queues[0]}
            with pytest.raises(ServiceStateError, match="cannot be mixed"):
                consumer.subscribe("T")
            with pytest.raises(ClientError, match="not assigned"):
                await consumer.seek(queues[1], 0)
            with pytest.raises(NoRouteError):
                await consumer.fetch_queues("nowhere")


@asyncio_test
async def test_seeking(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address) as consumer:
            await consumer.assign([Q0])
            assert await read(consumer, 10) == numbers(10)
            await consumer.seek(Q0, 7)
            assert await read(consumer, 3) == numbers(10)[7:]
            await consumer.seek_to_begin(Q0)
            messages = await consumer.poll(LONG)
            assert messages[0].body == b"0"
            await consumer.seek_to_time(Q0, messages[0].store_timestamp)
            assert (await consumer.poll(LONG, 1))[0].body == b"0"
            assert await consumer.queries.search_offset(Q0, 0) == 0
            await consumer.seek_to_end(Q0)
            assert await consumer.poll(0.0) == []
            await fill(server.namesrv_address, b"new")
            assert await read(consumer, 1) == [b"new"]
            for offset in (-1, 12):
                with pytest.raises(ClientError, match=r"outside 0\.\.11"):
                    await consumer.seek(Q0, offset)


@asyncio_test
async def test_pause_and_resume(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(10))
        async with pull(server.namesrv_address, pull_batch_size=5) as consumer:
            await consumer.assign([Q0])
            assert len(await consumer.poll(LONG)) == 5
            consumer.pause([Q0])
            assert await consumer.poll(0.0) == []
            consumer.resume([Q0])
            assert await read(consumer, 5) == numbers(10)[5:]


@asyncio_test
async def test_nothing_is_lost_when_queues_change_hands(tmp_path: Path) -> None:  # C-06 C-11
    async with standalone(tmp_path) as server:
        namesrv = server.namesrv_address
        await fill(namesrv, b"start", queues=4)
        seen: Counter[bytes] = Counter()
        ended = asyncio.Event()

        async def reader(consumer: PullConsumer) -> None:
            while not ended.is_set():
                for message in await consumer.poll(0.05):
                    seen[message.body] += 1

        sent = []
        async with pull(namesrv) as first, Producer("PG", namesrv=namesrv) as producer:
            first.subscribe("T")
            readers = [asyncio.create_task(reader(first))]
            async with pull(namesrv) as second:
                second.subscribe("T")
                readers.append(asyncio.create_task(reader(second)))
                for number in range(300):
                    sent.append(b"%d" % number)
                    await producer.send(Message("T", sent[-1]))
                await eventually(lambda: len(first.assignment()) == len(second.assignment()) == 2)
                await eventually(lambda: set(sent) <= seen.keys())
                ended.set()
                await asyncio.gather(*readers)
            ended.clear()
            await eventually(lambda: len(first.assignment()) == 4)
            late = asyncio.create_task(reader(first))
            await producer.send(Message("T", b"end"))
            await eventually(lambda: b"end" in seen)
            ended.set()
            await late


@asyncio_test
async def test_single_pulls(tmp_path: Path) -> None:  # C-01
    async with standalone(tmp_path) as server:
        await fill(server.namesrv_address, *numbers(5), tags="t")
        async with pull(server.namesrv_address, suspend_timeout=0.2) as consumer:
            result = await consumer.manual.pull(Q0, "t || u", 1, 2)
            assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 3, 5)
            assert [message.body for message in result.messages] == [b"1", b"2"]
            assert (await consumer.manual.pull(Q0, "u", 0)).status is PullStatus.NO_MATCHED_MESSAGE
            assert (await consumer.manual.pull(Q0, "*", 5)).status is PullStatus.NO_NEW_MESSAGE
            assert (await consumer.manual.pull_block(Q0, "*", 5)).status is PullStatus.NO_NEW_MESSAGE
            moved = await consumer.manual.pull(Q0, "*", 50)
            assert (moved.status, moved.next_offset) == (PullStatus.OFFSET_ILLEGAL, 5)
            waiting = asyncio.create_task(pull_forever(consumer, 5))
            await fill(server.namesrv_address, b"new")
            assert (await waiting).messages[0].body == b"new"
            for offset, count in ((-1, 1), (0, 0)):
                with pytest.raises(ClientError):
                    await consumer.manual.pull(Q0, "*", offset, count)
            assert await consumer.manual.fetch_offset(Q0) is not None or await consumer.committed(Q0) is None
            consumer.manual.update_offset(Q0, 3)
            await consumer.manual.persist_offset(Q0)
            assert await consumer.manual.fetch_offset(Q0, from_store=True) == 3
            await consumer.send_back(result.messages[0], 1)
            assert await consumer.queries.max_offset(Q0) == 6


async def pull_forever(consumer: PullConsumer, offset: int) -> Any:
    while True:
        result = await consumer.manual.pull_block(Q0, None, offset)
        if result.messages:
            return result


@asyncio_test
async def test_broadcasting_readers(tmp_path: Path) -> None:  # C-04
    async with standalone(tmp_path / "server") as server:
        await fill(server.namesrv_address, *numbers(4))
        for _ in range(2):
            consumer = pull(
                server.namesrv_address,
                model=MessageModel.BROADCASTING,
                local_offset_dir=tmp_path / "offsets",
                auto_commit=False,
            )
            consumer.subscribe("T")
            async with consumer:
                assert await read(consumer, 2 if _ else 4) == (numbers(4)[2:] if _ else numbers(4))
                await consumer.commit({Q0: 2})


@asyncio_test
async def test_poll_checks_its_arguments_and_state(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        consumer = pull(server.namesrv_address)
        with pytest.raises(ServiceStateError):
            await consumer.poll()
        with pytest.raises(ServiceStateError):
            await anext(consumer)
        async with consumer:
            with pytest.raises(ClientError, match="below 0"):
                await consumer.poll(-1)
            assert await consumer.poll(0) == []
