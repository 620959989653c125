"""Calling listeners: so many at a time, plain functions on threads, coroutine functions as tasks.

Everything but the listener itself happens on the event loop. Only what comes just before a call may be allowed to run
anywhere: then threads take what waits as they like, and not just as much as may run at a time from one turn of the
event loop to the next. Jobs start in the order they came; those that wait are bounded by what the process queues may
hold. Threads start when needed and are daemons: a listener that never returns cannot keep the process alive.
"""

import asyncio
import contextvars
import itertools
import logging
import queue
import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyromq.client.clock import Clock, within
from pyromq.client.consumer.push.listener import Call, ConsumeContext, ConsumeOutcome, Listener, Verdict, read_outcome
from pyromq.protocol.message import ReceivedMessage

log = logging.getLogger(__name__)

_numbers = itertools.count(1)
MOST_AT_ONCE = 16
"""Calls that one task makes before others have their turn."""


@types.coroutine
def _apart(work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await a coroutine in a context of its own: what one call of a listener sets there, the next does not see."""
    run = contextvars.copy_context().run
    try:
        waits_for = run(work.send, None)
        while True:
            try:
                got = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
                waits_for = run(work.throw, error)
            else:
                waits_for = run(work.send, got)
    except StopIteration as end:
        return end.value


def _at_once() -> bool:
    return True


class Work(Call, Protocol):
    """One call of a listener and what happens around it, on the event loop."""

    def begin(self) -> bool:
        """Runs just before the call and may call it off; on the thread of the call if it can run anywhere."""

    def done(self, verdict: Verdict | None, /) -> None:
        """Runs after the call, or with None if there was none."""


@dataclass(slots=True, eq=False)
class Job:
    """Work put together from functions."""

    messages: Sequence[ReceivedMessage]
    context: ConsumeContext
    done: Callable[[Verdict | None], None]
    begin: Callable[[], bool] = _at_once


class Workers:
    """Runs jobs of one listener, at most `limit` at a time."""

    def __init__(self, listener: Listener, limit: int, clock: Clock, name: str) -> None:
        self.listener = listener
        self._limit = limit
        self._clock = clock
        self._name = name
        self._waiting: deque[Work] = deque()
        self.taking = threading.Lock()
        """Held while a thread takes a job that waits and begins it."""
        self._anywhere = False
        self._begun = self._taken = self._over = 0
        """Jobs that were begun here, and by threads, and of both those that have ended: each counted in one place."""
        self._closing = False
        self._idle = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Work] = deque()
        """Begun, and for the next thread or task that has time."""
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """What threads without work wait for: True to look for some, False to see whether there are too many."""
        self._looking = False
        """Whether one was woken that has not looked yet."""
        self._retirements: deque[None] = deque()
        """Threads that there are too many; whichever has time ends."""
        self._called_off: deque[Work] = deque()
        """By threads."""
        self._finished: deque[tuple[Work, Verdict]] = deque()
        self._signalled = False
        self._threads = 0
        self._serving = 0
        """Tasks that make calls."""

    @property
    def running(self) -> int:
        return self._begun + self._taken - self._over

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def limit(self) -> int:
        """How many calls at a time; may be changed while they run."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        for _ in range(self._threads - limit):
            self._retire_thread()
        self._pump()

    def submit(self, jobs: Sequence[Work], *, anywhere: bool = False) -> None:
        """Run them when their turn comes; their `begin` may run on any thread if they and all others say so."""
        if self._closing:
            for job in jobs:
                job.done(None)
            return
        self._anywhere = anywhere and not self.listener.is_async
        self._waiting.extend(jobs)
        self._pump()

    async def call(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, begin: Callable[[], bool] = _at_once
    ) -> Verdict | None:
        """Run one call and wait for it; None when it was called off."""
        outcome: asyncio.Future[Verdict | None] = self._loop.create_future()

        def settle(verdict: Verdict | None) -> None:
            if not outcome.done():
                outcome.set_result(verdict)

        self.submit([Job(messages, context, settle, lambda: not outcome.done() and begin())])
        return await outcome

    def stop(self) -> None:
        """Start nothing more; what waits is called off."""
        with self.taking:
            self._closing = True
            waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            job.done(None)

    async def close(self, grace: float) -> bool:
        """Stop, and wait up to `grace` seconds for what runs; whether all of it ended."""
        self.stop()
        ended = True
        try:
            while self.running:
                self._idle.clear()
                await within(self._clock, grace, self._idle.wait())
        except TimeoutError:
            ended = False
            log.warning("%s: %d listener calls did not end within %g s", self._name, self.running, grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self.listener.is_async and self._ready:
            self._end(self._ready.popleft(), None)
        for _ in range(self._threads):
            self._retire_thread()
        return ended

    def _pump(self) -> None:
        while self._waiting and not self._anywhere and self.running < self._limit:
            job = self._waiting.popleft()
            if not job.begin():
                job.done(None)
                continue
            self._begun += 1
            self._ready.append(job)
        if not self.listener.is_async:
            for _ in range(self._threads, min(self.running + len(self._waiting), self._limit)):
                self._add_thread()
        if self._is_work and not self._looking:
            self._wake()

    @property
    def _is_work(self) -> bool:
        return bool(self._ready or (self._anywhere and self._waiting))

    def _end(self, job: Work, verdict: Verdict | None) -> None:
        self._over += 1
        if self._closing and not self.running:
            self._idle.set()
        if verdict is not None and verdict.error is not None:
            log.warning("%s: the listener failed", self._name, exc_info=verdict.error)
        try:
            job.done(verdict)
        except Exception:
            log.exception("%s: a result could not be processed", self._name)

    async def _serve(self) -> None:
        """The life of a task, which is that of a thread (`_work`): it begins the next one only if there is more to do.

        So calls that never wait are made by one task, and as many as may run are there when they do.
        """
        looks, count = True, 0
        try:
            while (job := self._next(looks)) is not None:
                looks = False
                await self._await(job)
                self._pump()
                count += 1
                if count % MOST_AT_ONCE == 0:
                    await asyncio.sleep(0)  # for all else that goes on here
        finally:
            self._serving -= 1
            if not self._closing:
                self._pump()

    async def _await(self, job: Work) -> None:
        started = self._clock.monotonic()
        try:
            returned = await _apart(self.listener.call(job))
            outcome, error = read_outcome(returned), None
        except asyncio.CancelledError:
            self._end(job, None)  # closing interrupted it: neither done nor failed
            raise
        except Exception as raised:  # noqa: BLE001 - whatever a listener raises means "later"
            outcome, error = ConsumeOutcome.LATER, raised
        self._end(job, Verdict(outcome, error, self._clock.monotonic() - started))

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=f"{self._name}-{next(_numbers)}", daemon=True).start()

    def _retire_thread(self) -> None:
        self._threads -= 1
        self._retirements.append(None)
        self._wakes.put(False)

    def _wake(self) -> None:
        if not self.listener.is_async:
            self._looking = True
            self._wakes.put(True)
            return
        if self._serving >= self._limit:
            return  # jobs that are ready run as well, so one of those tasks has no call under way, and will come
        self._looking = True
        self._serving += 1
        task = self._loop.create_task(self._serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _work(self) -> None:
        """The life of a thread.

        Waking a thread for each job would cost more than a quick listener. So one is woken, and it wakes the next just
        before its own call if there is more to do: all are there when calls take long, and one does it all when not.
        """
        while True:
            looks = self._wakes.get()
            while not (self._retirements and not looks and self._retires()):
                job = self._next(looks)
                looks = False
                if job is None:
                    break
                if not self._call(job):
                    return
            else:
                return

    def _retires(self) -> bool:
        try:
            self._retirements.pop()
        except IndexError:
            return False
        return True

    def _next(self, looks: bool) -> Work | None:
        """A job for a thread or task, which `looks` if it was woken to and not only stays to take what is left."""
        try:
            job: Work | None = self._ready.popleft()
        except IndexError:
            job = self._take() if self._anywhere else None
        if looks:
            self._looking = False
        # Also when there was none: one that came just before the last line went without a thread.
        if not self._looking and self._is_work:
            self._wake()
        return job

    def _take(self) -> Work | None:
        """The first job that waits, begun, on a thread."""
        job: Work | None = None
        # Threads that wait for each other here would go on doing so for every job: one that would have to leaves it to
        # the other, which wakes the next.
        if not self.taking.acquire(blocking=False):
            return None
        try:
            while job is None and self._waiting:
                job = self._waiting.popleft()
                if job.begin():
                    self._taken += 1
                else:
                    self._called_off.append(job)
                    job = None
        finally:
            self.taking.release()
        if self._called_off:
            self._signal()
        return job

    def _call(self, job: Work) -> bool:
        """On a thread; False when the event loop has ended, and nobody waits for results."""
        started = self._clock.monotonic()
        error: BaseException | None = None
        try:
            outcome = read_outcome(self.listener.call(job))
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a listener must not end the thread unseen
            outcome, error = ConsumeOutcome.LATER, raised
        self._finished.append((job, Verdict(outcome, error, self._clock.monotonic() - started)))
        return self._signal()

    def _signal(self) -> bool:
        """One wake-up of the loop serves all results that came before it."""
        if not self._signalled:
            self._signalled = True
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                return False
        return True

    def _collect(self) -> None:
        self._signalled = False
        while self._called_off:
            self._called_off.popleft().done(None)
        while self._finished:
            self._end(*self._finished.popleft())
        self._pump()
