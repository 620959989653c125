"""Ordered consumption: outcomes, pauses, locks, giving queues up."""

import asyncio
from typing import Any

import pytest

from pyromq.client.consumer.push.listener import ConsumeOutcome, OrderlyContext
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.message import ReceivedMessage
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.fakes import asyncio_test, settle

SUCCESS, LATER, COMMIT, ROLLBACK = ConsumeOutcome


class Script:
    """Returns the next outcome of a list for each call, then success."""

    def __init__(self, *outcomes: Any, auto_commit: bool = True, suspend: float | None = None) -> None:
        self.outcomes = list(outcomes)
        self.auto_commit = auto_commit
        self.suspend = suspend
        self.bodies: list[bytes] = []
        self.gate: asyncio.Event | None = None

    async def __call__(self, message: ReceivedMessage, context: OrderlyContext) -> Any:
        context.auto_commit = self.auto_commit
        context.suspend_time = self.suspend
        self.bodies.append(message.body)
        if self.gate is not None:
            await self.gate.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else SUCCESS
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.mark.parametrize(
    ("auto_commit", "outcomes", "bodies", "offset"),
    [
        (True, [SUCCESS], [b"0", b"1"], 2),
        (True, [COMMIT], [b"0", b"1"], 2),
        (True, [ROLLBACK], [b"0", b"1"], 2),
        (True, [LATER], [b"0", b"0", b"1"], 2),
        (True, [ValueError()], [b"0", b"0", b"1"], 2),
        (False, [SUCCESS, SUCCESS], [b"0", b"1"], 0),
        (False, [SUCCESS, COMMIT], [b"0", b"1"], 2),
        (False, [COMMIT, SUCCESS], [b"0", b"1"], 1),
        (False, [SUCCESS, ROLLBACK, SUCCESS, COMMIT], [b"0", b"1", b"0", b"1"], 2),
        (False, [LATER, COMMIT, COMMIT], [b"0", b"0", b"1"], 2),
    ],
)
@asyncio_test
async def test_outcomes(auto_commit: bool, outcomes: list[Any], bodies: list[bytes], offset: int) -> None:
    cluster, script = ConsumeCluster(), Script(*outcomes, auto_commit=auto_commit)
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(5)
    assert script.bodies == bodies
    assert consumer._member.consumer_status("T") == {queue(): offset}
    await consumer.close()


@pytest.mark.parametrize(("suspend", "pause"), [(None, 1.0), (0.0, 0.010), (2.0, 2.0), (100.0, 30.0)])
@asyncio_test
async def test_pauses_are_clamped(suspend: float | None, pause: float) -> None:
    cluster, script = ConsumeCluster(), Script(LATER, suspend=suspend)
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(0.5)
    assert script.bodies == [b"0"]
    await cluster.clock.advance(pause - 0.005)
    assert script.bodies == [b"0"]
    await cluster.clock.advance(0.010)
    assert script.bodies[:2] == [b"0", b"0"]
    await consumer.close()


@asyncio_test
async def test_after_the_last_try_it_becomes_a_dead_letter() -> None:
    cluster, script = ConsumeCluster(), Script(LATER, LATER, LATER)
    cluster.add_topic("%RETRY%CG", 1)
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.push(script, orderly=True, max_reconsume_times=2)
    await consumer.start()
    await cluster.clock.advance(5)
    assert script.bodies == [b"0", b"0", b"0", b"1"]
    [(header, body)] = cluster.broker.stored
    # More than the limit, and the group holds locks: the broker buries it.
    assert (header.topic, header.reconsume_times, header.max_reconsume_times, body) == ("%RETRY%CG", 3, 2, b"0")
    assert consumer._member.consumer_status("T") == {queue(): 2}
    await consumer.close()


@asyncio_test
async def test_no_queue_without_its_lock() -> None:
    cluster, script = ConsumeCluster(), Script()
    cluster.broker.locks[queue()] = "10.9.9.9@other"
    cluster.broker.arrive(0, b"0")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(3)
    assert consumer.assignment() == set()
    del cluster.broker.locks[queue()]
    await cluster.clock.advance(3)
    assert script.bodies == [b"0"]
    assert cluster.broker.locks == {queue(): "10.1.1.1@me"}
    await consumer.close()
    assert cluster.broker.locks == {}


@asyncio_test
async def test_locks_are_renewed_and_losing_one_stops_the_queue() -> None:
    cluster, script = ConsumeCluster(), Script()
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(60)
    cluster.broker.arrive(0, b"0")
    await settle()
    assert script.bodies == [b"0"]  # renewed every 20 s, so not expired after 30
    cluster.broker.locks[queue()] = "10.9.9.9@other"
    await cluster.clock.advance(20)
    cluster.broker.arrive(0, b"1")
    await cluster.clock.advance(5)
    assert script.bodies == [b"0"]
    del cluster.broker.locks[queue()]
    await cluster.clock.advance(20)
    assert script.bodies == [b"0", b"1"]
    await consumer.close()


@asyncio_test
async def test_giving_a_queue_up_waits_for_its_batch() -> None:
    cluster, script = ConsumeCluster(), Script()
    script.gate = asyncio.Event()
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(0.6)
    cluster.broker.members = ["10.0.0.0@other", "10.1.1.1@me"]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(3)
    assert cluster.broker.locks == {queue(): "10.1.1.1@me"}  # still consuming: the lock stays
    script.gate.set()
    await cluster.clock.advance(2)
    assert cluster.broker.locks == {}
    assert script.bodies == [b"0"]
    assert cluster.broker.offsets["T", 0] == 1  # written before the lock went
    await consumer.close()


@asyncio_test
async def test_running_info_tells_locks_and_batches_in_flight() -> None:
    cluster, script = ConsumeCluster(), Script()
    script.gate = asyncio.Event()
    cluster.broker.arrive(0, b"0", b"1")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(0.6)
    info = (await consumer._member.running_info(jstack=False)).mq_table[queue()]
    assert (info.locked, info.dropped, info.transaction_msg_count, info.cached_msg_count) == (True, False, 1, 1)
    assert info.last_pull_timestamp > 0
    script.gate.set()
    await consumer.close()


@asyncio_test
async def test_a_batch_that_does_not_end_keeps_its_lock_for_a_while() -> None:
    cluster, script = ConsumeCluster(), Script()
    script.gate = asyncio.Event()
    cluster.broker.arrive(0, b"0")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(0.6)
    cluster.broker.members = ["10.0.0.0@other", "10.1.1.1@me"]
    consumer._member.wake_rebalance()
    await cluster.clock.advance(25)  # older than unlock_delay: given up although the batch still runs
    info = (await consumer._member.running_info(jstack=False)).mq_table
    assert queue() not in info
    assert cluster.broker.locks == {queue(): "10.1.1.1@me"}
    await cluster.clock.advance(20)
    assert cluster.broker.locks == {}
    script.gate.set()
    await consumer.close()


@asyncio_test
async def test_nothing_begins_after_the_connection_was_lost_until_the_lock_is_renewed() -> None:
    cluster, script = ConsumeCluster(), Script()
    cluster.broker.arrive(0, b"0")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(1)
    assert script.bodies == [b"0"]
    cluster.broker.locks[queue()] = "10.2.2.2@other"  # it was quicker
    consumer._instance._disconnected(cluster.broker.address)
    cluster.broker.arrive(0, b"1")
    await cluster.clock.advance(5)
    assert script.bodies == [b"0"]
    cluster.broker.locks.clear()
    await cluster.clock.advance(5)
    assert script.bodies == [b"0", b"1"]
    await consumer.close()


@asyncio_test
async def test_locks_are_renewed_at_once_after_a_lost_connection() -> None:
    cluster, script = ConsumeCluster(2), Script()
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(2)
    asked = len(cluster.transport.sent(RequestCode.LOCK_BATCH_MQ))
    consumer._instance._disconnected("10.9.9.9:10911")
    await settle()
    assert len(cluster.transport.sent(RequestCode.LOCK_BATCH_MQ)) == asked  # not that broker's
    consumer._instance._disconnected(cluster.broker.address)
    await settle()
    *_, (_, command) = cluster.transport.sent(RequestCode.LOCK_BATCH_MQ)
    assert len(cluster.transport.sent(RequestCode.LOCK_BATCH_MQ)) == asked + 1
    assert command.ext == {"endsWithConnection": "true"}
    cluster.broker.arrive(0, b"0")
    await settle()
    assert script.bodies == [b"0"]
    await consumer.close()


@asyncio_test
async def test_what_another_consumed_while_the_lock_was_lost_is_not_consumed_again() -> None:
    cluster, script = ConsumeCluster(), Script()
    script.gate = asyncio.Event()
    cluster.broker.arrive(0, b"0", b"1", b"2", b"3")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(1)
    assert script.bodies == [b"0"]
    cluster.broker.locks[queue()] = "10.2.2.2@other"
    consumer._instance._disconnected(cluster.broker.address)
    script.gate.set()
    await cluster.clock.advance(6)
    cluster.broker.offsets["T", 0] = 3  # the other one gets so far
    await cluster.clock.advance(6)
    assert cluster.broker.offsets["T", 0] == 3  # who has no lock writes nothing
    cluster.broker.locks.clear()  # and lets go
    await cluster.clock.advance(30)
    assert script.bodies == [b"0", b"3"]
    await consumer.close()
    assert cluster.broker.offsets["T", 0] == 4


@asyncio_test
async def test_a_lock_regained_before_anybody_took_it_changes_nothing() -> None:
    cluster, script = ConsumeCluster(), Script()
    cluster.broker.arrive(0, b"0")
    consumer = cluster.push(script, orderly=True)
    await consumer.start()
    await cluster.clock.advance(1)
    pulls = len(cluster.broker.pulls)
    consumer._instance._disconnected(cluster.broker.address)
    await cluster.clock.advance(1)
    cluster.broker.arrive(0, b"1")
    await settle()
    assert script.bodies == [b"0", b"1"]
    assert [pull.queue_offset for pull in cluster.broker.pulls[pulls:]] == [2]
    await consumer.close()
    assert cluster.broker.offsets["T", 0] == 2
