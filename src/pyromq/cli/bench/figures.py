"""What a benchmark counts: how many, how fast, how long each took. Pure but for the clock that is passed in."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STEP = 8
"""Buckets for each doubling: a percentile is right within a tenth."""
BUCKETS = 40 * STEP
"""Up to a day, in microseconds."""


class Latencies:
    """A histogram with buckets that grow, so that a long run takes no more room than a short one."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0
        self._buckets = [0] * BUCKETS

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)
        micros = max(1.0, seconds * 1e6)
        self._buckets[min(BUCKETS - 1, int(math.log2(micros) * STEP))] += 1

    @property
    def average_ms(self) -> float:
        return self.total / self.count * 1000 if self.count else 0.0

    def percentile_ms(self, share: float) -> float:
        """The time that this share of all stayed below, in milliseconds."""
        wanted = math.ceil(self.count * share)
        seen = 0
        for index, number in enumerate(self._buckets):
            seen += number
            if seen >= wanted and number:
                return min(float(2 ** ((index + 1) / STEP)) / 1000, self.longest * 1000)
        return 0.0

    def summary(self) -> dict[str, float]:
        return {
            "averageMs": round(self.average_ms, 3),
            "p50Ms": round(self.percentile_ms(0.50), 3),
            "p99Ms": round(self.percentile_ms(0.99), 3),
            "p999Ms": round(self.percentile_ms(0.999), 3),
            "maxMs": round(self.longest * 1000, 3),
        }


@dataclass
class Figures:
    """One run. `messages` went well, `failed` did not; `extra` holds what only one kind of benchmark counts."""

    clock: Callable[[], float]
    messages: int = 0
    failed: int = 0
    size: int = 0
    latencies: dict[str, Latencies] = field(default_factory=dict)
    extra: dict[str, int] = field(default_factory=dict)
    last_error: str | None = None

    def __post_init__(self) -> None:
        self.began = self._reported_at = self.clock()
        self._reported = 0

    def latency(self, name: str) -> Latencies:
        return self.latencies.setdefault(name, Latencies())

    def fail(self, error: BaseException, number: int = 1) -> None:
        self.failed += number
        self.last_error = str(error)

    def count(self, name: str, number: int = 1) -> None:
        self.extra[name] = self.extra.get(name, 0) + number

    def line(self) -> str:
        """How it goes, since the line before."""
        now = self.clock()
        rate = (self.messages - self._reported) / max(1e-9, now - self._reported_at)
        self._reported, self._reported_at = self.messages, now
        times = " ".join(f"{name} AVG {each.average_ms:.3f} ms MAX {each.longest * 1000:.3f} ms"
                         for name, each in self.latencies.items())  # fmt: skip
        return f"TPS: {rate:.0f} Total: {self.messages} Failed: {self.failed} {times}".rstrip()

    def summary(self) -> Mapping[str, object]:
        """The whole run."""
        seconds = max(1e-9, self.clock() - self.began)
        times = {name: each.summary() for name, each in self.latencies.items()}
        found: dict[str, object] = {
            "messages": self.messages,
            "failed": self.failed,
            "seconds": round(seconds, 3),
            "tps": round(self.messages / seconds, 1),
            "mbPerSecond": round(self.messages * self.size / seconds / 1e6, 3),
            **self.extra,
            **times,
        }
        return found | ({"lastError": self.last_error} if self.last_error is not None else {})
