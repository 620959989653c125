"""Stories of consumers: lite pulls lose nothing while queues change hands; a group goes on without its master."""

import asyncio
import signal
from pathlib import Path

from pyromq.aio import ConsumeFromWhere, Message, Producer, PullConsumer
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from tests import processes
from tests.faults.masters import pair, until
from tests.integration.broker.servers import Peer

QUEUES = 8
MESSAGES = 600
WAIT = 30.0


def member(namesrv: str, name: str) -> PullConsumer:
    """One of a group of lite pull consumers that share out their queues often."""
    return PullConsumer(
        "lite",
        namesrv=namesrv,
        instance_name=name,
        rebalance_interval=0.5,
        rebalance_min_interval=0.05,
        pull_batch_size=7,
        auto_commit_interval=0.05,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )


class Readers:
    """Members that come and go; each notes what it was given before it asks for more."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.seen: set[bytes] = set()

    async def read(self, name: str, until_seen: int) -> None:
        """Be a member until the group has seen so many messages, then leave in the middle of the work."""
        async with member(self._namesrv, name) as consumer:
            consumer.subscribe("orders")
            while len(self.seen) < until_seen:
                self.seen.update(message.body for message in await consumer.poll(0.2))


async def test_lite_pull_loses_nothing_across_rebalance(tmp_path: Path) -> None:
    server = processes.standalone(tmp_path)
    await asyncio.to_thread(server.start)
    try:
        namesrv, sent = server["namesrv"], {b"%d" % number for number in range(MESSAGES)}
        readers = Readers(namesrv)

        async def produce() -> None:
            async with Producer("p", namesrv=namesrv, default_topic_queues=QUEUES) as producer:
                for body in sorted(sent):
                    await producer.send(Message("orders", body), timeout=WAIT)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(readers.read("first", MESSAGES // 3))
            group.create_task(readers.read("second", MESSAGES * 2 // 3))
            group.create_task(readers.read("last", MESSAGES))
            await asyncio.sleep(0.3)
            group.create_task(readers.read("late", MESSAGES // 2))
        assert readers.seen == sent
    finally:
        await asyncio.to_thread(server.kill)


async def offset(peer: Peer, queue: int) -> int:
    """What the group has committed there."""
    header = QueryConsumerOffsetHeader(
        consumer_group="lite", topic="orders", queue_id=queue, set_zero_if_not_found=False
    )
    answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
    if answer.code != ResponseCode.SUCCESS:
        return 0
    return answer.header(QueryConsumerOffsetResponseHeader).offset


async def test_a_master_that_was_only_paused_learns_what_was_consumed_meanwhile(tmp_path: Path) -> None:
    settings = (
        *("--enable-slave-acting-master", "--sync-broker-member-group-period", "200"),
        *("--broker-heartbeat-interval", "200", "--broker-not-active-timeout-millis", "3000"),
    )
    async with (
        pair(tmp_path, "ASYNC_MASTER", *settings) as servers,
        Peer(servers.master["broker"]) as peer,
        Peer(servers.slave["broker"]) as slave,
    ):
        for number in range(5):
            await peer.stored("orders", b"%d" % number)

        async def read() -> bool:
            return len(await slave.messages("orders")) == 5

        servers.master.signal(signal.SIGSTOP)
        await until(read)  # it acts
        commit = UpdateConsumerOffsetHeader(consumer_group="lite", topic="orders", queue_id=0, commit_offset=5)
        assert (await slave.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        servers.master.signal(signal.SIGCONT)

        async def told() -> bool:
            return await offset(peer, 0) == 5

        await until(told)
        await peer.stored("orders", b"5")


async def test_a_group_goes_on_at_the_slave_and_returns_to_the_master_without_repeats(tmp_path: Path) -> None:
    settings = ("--enable-slave-acting-master", "--sync-broker-member-group-period", "200")
    async with pair(tmp_path, "SYNC_MASTER", *settings) as servers:
        namesrv = servers.names["namesrv"]
        given: list[bytes] = []

        async def produce(numbers: range) -> None:
            async with Producer("p", namesrv=namesrv, default_topic_queues=2) as producer:
                for number in numbers:
                    result = await producer.send(Message("orders", b"%d" % number), timeout=WAIT)
                    assert result.status.name == "SEND_OK"

        async def consume(count: int) -> None:
            """A member of its own, so that what comes again is what was not committed."""
            async with member(namesrv, f"m{len(given)}") as consumer:
                consumer.subscribe("orders")
                got = 0
                while got < count:
                    page = [message.body for message in await consumer.poll(0.5, count - got)]
                    given.extend(page)
                    got += len(page)
                await consumer.commit()

        async def known_to_slave() -> bool:
            """The slave copies offsets every few seconds: what it does not know yet would come again."""
            return sum([await offset(slave, queue) for queue in range(2)]) == 10

        await produce(range(30))
        await consume(10)
        async with Peer(servers.slave["broker"]) as slave:
            await until(known_to_slave)
        await asyncio.to_thread(servers.master.kill)
        await consume(15)  # from the slave
        await asyncio.to_thread(servers.master.start)

        async def back() -> bool:
            async with Peer(servers.master["broker"]) as peer:
                return (await peer.send("probes")).code == ResponseCode.SUCCESS  # a slave follows again

        await until(back)
        await produce(range(30, 40))
        await consume(15)
        assert len(given) == 40
        assert sorted(given, key=int) == [b"%d" % number for number in range(40)], "each of them once"
