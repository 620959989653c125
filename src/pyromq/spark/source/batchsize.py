"""How much a micro-batch takes: limits by rows and bytes, a minimum worth starting for, and an adaptive size.

Time comes from the clock that is passed in (seconds); nothing here asks a broker.
"""

from collections.abc import Callable, Mapping

from pyromq.protocol.message import MessageQueue
from pyromq.spark.source.offsets import share
from pyromq.spark.source.options import SourceOptions

FIRST_GUESS = 1024.0
"""Bytes of a message before any was seen."""
FIRST_ROWS = 10_000
"""Rows of the first batch of adaptive size."""
WEIGHT = 0.3
"""Of the latest batch in the mean size of messages."""


class BatchSize:
    """Decides batch by batch."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._target = None if options.target_batch_ms is None else options.target_batch_ms / 1000
        self._clock = clock
        self._waiting_since: float | None = None
        self._mean: float | None = None
        self._rows = FIRST_ROWS
        self._began: float | None = None
        self._admitted = 0

    def sized(self, count: int, size: int) -> None:
        """Learn from messages that were seen: how many bytes they take."""
        if count > 0:
            before = size / count if self._mean is None else self._mean
            self._mean = before + (size / count - before) * WEIGHT

    def is_due(self, available: int) -> bool:
        """Whether there is enough to start, or what is there has waited long enough."""
        if not available:
            self._waiting_since = None
            return False
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        if self._options.min_offsets_per_trigger is None or available >= self._options.min_offsets_per_trigger:
            return True
        return now - self._waiting_since >= self._options.max_delay

    def asked(self) -> None:
        """Spark asks for the next batch, so the last one is done: adapt the size to how long it took."""
        target, began = self._target, self._began
        if target is None or began is None:
            return
        self._began = None
        took = max(self._clock() - began, 0.001)
        # A batch that was not full says little about how long a full one takes, but it may only ask for more.
        if self._admitted >= self._rows or took > target:
            self._rows = max(1, int(self._rows * min(2.0, max(0.5, target / took))))

    def take(
        self,
        available: Mapping[MessageQueue, int],
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        everything: bool = False,
    ) -> dict[MessageQueue, int]:
        """What the next batch reads of each queue, within the limits that Spark states and our own."""
        budgets = self._budgets(max_rows, max_bytes) if not everything else []
        taken = share(available, min(budgets)) if budgets else dict(available)
        self._waiting_since = None
        self._began = self._clock()
        self._admitted = sum(taken.values())
        return taken

    def _budgets(self, max_rows: int | None, max_bytes: int | None) -> list[int]:
        budgets = [limit for limit in (max_rows, self._options.max_offsets_per_trigger) if limit is not None]
        mean = self._mean or FIRST_GUESS
        budgets += [
            max(1, int(limit / mean)) for limit in (max_bytes, self._options.max_bytes_per_trigger) if limit is not None
        ]
        if self._target is not None:
            budgets.append(self._rows)
        return budgets
