"""Threads that begin jobs themselves: the limit, the order, what is called off, and closing."""

import asyncio
import threading
from collections import Counter
from typing import Any

from pyromq.client.clock import SystemClock
from pyromq.client.consumer.push.listener import ConcurrentContext, Listener, Verdict
from pyromq.client.consumer.push.workers import Job, Workers
from tests.unit.client.consumer.fakes import queue
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import asyncio_test

CONTEXT = ConcurrentContext(queue=queue())
WAIT = 30.0


def workers(function: Any, limit: int) -> Workers:
    return Workers(Listener.of(function, orderly=False, batch=False), limit, SystemClock(), "workers")


class Jobs:
    """So many of them, and what became of them."""

    def __init__(self, count: int) -> None:
        self.verdicts: list[Verdict | None] = []
        self.all_done = asyncio.Event()
        self.list = [Job([received(n)], CONTEXT, self.done) for n in range(count)]

    def done(self, verdict: Verdict | None) -> None:
        self.verdicts.append(verdict)
        if len(self.verdicts) == len(self.list):
            self.all_done.set()


@asyncio_test
async def test_one_thread_keeps_the_order() -> None:
    seen: list[int] = []
    pool = workers(lambda message: seen.append(message.queue_offset), 1)
    jobs = Jobs(500)
    pool.submit(jobs.list[:300], anywhere=True)
    pool.submit(jobs.list[300:], anywhere=True)
    await asyncio.wait_for(jobs.all_done.wait(), WAIT)
    assert seen == list(range(500))
    assert (pool.running, pool.waiting) == (0, 0)
    assert await pool.close(WAIT)


@asyncio_test
async def test_no_more_run_at_a_time_than_the_limit_also_after_it_was_lowered() -> None:
    lock, gate, running, most = threading.Lock(), threading.Semaphore(0), 0, Counter[int]()
    loop, four = asyncio.get_running_loop(), asyncio.Event()

    def listener(_: Any) -> None:
        nonlocal running
        with lock:
            running += 1
            most[phase] = max(most[phase], running)
            if running == 4:
                loop.call_soon_threadsafe(four.set)
        gate.acquire()
        with lock:
            running -= 1

    phase = 1
    pool = workers(listener, 4)
    jobs = Jobs(300)
    pool.submit(jobs.list, anywhere=True)
    await asyncio.wait_for(four.wait(), WAIT)
    phase = 2
    pool.limit = 2
    gate.release(300)
    await asyncio.wait_for(jobs.all_done.wait(), WAIT)
    assert most[1] == 4
    assert most[2] <= 2
    assert await pool.close(WAIT)
    for thread in threading.enumerate():
        if thread.name.startswith("workers-"):
            await asyncio.to_thread(thread.join, WAIT)
            assert not thread.is_alive()


@asyncio_test
async def test_what_is_called_off_on_a_thread_is_told_at_once() -> None:
    gate = threading.Event()
    pool = workers(lambda _: gate.wait(WAIT) and None, 1)
    called_off = Jobs(3)
    for job in called_off.list:
        job.begin = lambda: False
    slow = Jobs(1)
    pool.submit([*called_off.list, *slow.list], anywhere=True)
    await asyncio.wait_for(called_off.all_done.wait(), WAIT)
    assert called_off.verdicts == [None] * 3
    assert (slow.verdicts, pool.running) == ([], 1)
    gate.set()
    assert await pool.close(WAIT)
    assert slow.verdicts[0] is not None


@asyncio_test
async def test_closing_begins_nothing_more() -> None:
    gate, entered = threading.Event(), threading.Semaphore(0)

    def listener(_: Any) -> None:
        entered.release()
        gate.wait(WAIT)

    pool = workers(listener, 2)
    jobs = Jobs(10)
    pool.submit(jobs.list, anywhere=True)
    for _ in range(2):
        assert await asyncio.to_thread(entered.acquire, timeout=WAIT)
    assert (pool.running, pool.waiting) == (2, 8)
    pool.stop()
    assert jobs.verdicts == [None] * 8
    gate.set()
    assert await pool.close(WAIT)
    assert sum(verdict is not None for verdict in jobs.verdicts) == 2
