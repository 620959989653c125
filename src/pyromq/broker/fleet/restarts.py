"""When a broker that fell is started again: at once the first time, later and later when it keeps falling.

Pure: whoever keeps the processes says when they begin and end. It never gives up, for what keeps a broker from running
(a full disk, a port that is taken) may pass; but after some falls in a row it counts as failing, and people are told.
"""

from typing import Final

from pyromq.clock import pause_after

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
STEADY_MS: Final = 60_000
"""A run that lasted so long ends a row of falls."""
MANY: Final = 5


class Restarts:
    """Of one broker. Times are milliseconds of a steady clock."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._first = first
        self._longest = longest
        self._begun = 0
        self.total = 0
        """Falls since the fleet was started."""
        self.in_row = 0
        """Falls without a longer run between them."""

    @property
    def is_failing(self) -> bool:
        """Whether it fell so often that somebody should look."""
        return self.in_row >= MANY

    def begun(self, now: int) -> None:
        """A run begins."""
        self._begun = now

    def fell(self, now: int) -> float:
        """It has ended; returns for how many seconds to wait before the next run."""
        self.total += 1
        self.in_row = 1 if now - self._begun >= STEADY_MS else self.in_row + 1
        return pause_after(self.in_row, first=self._first, longest=self._longest)
