"""The one background event loop behind all blocking clients of a process.

It starts with the first client, in a daemon thread, and ends with the last. Threads hand work over through an inbox
that wakes the loop once for many items. A loop inherited through fork is dead and says so.
"""

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from pyromq.client.errors import ClientError, ForkedError, ServiceStateError

T = TypeVar("T")

LOOK_FOR_INTERRUPTS = 1.0
"""A signal that comes just before a thread blocks, or that another thread was given, does not end its wait: so often it
looks by itself whether there was one."""


class BackgroundLoop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = _new_event_loop()
        self._inbox: deque[Callable[[], object]] = deque()
        self._awake = False
        self._thread = threading.Thread(target=self._serve, name="pyromq-loop", daemon=True)
        self._thread.start()

    def call(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        context: contextvars.Context | None = None,
        first: "Callable[[_Visit[T]], Cancellable | None] | None" = None,
    ) -> T:
        """Run a coroutine on the loop, if wanted in a context of the caller's, and wait for its result.

        Interrupting the wait cancels the coroutine. `first` is asked whether it can do the same without one: what it
        gives back is under way, and tells its outcome to the visit; None means that it cannot.
        """
        if threading.current_thread() is self._thread:
            raise ClientError(
                "a blocking call on PyroMQ's own event loop would wait for itself; use pyromq.aio in coroutines"
            )
        visit = _Visit(self._loop, make, context, first)
        try:
            self.submit(visit.start)
            return visit.result()
        except BaseException:
            if not visit.ended:
                visit.abandoned = True
                with suppress(ForkedError, RuntimeError):  # what kept it from being submitted, too
                    self.submit(visit.cancel)
            raise

    def begin(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine on the loop and return at once."""
        outcome: Future[T] = Future()
        self.submit(lambda: chain(lambda: self._loop.create_task(make()), outcome))
        return outcome

    def submit(self, work: Callable[[], object]) -> None:
        """Run a plain function on the loop soon."""
        self.check_process()
        self._inbox.append(work)
        # Set before the loop is woken, cleared before the inbox is read: an item is never left behind.
        if not self._awake:
            self._awake = True
            try:
                self._loop.call_soon_threadsafe(self._read_inbox)
            except BaseException:  # an interrupt too: the next one must not take the loop for awake
                self._awake = False
                raise

    def check_process(self) -> None:
        pid = os.getpid()
        if pid != self._pid:
            raise ForkedError(self._pid, pid)

    def stop(self) -> None:
        """End the loop and its thread; what still runs on it is cancelled."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _read_inbox(self) -> None:
        self._awake = False
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()
        if self._inbox and not self._awake:
            self._awake = True
            self._loop.call_soon(self._read_inbox)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


class Cancellable(Protocol):
    """Work under way that is no task."""

    def call_off(self) -> None: ...


class _Visit(Generic[T]):
    """One call from another thread: a coroutine's way on the loop, and the thread that waits for it.

    A `Future` does the same for more, with a condition variable that costs as much as the call itself.
    """

    __slots__ = (
        "_arrival",
        "_context",
        "_error",
        "_first",
        "_loop",
        "_make",
        "_result",
        "_task",
        "_work",
        "abandoned",
        "ended",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], Coroutine[Any, Any, T]],
        context: contextvars.Context | None,
        first: "Callable[[_Visit[T]], Cancellable | None] | None",
    ) -> None:
        self.ended = False
        self.abandoned = False
        """Nobody waits any more."""
        self._loop = loop
        self._make = make
        self._context = context
        self._first = first
        self._work: Cancellable | None = None
        self._task: asyncio.Task[T] | None = None
        self._error: BaseException | None = None
        self._result: T
        self._arrival = threading.Lock()
        self._arrival.acquire()

    def start(self) -> None:
        """On the loop."""
        if self.abandoned:
            return
        try:
            if self._first is not None:
                context = self._context
                self._work = self._first(self) if context is None else context.run(self._first, self)
                if self._work is not None:
                    return
            self._task = self._loop.create_task(self._make(), context=self._context)
        except Exception as error:  # noqa: BLE001 - it belongs to the thread that waits
            self._end(error)
        else:
            self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        """On the loop."""
        if self._task is not None:
            self._task.cancel()
        elif self._work is not None:
            self._work.call_off()

    def done(self) -> bool:
        """On the loop: whether there is an outcome, or nobody waits for one."""
        return self.ended or self.abandoned

    def set_result(self, result: T) -> None:
        """On the loop."""
        self._result = result
        self._end(None)

    def set_exception(self, error: BaseException) -> None:
        """On the loop."""
        self._end(error)

    def result(self) -> T:
        """On the thread."""
        while not self._arrival.acquire(timeout=LOOK_FOR_INTERRUPTS):
            pass
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # whose traceback holds this very frame

    def _done(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self._end(ServiceStateError("the client was closed before the call was finished"))
        elif (error := task.exception()) is not None:
            self._end(error)
        else:
            self.set_result(task.result())

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self.ended = True
        self._arrival.release()


def chain(start: "Callable[[], asyncio.Future[T]]", outcome: "Future[T]") -> None:
    """On the loop: start something unless nobody wants it any more, and copy what becomes of it to another thread."""
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        work = start()
    except Exception as error:  # noqa: BLE001 - it belongs to the thread that waits
        outcome.set_exception(error)
        return

    copy_to(work, outcome)


def copy_to(work: "asyncio.Future[T]", outcome: "Future[T]") -> None:
    """On the loop: copy what becomes of something to another thread."""

    def copy(done: "asyncio.Future[T]") -> None:
        if done.cancelled():
            outcome.set_exception(ServiceStateError("the client was closed before the call was finished"))
        elif (error := done.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())

    work.add_done_callback(copy)


class _Shared:
    """The loop of this process and how many clients use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: BackgroundLoop | None = None
        self.users = 0


_shared = _Shared()


def acquire() -> BackgroundLoop:
    """The shared loop, started if need be; give it back with `release`."""
    with _shared.lock:
        if _shared.loop is None:
            _shared.loop = BackgroundLoop()
        _shared.users += 1
        return _shared.loop


def release(loop: BackgroundLoop) -> None:
    """One client less; the last one ends the loop."""
    with _shared.lock:
        if loop is not _shared.loop:
            return
        _shared.users -= 1
        if _shared.users:
            return
        _shared.loop = None
    loop.stop()


def _forget() -> None:
    """In a child process: neither the lock's state nor the thread came along."""
    global _shared  # noqa: PLW0603 - the one place that replaces it
    _shared = _Shared()


os.register_at_fork(after_in_child=_forget)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
