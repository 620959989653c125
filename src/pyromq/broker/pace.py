"""Background work on the event loop: in short slices, so that requests in between are answered, and exactly on time.

What is done lives elsewhere, as a `Step` that knows nothing of loops and is tested without one.
"""

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

Step = Callable[[], float | None]
"""Does one small piece of work and returns 0 when there is more; else does nothing and returns the seconds until there
will be, or None when only `wake` can bring more."""

SLICE = 0.004
"""Seconds of work at a time. A step is not interrupted, so it should take a fraction of that."""
LONGEST_NAP = 0.1
"""The wall clock may be set while the loop's own runs on: look again this often, however far away the next work is."""
AFTER_FAILURE = 1.0


class Paced:
    """Runs a step again and again, between `start` and `stop`."""

    def __init__(self, step: Step, *, longest_nap: float = LONGEST_NAP) -> None:
        self._step = step
        self._longest_nap = longest_nap
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Handle | None = None
        self._running = False
        self._failing = False

    def start(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self.wake()

    def stop(self) -> None:
        """End; nothing is running when this returns."""
        self._loop = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def wake(self) -> None:
        """There may be work earlier than the last step said."""
        if self._loop is not None and not self._running:
            if self._next is not None:
                self._next.cancel()
            self._next = self._loop.call_soon(self._run)

    def _run(self) -> None:
        loop = self._loop
        if loop is None:
            return
        self._next, self._running = None, True
        try:
            pause = self._slice(loop)
            self._failing = False
        except Exception:
            # Once per streak: a full disk would otherwise fill the log as well.
            if not self._failing:
                log.exception("%s failed, trying again every %g s", self._step, AFTER_FAILURE)
            self._failing, pause = True, AFTER_FAILURE
        finally:
            self._running = False
        if self._loop is None or pause is None:
            return
        self._next = loop.call_later(pause, self._run) if pause > 0 else loop.call_soon(self._run)

    def _slice(self, loop: asyncio.AbstractEventLoop) -> float | None:
        end = loop.time() + SLICE
        while True:
            pause = self._step()
            if pause is None:
                return None
            if pause > 0:
                return min(pause, self._longest_nap)
            if loop.time() >= end:
                return 0.0
