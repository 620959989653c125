"""A bounded pool of threads for code that is not ours: user callbacks, transaction checks.

Threads start when first needed. A task beyond the bound is refused at once, so a slow callback cannot fill the memory.
"""

import asyncio
import os
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
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run `function` on a thread. Raises PoolFull."""
        if self._closed or len(self._pending) >= self.capacity:
            raise PoolFull(f"{self.name}: {len(self._pending)} of {self.capacity} tasks are pending")
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
