"""Periodic work of a client instance: each job has its first run, its period, and never overlaps itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pyromq.client.clock import Clock, sleep

log = logging.getLogger(__name__)

Action = Callable[[], Awaitable[object]]


class Schedule:
    """Jobs that run until `stop`. A job that raises is logged and comes again at its next turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def every(self, name: str, first: float, period: float, action: Action) -> None:
        """Run `action` after `first` seconds and then every `period` seconds; a job that is late skips turns."""
        self._tasks[name] = asyncio.get_running_loop().create_task(self._repeat(first, period, action), name=name)

    @property
    def jobs(self) -> list[str]:
        return list(self._tasks)

    async def stop(self) -> None:
        """Cancel every job and wait until none runs."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        current = asyncio.current_task()
        await asyncio.gather(*(task for task in tasks if task is not current), return_exceptions=True)

    async def _repeat(self, first: float, period: float, action: Action) -> None:
        due = self._clock.monotonic() + first
        while True:
            await sleep(self._clock, due - self._clock.monotonic())
            try:
                await action()
            except Exception:
                task = asyncio.current_task()
                log.exception("scheduled job %r failed", task.get_name() if task else action)
            now = self._clock.monotonic()
            due = max(due + period, now) if due + period > now else now + period
