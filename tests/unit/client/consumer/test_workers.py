"""Calling listeners: limits, threads, tasks, closing; and the rates that tools ask for."""

import asyncio
import contextvars
import functools
import itertools
import threading
from typing import Any

from pyromq.client.clock import SystemClock
from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, Listener, Verdict
from pyromq.client.consumer.push.workers import MOST_AT_ONCE, Job, Workers
from pyromq.client.consumer.stats import ConsumerStats
from pyromq.protocol.message import ReceivedMessage
from tests.unit.client.consumer.fakes import queue
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import ManualClock, asyncio_test

CONTEXT = ConcurrentContext(queue=queue())


def workers(function: Any, limit: int = 2) -> Workers:
    return Workers(Listener.of(function, orderly=False, batch=False), limit, SystemClock(), "workers")


@asyncio_test
async def test_threads_up_to_the_limit() -> None:  # C-09
    both = threading.Barrier(2, timeout=30)
    names = set()

    def listener(_: Any) -> None:
        names.add(threading.current_thread().name)
        both.wait()

    pool = workers(listener)
    calls = [asyncio.create_task(pool.call([received(n)], CONTEXT)) for n in range(6)]
    verdicts = await asyncio.gather(*calls)
    assert len(names) == 2
    assert all(verdict is not None and verdict.outcome is ConsumeOutcome.SUCCESS for verdict in verdicts)
    assert await pool.close(30.0)


@asyncio_test
async def test_the_limit_can_change_while_they_run() -> None:
    gate, running, most = asyncio.Event(), 0, 0

    async def listener(_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    pool = workers(listener, 1)
    calls = [asyncio.create_task(pool.call([received(n)], CONTEXT)) for n in range(6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (pool.running, pool.waiting) == (1, 5)
    pool.limit = 3
    assert (pool.running, pool.waiting) == (3, 3)
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*calls)
    assert most == 3
    assert await pool.close(30.0)


@asyncio_test
async def test_quick_calls_are_in_order_and_apart_from_each_other() -> None:
    """Also where some of them wait, and one cancels itself; each is called once."""
    mark: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=-1)
    seen: list[int] = []
    tasks: set[asyncio.Task[Any] | None] = set()

    async def listener(message: ReceivedMessage) -> None:
        assert mark.get() == -1, "set by another call"
        mark.set(message.queue_offset)
        seen.append(message.queue_offset)
        tasks.add(asyncio.current_task())
        if message.queue_offset % 10 == 3:
            async with asyncio.timeout(30):
                await asyncio.sleep(0)
            assert mark.get() == message.queue_offset
        if message.queue_offset == 55:
            raise asyncio.CancelledError
        if message.queue_offset == 77:
            raise ValueError("later")

    pool = workers(listener, 4)
    outcomes: dict[int, Verdict | None] = {}
    ended = asyncio.Event()

    def note(number: int, verdict: Verdict | None) -> None:
        assert number not in outcomes
        outcomes[number] = verdict
        if len(outcomes) == 200:
            ended.set()

    pool.submit([Job([received(n)], CONTEXT, functools.partial(note, n)) for n in range(200)])
    await asyncio.wait_for(ended.wait(), 30)
    assert seen == list(range(200))
    assert len(tasks) < 100, "a task for each call"
    assert [n for n, verdict in outcomes.items() if verdict is None] == [55]
    failed = [n for n, verdict in outcomes.items() if verdict is not None and verdict.outcome is ConsumeOutcome.LATER]
    assert failed == [77]
    assert (pool.running, pool.waiting) == (0, 0)
    assert await pool.close(30.0)


@asyncio_test
async def test_quick_calls_leave_room_for_others() -> None:
    turns: list[int] = []
    calls = 0

    async def listener(_: Any) -> None:
        nonlocal calls
        calls += 1

    async def other() -> None:
        while calls < 500:
            turns.append(calls)
            await asyncio.sleep(0)

    pool = workers(listener, 4)
    beside = asyncio.create_task(other())
    pool.submit([Job([received(n)], CONTEXT, lambda _: None) for n in range(500)])
    await beside
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 4 * MOST_AT_ONCE, "of four tasks"
    assert await pool.close(30.0)


@asyncio_test
async def test_closing_cancels_coroutines_and_calls_off_the_rest() -> None:
    async def listener(_: Any) -> None:
        await asyncio.get_running_loop().create_future()

    pool = workers(listener, 2)
    outcomes: list[Verdict | None] = []
    pool.submit([Job([received(n)], CONTEXT, outcomes.append) for n in range(5)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not await pool.close(0.01)
    assert outcomes == [None] * 5
    assert pool.running == 0


@asyncio_test
async def test_whatever_is_raised_means_later() -> None:
    def listener(_: Any) -> None:
        raise SystemExit("not this process")

    pool = workers(listener)
    verdict = await pool.call([received(1)], CONTEXT)
    assert verdict is not None
    assert verdict.outcome is ConsumeOutcome.LATER
    assert isinstance(verdict.error, SystemExit)
    again = await pool.call([received(2)], CONTEXT)
    assert again is not None  # the thread is still there
    assert await pool.close(30.0)


@asyncio_test
async def test_jobs_can_be_called_off() -> None:
    pool = workers(lambda _: None, 1)
    assert await pool.call([received(1)], CONTEXT, lambda: False) is None
    await pool.close(30.0)
    assert await pool.call([received(1)], CONTEXT) is None


@asyncio_test
async def test_closing_waits_for_threads_and_calls_off_the_rest() -> None:
    started, go_on = threading.Event(), threading.Event()

    def listener(_: Any) -> None:
        started.set()
        go_on.wait(30)

    pool = workers(listener, 1)
    outcomes: list[Verdict | None] = []
    pool.submit([Job([received(number)], CONTEXT, outcomes.append) for number in range(3)])
    await asyncio.to_thread(started.wait, 30)
    closing = asyncio.create_task(pool.close(30.0))
    await asyncio.sleep(0)
    assert outcomes == [None, None]
    go_on.set()
    assert await closing
    assert len(outcomes) == 3
    assert outcomes[2] is not None


@asyncio_test
async def test_rates_of_the_last_minute() -> None:
    clock = ManualClock()
    stats = ConsumerStats(clock)
    for _ in range(6):
        stats.pulled("T", 0.010, 32)
        stats.consumed("T", 0.002, 30, 2)
        await clock.advance(10)
    status = stats.status("T")
    assert (status.pull_rt, status.consume_rt) == (10.0, 2.0)
    assert (status.pull_tps, status.consume_ok_tps, status.consume_failed_tps) == (3.2, 3.0, 0.2)
    await clock.advance(70)
    status = stats.status("T")
    assert (status.pull_tps, status.consume_rt, status.consume_failed_msgs) == (0, 0, 12)
