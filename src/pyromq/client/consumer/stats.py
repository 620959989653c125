"""Rates of consumption by topic over the last minute, for tools that ask a consumer how it is doing."""

from collections import deque

from pyromq.client.clock import Clock
from pyromq.protocol.bodies import ConsumeStatus

SLICE = 10.0
SLICES = 6
HOUR = 3600.0


class _Sum:
    """Events and their total value, in slices of ten seconds."""

    def __init__(self, clock: Clock, span: float) -> None:
        self._clock = clock
        self._span = span
        self._slices: deque[tuple[float, int, float]] = deque()

    def add(self, count: int, value: float = 0.0) -> None:
        start = self._clock.monotonic() // SLICE * SLICE
        if self._slices and self._slices[-1][0] == start:
            _, known, total = self._slices.pop()
            count, value = count + known, value + total
        self._slices.append((start, count, value))
        self._forget()

    @property
    def count(self) -> int:
        self._forget()
        return sum(count for _, count, _ in self._slices)

    @property
    def per_second(self) -> float:
        return self.count / self._span

    @property
    def average(self) -> float:
        count = self.count
        return sum(value for _, _, value in self._slices) / count if count else 0.0

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - self._span
        while self._slices and self._slices[0][0] + SLICE <= oldest:
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
        stats = self._of(topic)
        stats.pulls.add(1, seconds * 1000)
        stats.pulled.add(messages)

    def consumed(self, topic: str, seconds: float, succeeded: int, failed: int) -> None:
        stats = self._of(topic)
        stats.calls.add(1, seconds * 1000)
        if succeeded:
            stats.consumed.add(succeeded)
        if failed:
            stats.failed.add(failed)
            stats.failed_hour.add(failed)

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

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def _of(self, topic: str) -> _TopicStats:
        return self._topics.setdefault(topic, _TopicStats(self._clock))
