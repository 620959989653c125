"""Messages in and out by day: yesterday, since midnight, until now. Counted since the broker started."""

import time
from collections.abc import Callable

Totals = tuple[int, int]
"""Messages put and messages got."""


class DayTotals:
    """Remembers the totals at the last two midnights."""

    def __init__(self, clock: Callable[[], int], totals: Callable[[], Totals]) -> None:
        self._clock = clock
        self._totals = totals
        self._day = self._today()
        self._yesterday: Totals = (0, 0)
        self._morning: Totals = (0, 0)

    def tick(self) -> None:
        """Notice midnight."""
        today = self._today()
        if today != self._day:
            self._day = today
            self._yesterday, self._morning = self._morning, self._totals()

    def table(self) -> dict[str, int]:
        """Under the names of the runtime information."""
        put, got = self._totals()
        return {
            "msgPutTotalYesterdayMorning": self._yesterday[0],
            "msgPutTotalTodayMorning": self._morning[0],
            "msgPutTotalTodayNow": put,
            "msgGetTotalYesterdayMorning": self._yesterday[1],
            "msgGetTotalTodayMorning": self._morning[1],
            "msgGetTotalTodayNow": got,
        }

    def _today(self) -> tuple[int, int]:
        local = time.localtime(self._clock() / 1000)
        return local.tm_year, local.tm_yday
