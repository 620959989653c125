"""Counters of a store, for runtime information and metrics. Plain numbers, raised in place by whoever counts."""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""Upper bounds of the latency classes that RocketMQ reports; one more class lies above the last."""
LABELS = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
SAMPLES = 10 * 60 + 1


class Sample(NamedTuple):
    """The totals at one moment."""

    time: int
    put: int
    found: int
    missed: int
    transferred: int


class StoreStats:
    """Totals since start, put latency classes, and rates over the last 10, 60 and 600 seconds."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.get_transferred = 0
        self.put_latency = [0] * (len(BOUNDS_MS) + 1)
        self.put_latency_max = 0
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.sample(start)

    def put_took(self, ms: int, count: int = 1) -> None:
        """Count how long a put, or several, took from request to answer, waits for flush and replicas included."""
        self.put_latency[bisect_right(BOUNDS_MS, ms - 1)] += count
        self.put_latency_max = max(self.put_latency_max, ms)

    def sample(self, now: int) -> None:
        """To be called once a second."""
        self._samples.append(Sample(now, self.put_count, self.get_found, self.get_missed, self.get_transferred))

    def put_tps(self) -> tuple[float, float, float]:
        return self._rates(1)

    def get_found_tps(self) -> tuple[float, float, float]:
        return self._rates(2)

    def get_missed_tps(self) -> tuple[float, float, float]:
        return self._rates(3)

    def get_transferred_tps(self) -> tuple[float, float, float]:
        return self._rates(4)

    @property
    def average_size(self) -> float:
        return self.put_bytes / self.put_count if self.put_count else 0.0

    def put_latency_percentile(self, share: float) -> int:
        """Upper bound in milliseconds of the class that holds the given share (0 to 1) of puts; 0 without any."""
        left = share * sum(self.put_latency)
        for bound, count in zip((*BOUNDS_MS, self.put_latency_max), self.put_latency, strict=True):
            left -= count
            if left <= 0:
                return bound
        return self.put_latency_max

    def put_distribution(self) -> str:
        """As `putMessageDistributeTime` shows it: `[<=0ms]:17 [0~10ms]:3 …`."""
        return " ".join(f"[{label}]:{count}" for label, count in zip(LABELS, self.put_latency, strict=True))

    def _rates(self, field: int) -> tuple[float, float, float]:
        return self._rate(field, 10), self._rate(field, 60), self._rate(field, 600)

    def _rate(self, field: int, seconds: int) -> float:
        samples = self._samples
        last = samples[-1]
        first = samples[max(0, len(samples) - 1 - seconds)]
        elapsed = last.time - first.time
        return (last[field] - first[field]) * 1000 / elapsed if elapsed > 0 else 0.0
