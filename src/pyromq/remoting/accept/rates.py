"""How often something may happen: a token bucket for each key, all with the same rate, and a bound on how many."""

import time
from collections.abc import Callable

MAX_KEYS = 20_000


class TokenBuckets:
    """`rate` tokens a second for each key, at most `burst` at a time. `clock` gives seconds.

    A key that was not seen for long costs nothing: its bucket is full again, so it is forgotten.
    """

    __slots__ = ("_buckets", "_burst", "_capacity", "_clock", "_rate", "refused")

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = MAX_KEYS,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._capacity = capacity
        self._buckets: dict[str, tuple[float, float]] = {}
        self.refused = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> bool:
        """Take a token of a key; False when there is none."""
        now = self._clock()
        tokens = self._tokens(key, now)
        if tokens < 1:
            self.refused += 1
            return False
        if key not in self._buckets and len(self._buckets) >= self._capacity:
            self._make_room(now)
        self._buckets[key] = (tokens - 1, now)
        return True

    def has(self, key: str) -> bool:
        """Whether `take` would succeed."""
        return key not in self._buckets or self._tokens(key, self._clock()) >= 1

    def _tokens(self, key: str, now: float) -> float:
        known = self._buckets.get(key)
        if known is None:
            return self._burst
        tokens, since = known
        return min(self._burst, tokens + (now - since) * self._rate)

    def _make_room(self, now: float) -> None:
        full = [key for key in self._buckets if self._tokens(key, now) >= self._burst]
        for key in full or list(self._buckets)[: self._capacity // 2]:
            del self._buckets[key]
