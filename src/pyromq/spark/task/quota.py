"""How fast a task may read from brokers: its share of what the query may, in all and from each of them.

What was read is a debt that time pays off; as long as there is one, nothing more is asked for. So a large answer is
followed by a long pause, and the mean is kept. The debt outlives a task: the next one in the same process goes on with
it, or micro-batches would each begin with a free one.
"""

import os
from collections.abc import Callable

from pyromq.spark.source.options import SourceOptions
from pyromq.spark.source.partitions import Share

STEP = 0.25
"""Seconds of reading to ask for at a time."""
LEAST = 64 << 10
"""Bytes to ask for at a time, however slow the reading is."""


class Quota:
    """Rates and debts of one process for one query. Made with what reads the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rates: dict[str, float] = {}
        self._free: dict[str, float] = {}

    def set(self, options: SourceOptions, share: Share) -> None:
        """Take over the rates for the next task."""
        self._rates = {}
        if options.max_bytes_per_second is not None:
            self._rates[""] = options.max_bytes_per_second / share.tasks
        if options.max_bytes_per_second_per_broker is not None:
            for broker, tasks in share.by_broker:
                self._rates[broker] = options.max_bytes_per_second_per_broker / tasks

    def pause(self, broker: str) -> float:
        """Seconds before more may be asked of a broker."""
        if not self._rates:
            return 0.0
        now = self._clock()
        return max(0.0, *(self._free.get(key, 0.0) - now for key in ("", broker)))

    def spent(self, broker: str, size: int) -> None:
        """So many bytes came from it."""
        for key in ("", broker):
            if rate := self._rates.get(key):
                self._free[key] = max(self._free.get(key, 0.0), self._clock()) + size / rate

    def portion(self, broker: str, most: int) -> int:
        """Bytes to ask a broker for at a time, `most` without a rate."""
        rate = min((self._rates[key] for key in ("", broker) if key in self._rates), default=None)
        return most if rate is None else min(most, max(LEAST, int(rate * STEP)))


_kept: dict[tuple[object, ...], Quota] = {}
MAX_KEPT = 16


def kept_quota(options: SourceOptions, share: Share, clock: Callable[[], float]) -> Quota:
    """The one of this process for these options, for another task."""
    key = (os.getpid(), options.max_bytes_per_second, options.max_bytes_per_second_per_broker, *options.identity)
    quota = _kept.get(key)
    if quota is None:
        if len(_kept) >= MAX_KEPT:
            _kept.pop(next(iter(_kept)))
        quota = _kept[key] = Quota(clock)
    quota.set(options, share)
    return quota
