"""Calling listeners: so many at a time, plain functions on threads, coroutine functions as tasks.

Everything but the listener itself happens on the event loop. Jobs start in the order they came; those that wait are
bounded by what the process queues may hold. Threads start when needed and are daemons: a listener that never returns
cannot keep the process alive.
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
from pyromq.client.consumer.push.listener import ConsumeContext, ConsumeOutcome, Listener, Verdict, read_outcome
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


class Work(Protocol):
    """One call of a listener and what happens around it, on the event loop."""

    @property
    def messages(self) -> Sequence[ReceivedMessage]: ...

    @property
    def context(self) -> ConsumeContext: ...

    def begin(self) -> bool:
        """Runs just before the call and may call it off."""

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
        self._running = 0
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Work] = deque()
        """Begun, and for the next thread or task that has time."""
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """What threads without work wait for: True to look for some, False to end."""
        self._looking = False
        """Whether one was woken that has not looked yet."""
        self._finished: deque[tuple[Work, Verdict]] = deque()
        self._signalled = False
        self._threads = 0
        self._serving = 0
        """Tasks that make calls."""

    @property
    def running(self) -> int:
        return self._running

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

    def submit(self, jobs: Sequence[Work]) -> None:
        """Run them when their turn comes."""
        if self._closing:
            for job in jobs:
                job.done(None)
            return
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
        self._closing = True
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            job.done(None)

    async def close(self, grace: float) -> bool:
        """Stop, and wait up to `grace` seconds for what runs; whether all of it ended."""
        self.stop()
        ended = True
        try:
            await within(self._clock, grace, self._idle.wait())
        except TimeoutError:
            ended = False
            log.warning("%s: %d listener calls did not end within %g s", self._name, self._running, grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self.listener.is_async and self._ready:
            self._end(self._ready.popleft(), None)
        for _ in range(self._threads):
            self._retire_thread()
        return ended

    def _pump(self) -> None:
        while self._waiting and self._running < self._limit:
            job = self._waiting.popleft()
            if not job.begin():
                job.done(None)
                continue
            self._running += 1
            self._idle.clear()
            if not self.listener.is_async and self._threads < self._running:
                self._add_thread()
            self._ready.append(job)
        if self._ready and not self._looking:
            self._wake()

    def _end(self, job: Work, verdict: Verdict | None) -> None:
        self._running -= 1
        if self._running == 0:
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
            returned = await _apart(self.listener.call(job.messages, job.context))
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
        while self._wakes.get():
            looks = True
            while (job := self._next(looks)) is not None:
                looks = False
                if not self._call(job):
                    return

    def _next(self, looks: bool) -> Work | None:
        """A job for a thread or task, which `looks` if it was woken to and not only stays to take what is left."""
        try:
            job = self._ready.popleft()
        except IndexError:
            job = None
        if looks:
            self._looking = False
        # Also when there was none: one that came just before the last line went without a thread.
        if self._ready and not self._looking:
            self._wake()
        return job

    def _call(self, job: Work) -> bool:
        """On a thread; False when the event loop has ended, and nobody waits for results."""
        started = self._clock.monotonic()
        error: BaseException | None = None
        try:
            outcome = read_outcome(self.listener.call(job.messages, job.context))
        except BaseException as raised:  # noqa: BLE001 - SystemExit in a listener must not end the thread unseen
            outcome, error = ConsumeOutcome.LATER, raised
        self._finished.append((job, Verdict(outcome, error, self._clock.monotonic() - started)))
        # One wake-up of the loop serves all results that came before it.
        if not self._signalled:
            self._signalled = True
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                return False
        return True

    def _collect(self) -> None:
        self._signalled = False
        while self._finished:
            self._end(*self._finished.popleft())
        self._pump()
