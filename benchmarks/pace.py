"""What a client does in one run: messages a second, and the processor time that each of them takes."""

import threading
import time
from dataclasses import dataclass

from pyromq.protocol.message import ReceivedMessage

SECONDS = 1.5
BOUND = 120.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What the client did in one run."""

    per_second: float
    cost: float
    """Processor seconds of this process for each message."""


class Meter:
    """Counts messages between its making and `pace`."""

    def __init__(self) -> None:
        self._begun, self._used = time.perf_counter(), time.process_time()

    @property
    def running(self) -> bool:
        """Whether the time of a run is not over."""
        return time.perf_counter() - self._begun < SECONDS

    def pace(self, count: int) -> Pace:
        """With `count` messages done since the beginning."""
        return Pace(count / (time.perf_counter() - self._begun), (time.process_time() - self._used) / count)


class Tally:
    """Counts what was consumed, on any thread; the clock runs from the first message to the last."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._lock = threading.Lock()
        self._count = 0
        self._meter: Meter
        self._pace: Pace | None = None
        self._done = threading.Event()

    @property
    def ended(self) -> bool:
        return self._pace is not None

    def count(self, _: ReceivedMessage) -> None:
        with self._lock:
            if not self._count:
                self._meter = Meter()
            self._count += 1
            if self._count == self._expected:
                self._pace = self._meter.pace(self._expected)
                self._done.set()

    def wait(self) -> Pace:
        """Until all are there."""
        assert self._done.wait(BOUND), f"{self._count} of {self._expected} messages arrived"
        assert self._pace is not None
        return self._pace
