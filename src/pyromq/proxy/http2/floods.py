"""Frames that cost the sender nothing: how many of each kind a connection may send, and how fast.

Allowances fill with time, and with what this side sends: a client that is given much has reason to ping, and to open
its windows, as often.
"""

from collections.abc import Callable

from pyromq.proxy.http2.frames import ErrorCode, Http2Error
from pyromq.proxy.http2.limits import Http2Limits, Http2Stats

REFILL = 0.1
"""Of a full allowance, each second."""


class Allowance:
    """A token bucket for one kind of frame."""

    __slots__ = ("_burst", "_since", "_tokens", "_work")

    def __init__(self, burst: float, now: float) -> None:
        self._burst = self._tokens = burst
        self._since = now
        self._work = 0

    def take(self, now: float, work: int) -> bool:
        """Take one; False when there is none. `work` counts the frames this side has sent."""
        earned = (now - self._since) * self._burst * REFILL + work - self._work
        self._tokens = min(self._burst, self._tokens + earned) - 1
        self._since, self._work = now, work
        return self._tokens >= 0


class Floods:
    """The allowances of one connection, made when they are first needed."""

    __slots__ = ("_allowances", "_clock", "_limits", "_stats")

    def __init__(self, limits: Http2Limits, stats: Http2Stats, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._stats = stats
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}

    def count(self, kind: str, work: int) -> None:
        """One more of a kind, named as its limit is. Raises Http2Error when they are too many."""
        now = self._clock()
        allowance = self._allowances.get(kind)
        if allowance is None:
            burst: int = getattr(self._limits, kind)
            allowance = self._allowances[kind] = Allowance(burst, now)
        if not allowance.take(now, work):
            raise self.exceeded(kind)

    def exceeded(self, kind: str) -> Http2Error:
        """The fault of a connection that hit a limit."""
        self._stats.floods[kind] += 1
        return Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"limit {kind}")
