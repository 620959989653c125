"""Rates of consumption by topic over the last minute, for tools that ask a consumer how it is doing."""

import math
from collections import deque
from dataclasses import dataclass

from pyromq.client.clock import Clock
from pyromq.protocol.bodies.clients import ConsumeStatus

SLICE = 10.0
SLICES = 6
HOUR = 3600.0


@dataclass(slots=True)
class _Slice:
    start: float
    count: int = 0
    value: float = 0.0


class _Sum:
    """Events and their total value, in slices of ten seconds."""

    def __init__(self, clock: Clock, span: float) -> None:
        self._clock = clock
        self._span = span
        self._slices: deque[_Slice] = deque()
        self._current = _Slice(-math.inf)

    def add(self, now: float, count: int, value: float = 0.0) -> None:
        current = self._current
        if not 0.0 <= now - current.start < SLICE:
            self._forget()
            current = self._current = _Slice(now // SLICE * SLICE)
            self._slices.append(current)
        current.count += count
        current.value += value

    @property
    def count(self) -> int:
        self._forget()
        return sum(part.count for part in self._slices)

    @property
    def per_second(self) -> float:
        return self.count / self._span

    @property
    def average(self) -> float:
        count = self.count
        return sum(part.value for part in self._slices) / count if count else 0.0

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - self._span
        while self._slices and self._slices[0].start + SLICE <= oldest:
            self._slices.popleft()


class _TopicStats:
    def __init__(self, clock: Clock) -> None:
        minute = SLICE * SLICES
        self.pulls = _Sum(clock, minute)
        self.pulled = _Sum(clock, minute)
        self.calls = _Sum(clock, minute)
        self.consumed = _Sum(clock, minute)
        self.failed = _Sum(clock, minute)
        self.failed_hour = _Sum(clock, HOUR)


class ConsumerStats:
    """Counters of one consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, _TopicStats] = {}

    def pulled(self, topic: str, seconds: float, messages: int) -> None:
        stats, now = self._of(topic), self._clock.monotonic()
        stats.pulls.add(now, 1, seconds * 1000)
        stats.pulled.add(now, messages)

    def consumed(self, topic: str, seconds: float, succeeded: int, failed: int, calls: int = 1) -> None:
        """So many calls took so long together."""
        stats, now = self._of(topic), self._clock.monotonic()
        stats.calls.add(now, calls, seconds * 1000)
        if succeeded:
            stats.consumed.add(now, succeeded)
        if failed:
            stats.failed.add(now, failed)
            stats.failed_hour.add(now, failed)

    def status(self, topic: str) -> ConsumeStatus:
        """The last minute; failed messages of the last hour."""
        stats = self._of(topic)
        return ConsumeStatus(
            pull_rt=stats.pulls.average,
            pull_tps=stats.pulled.per_second,
            consume_rt=stats.calls.average,
            consume_ok_tps=stats.consumed.per_second,
            consume_failed_tps=stats.failed.per_second,
            consume_failed_msgs=stats.failed_hour.count,
        )

    def _of(self, topic: str) -> _TopicStats:
        stats = self._topics.get(topic)
        if stats is None:
            stats = self._topics[topic] = _TopicStats(self._clock)
        return stats
