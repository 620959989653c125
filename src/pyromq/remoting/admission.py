"""How many connections there are, in all and from each address, how fast they come, and whether one more may."""

import time
from collections import Counter
from collections.abc import Callable

from pyromq.remoting.limits import Limits
from pyromq.remoting.rates import TokenBuckets
from pyromq.remoting.stats import Stats


class Admission:
    """Counts of connections by peer host. Every `enter` that returned True needs one `leave`."""

    __slots__ = ("_hosts", "_limits", "_rates", "_stats", "_total")

    def __init__(self, limits: Limits, stats: Stats, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._stats = stats
        self._hosts: Counter[str] = Counter()
        self._rates = None
        if limits.connection_rate:
            self._rates = TokenBuckets(limits.connection_rate, 2 * limits.connection_rate, clock=clock)
        self._total = 0

    def enter(self, host: str, *, shared: bool = False) -> bool:
        """Count a connection in, unless a limit forbids it; a `shared` host (a proxy) has no limit of its own."""
        if self._total >= self._limits.connections:
            self._stats.connections_refused += 1
            return False
        if not shared and self._hosts[host] >= self._limits.connections_per_peer:
            self._stats.connections_refused_per_peer += 1
            return False
        if not shared and self._rates is not None and not self._rates.take(host):
            self._stats.connections_refused_rate += 1
            return False
        self._total += 1
        self._hosts[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Count a connection out."""
        self._total -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
