"""Groups of push consumers on two brokers: sharing queues, joining and leaving under load, order through all of it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import (
    AllocationStrategy,
    Average,
    AverageByCircle,
    ByMachineRoom,
    ConsistentHash,
    ConsumeFromWhere,
    Message,
    NearbyRoom,
    OrderlyContext,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from pyromq.protocol.message import MessageQueue
from tests.integration.client.clusters import Cluster, asyncio_test, cluster, standalone
from tests.integration.client.inbox import QUICK, Inbox, balanced, eventually


async def create_topic(running: Cluster, topic: str, queues: int) -> None:
    async with Producer("SETUP", namesrv=running.namesrv) as producer:
        await producer.create_topic("TBW102", topic, queues)
    await running.routed(topic, 2)


def member(namesrv: str, inbox: Any, *, orderly: bool = False, **options: Any) -> PushConsumer:
    consumer = PushConsumer("CG", namesrv=namesrv, **(QUICK | options))
    consumer.subscribe("T")
    consumer.listen(inbox, orderly=orderly)
    return consumer


@asynccontextmanager
async def load(namesrv: str, queues: list[MessageQueue] | None = None) -> AsyncIterator[list[bytes]]:
    """Send, one message after the other, while the block runs; what was acknowledged is in the list at its end."""
    stop = asyncio.Event()
    sent: list[bytes] = []

    async def work() -> None:
        async with Producer("LOAD", namesrv=namesrv) as producer:
            while not stop.is_set():
                body = b"%d" % len(sent)
                queue = queues[len(sent) % len(queues)] if queues else None
                await producer.send(Message("T", body), queue=queue)
                sent.append(body)

    task = asyncio.create_task(work())
    try:
        yield sent
    finally:
        stop.set()
        await task


@asyncio_test
async def test_members_join_and_leave_under_load(tmp_path: Path) -> None:  # C-03 C-05 C-06 C-07 C-11
    async with cluster(tmp_path) as running:
        await create_topic(running, "T", 4)
        inbox = Inbox()
        async with load(running.namesrv) as sent:
            first, second = member(running.namesrv, inbox), member(running.namesrv, inbox)
            await first.start()
            await eventually(lambda: balanced([first], 8))
            await second.start()
            await eventually(lambda: balanced([first, second], 8) and len(first.assignment()) == 4)
            third = member(running.namesrv, inbox)
            await third.start()
            await eventually(lambda: balanced([first, second, third], 8) and len(third.assignment()) > 0)
            await inbox.different(200)
            await first.close()
            await eventually(lambda: balanced([second, third], 8))
            await second.close()
            await eventually(lambda: balanced([third], 8))
        await inbox.different(len(sent))
        await third.close()
        assert set(inbox.bodies) == set(sent)  # nothing lost
        # A queue that changes hands between two live members may repeat what was in flight, never everything.
        assert inbox.repeated < len(sent)


@asyncio_test
async def test_leaving_gracefully_repeats_nothing(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        inbox = Inbox()
        async with load(server.namesrv_address) as sent:
            await eventually(lambda: len(sent) > 0)
            for _ in range(3):
                seen = len(inbox.bodies)
                async with member(server.namesrv_address, inbox):
                    await inbox.different(seen + 50)
        async with member(server.namesrv_address, inbox):
            await inbox.different(len(sent))
        assert set(inbox.bodies) == set(sent)
        assert inbox.repeated == 0


class ByBroker:
    """Machine rooms for the test: brokers a and b, members alternate between them."""

    def broker_room(self, queue: MessageQueue) -> str:
        return queue.broker_name

    def member_room(self, client_id: str) -> str:
        return "broker-a" if int(client_id.rpartition("m")[2]) % 2 else "broker-b"


@pytest.mark.parametrize(
    "strategy",
    [Average(), AverageByCircle(), ConsistentHash(), NearbyRoom(Average(), ByBroker())],
    ids=lambda strategy: strategy.name,
)
@asyncio_test
async def test_24_members_share_32_queues(tmp_path: Path, strategy: AllocationStrategy) -> None:  # C-05 C-06 C-07
    async with cluster(tmp_path) as running, AsyncExitStack() as stack:
        await create_topic(running, "T", 16)
        inbox = Inbox()
        members = [
            member(running.namesrv, inbox, allocation=strategy, instance_name=f"m{number}") for number in range(24)
        ]
        await asyncio.gather(*(stack.enter_async_context(consumer) for consumer in members))
        await eventually(lambda: balanced(members, 32))
        async with Producer("PG", namesrv=running.namesrv) as producer:
            for queue in await producer.publish_queues("T"):
                await producer.send(Message("T", f"{queue.broker_name}-{queue.queue_id}".encode()), queue=queue)
        await inbox.different(32)


@asyncio_test
async def test_machine_rooms_read_only_their_own(tmp_path: Path) -> None:  # C-05
    async with cluster(tmp_path) as running:
        await create_topic(running, "T", 4)
        consumer = member(running.namesrv, Inbox(), allocation=ByMachineRoom({"elsewhere"}))
        async with consumer:
            await eventually(lambda: consumer.assignment() == set())


@asyncio_test
async def test_the_broker_may_divide_the_queues(tmp_path: Path) -> None:  # C-07
    async with standalone(tmp_path) as server:
        inbox = Inbox()
        async with load(server.namesrv_address) as sent:
            await eventually(lambda: len(sent) > 0)
            members = [member(server.namesrv_address, inbox, client_rebalance=False) for _ in range(2)]
            async with members[0], members[1]:
                await eventually(lambda: balanced(members, 4) and len(members[0].assignment()) == 2)
                await inbox.different(50)
        async with member(server.namesrv_address, inbox):
            await inbox.different(len(sent))
        assert set(inbox.bodies) == set(sent)


class Sequence:
    """Checks that every queue is seen in order: offsets never fall back but to repeat the last one."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.offsets: dict[MessageQueue, list[int]] = defaultdict(list)

    def __call__(self, message: ReceivedMessage, context: OrderlyContext) -> None:
        self.offsets[context.queue].append(message.queue_offset)
        self.inbox(message)

    def check(self) -> None:
        for queue, offsets in self.offsets.items():
            assert offsets == sorted(offsets), f"{queue} out of order"


@asyncio_test
async def test_order_holds_while_members_come_and_go(tmp_path: Path) -> None:  # C-05 C-11
    async with cluster(tmp_path) as running:
        await create_topic(running, "T", 2)
        seen = Sequence()
        async with load(running.namesrv) as sent:
            first, second = (member(running.namesrv, seen, orderly=True) for _ in range(2))
            await first.start()
            await eventually(lambda: balanced([first], 4))
            await seen.inbox.different(50)
            await second.start()
            await eventually(lambda: balanced([first, second], 4) and len(second.assignment()) == 2)
            await seen.inbox.different(len(sent))
            await first.close()
            await eventually(lambda: balanced([second], 4))
            await second.close()
            third = member(running.namesrv, seen, orderly=True)
            await third.start()
        await seen.inbox.different(len(sent))
        await third.close()
        assert set(seen.inbox.bodies) == set(sent)
        seen.check()
        assert seen.inbox.repeated == 0  # the lock changes hands only after the offset was written


@asyncio_test
async def test_a_failed_message_holds_up_its_queue(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        async with Producer("PG", namesrv=server.namesrv_address, default_topic_queues=1) as producer:
            await producer.send([Message("T", b"%d" % n) for n in range(6)])
        inbox = Inbox()
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, **QUICK)
        consumer.subscribe("T")
        tries: list[tuple[bytes, int]] = []

        @consumer.listen(orderly=True)
        def handle(message: ReceivedMessage, context: OrderlyContext) -> bool:
            context.suspend_time = 0.01
            tries.append((message.body, message.reconsume_times))
            if message.body == b"2" and message.reconsume_times < 2:
                return False
            inbox(message)
            return True

        async with consumer:
            await inbox.different(6)
        assert tries == [(b"0", 0), (b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0), (b"4", 0), (b"5", 0)]


@asyncio_test
async def test_an_ordered_message_may_fail_for_good(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        async with Producer("PG", namesrv=server.namesrv_address, default_topic_queues=1) as producer:
            await producer.send([Message("T", b"bad"), Message("T", b"good")])
        inbox, dead = Inbox(), Inbox()
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, max_reconsume_times=1, suspend_time=0.01, **QUICK)
        consumer.subscribe("T")

        @consumer.listen(orderly=True)
        def handle(message: ReceivedMessage) -> bool:
            inbox(message)
            return message.body == b"good"

        letters = PushConsumer("MORGUE", namesrv=server.namesrv_address, **QUICK)
        letters.subscribe("%DLQ%CG")
        letters.listen(dead)
        async with consumer:
            await inbox.different(2)
            async with letters:
                await dead.different(1)
        assert inbox.bodies == {b"bad": 2, b"good": 1}
        assert dead.bodies == {b"bad": 1}


async def backlog(running: Any, count: int) -> None:
    """Topic T with eight queues and so many messages."""
    async with Producer("SETUP", namesrv=running.namesrv_address) as producer:
        await producer.create_topic("TBW102", "T", 8)
        for begin in range(0, count, 100):
            await producer.send([Message("T", b"%d" % number) for number in range(begin, begin + 100)])


USUAL: dict[str, Any] = {"rebalance_interval": 20.0, "rebalance_min_interval": 1.0, "first_pull_delay": 0.5}
"""As consumers are by default."""


@asyncio_test
async def test_members_that_start_together_read_nothing_twice(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        await backlog(server, 3200)
        inbox = Inbox()
        members = [member(server.namesrv_address, inbox, **USUAL) for _ in range(2)]
        for each in members:
            await each.start()
        await inbox.different(3200)
        assert balanced(members, 8)
        await asyncio.gather(*(each.close() for each in members))
        assert inbox.repeated == 0


@asyncio_test
async def test_a_member_that_joins_or_leaves_at_work_repeats_nothing(tmp_path: Path) -> None:  # C-11
    async with standalone(tmp_path) as server:
        await backlog(server, 3200)
        inbox = Inbox()

        async def work(message: ReceivedMessage) -> None:
            inbox(message)
            await asyncio.sleep(0.02)

        first, second = (member(server.namesrv_address, work, **USUAL) for _ in range(2))
        await first.start()
        await inbox.different(200)
        await second.start()
        await eventually(lambda: balanced([first, second], 8))
        await inbox.different(2000)
        await first.close()
        await inbox.different(3200)
        await second.close()
        assert inbox.repeated == 0


SELDOM: dict[str, Any] = {"rebalance_interval": 3600.0, "poll_name_server_interval": 3600.0}
"""Nothing is found by the periods alone."""


@asyncio_test
async def test_a_consumer_gets_what_is_sent_to_a_topic_that_came_after_it(tmp_path: Path) -> None:  # C-13
    async with standalone(tmp_path) as server:
        inbox = Inbox()
        async with member(server.namesrv_address, inbox, **SELDOM):
            async with Producer("PG", namesrv=server.namesrv_address) as producer:
                await producer.send(Message("T", b"first"))
            await inbox.different(1)


@asyncio_test
async def test_a_pull_consumer_gets_it_too(tmp_path: Path) -> None:  # C-13
    async with standalone(tmp_path) as server:
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        async with PullConsumer("CG", namesrv=server.namesrv_address, consume_from=first, **SELDOM) as consumer:
            consumer.subscribe("T")
            async with Producer("PG", namesrv=server.namesrv_address) as producer:
                await producer.send(Message("T", b"first"))
            assert (await anext(consumer)).body == b"first"
