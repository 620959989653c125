"""A bounded pool of threads for code that is not ours: user callbacks, transaction checks.

Threads start when first needed. A task beyond the bound is refused at once, so a slow callback cannot fill the memory.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from pyromq.client.clock import Clock, within

T = TypeVar("T")


class PoolFull(Exception):  # noqa: N818 - a state of the pool that its users react to, never shown to users of PyroMQ
    """The bound of the pool was reached, or it is closed."""


class BoundedPool:
    """At most `threads` tasks run and `capacity` tasks are known at a time. Used from one event loop."""

    def __init__(self, name: str, threads: int, capacity: int, executor: Executor | None = None) -> None:
        self.name = name
        self.threads = threads if threads > 0 else (os.cpu_count() or 4)
        self.capacity = capacity
        self._own = executor is None
        self._executor = executor
        self._pending: set[Future[Any]] = set()
        self._posted: deque[Callable[[], object]] = deque()
        self._looking = False
        """Whether a thread was asked to look for posts and has not done so yet."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending) + len(self._posted)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run `function` on a thread. Raises PoolFull."""
        self._check_room()
        return self._start(function)

    def post(self, function: Callable[[], object]) -> None:
        """Run `function`, which raises nothing, on a thread, and ask no more. Raises PoolFull.

        Starting a task for each would cost more than most of them do. So one thread is asked to look, and it asks the
        next just before its own call if there are more: all are there when calls take long, and one does it all when
        not.
        """
        self._check_room()
        self._posted.append(function)
        if not self._looking:
            self._looking = True
            try:
                self._start(self._serve_posts)
            except PoolFull:
                self._looking = False
                self._posted.remove(function)
                raise

    def _serve_posts(self) -> None:
        looks = True
        while True:
            try:
                function = self._posted.popleft()
            except IndexError:
                function = None
            if looks:
                self._looking = looks = False
            # Also when there was none: one that came just before the last line went without a thread.
            if self._posted and not self._looking:
                self._looking = True
                try:
                    self._start(self._serve_posts)
                except PoolFull:  # ended by its owner: this thread does what is left
                    self._looking = False
            if function is None:
                return
            function()

    def _check_room(self) -> None:
        if self._closed or len(self) >= self.capacity:
            raise PoolFull(f"{self.name}: {len(self)} of {self.capacity} tasks are pending")

    def _start(self, function: Callable[[], T]) -> Future[T]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix=self.name)
        try:
            task = self._executor.submit(function)
        except RuntimeError as error:
            raise PoolFull(f"{self.name}: {error}") from error
        self._pending.add(task)
        # Runs on the worker thread; adding to and discarding from a set are single steps under the GIL.
        task.add_done_callback(self._pending.discard)
        return task

    async def close(self, clock: Clock, grace: float) -> None:
        """Refuse new tasks, wait up to `grace` seconds for those that run, and end the threads."""
        self._closed = True
        pending = [asyncio.wrap_future(task) for task in list(self._pending)]
        finished = True
        if pending:
            try:
                await within(clock, grace, asyncio.gather(*pending, return_exceptions=True))
            except TimeoutError:
                finished = False
        if self._executor is not None and self._own:
            # Joining is instant once nothing runs; a callback that does not end is left to end by itself.
            self._executor.shutdown(wait=finished, cancel_futures=True)
