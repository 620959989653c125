"""Work that a broker repeats: one task for each, whose failures are logged and never end it."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pyromq.store.errors import DiskFullError

log = logging.getLogger(__name__)


class Timers:
    """Runs functions again and again between `start` and `stop`."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def every(self, seconds: float, work: Callable[[], Awaitable[None] | None], *, at_once: bool = False) -> None:
        """Call `work` after each pause of this many seconds; `at_once` also before the first."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(seconds, work, at_once)))

    def soon(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something once, beside everything else."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def stop(self) -> None:
        """End all of it; what is under way is cancelled."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @staticmethod
    async def _repeat(seconds: float, work: Callable[[], Awaitable[None] | None], at_once: bool) -> None:
        failing = False
        if not at_once:
            await asyncio.sleep(seconds)
        while True:
            try:
                outcome = work()
                if inspect.isawaitable(outcome):
                    await outcome
                failing = False
            except (OSError, DiskFullError) as error:
                # Once per streak: a full disk would otherwise fill the log as well.
                if not failing:
                    name = getattr(work, "__qualname__", work)
                    log.warning("%s failed, trying again every %g s: %s", name, seconds, error)
                failing = True
            except Exception:
                if not failing:
                    log.exception("%s failed, trying again every %g s", work, seconds)
                failing = True
            await asyncio.sleep(seconds)
