"""How many connections there are, in all and from each address, how fast they come, and whether one more may.

A tenth of all connections is for addresses that are known: where a peer proved who it is not long ago or, on servers
that ask nobody, this machine itself. So clients, other servers and administrators get in while strangers fill the rest.
"""

import time
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address

from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats

TRUST = 3600.0
"""Seconds for which an address is known."""
MAX_KNOWN = 20_000
RESERVED = 10


class ConnectionQuota:
    """Counts of connections by peer host. Every `enter` that returned True needs one `leave`."""

    __slots__ = ("_clock", "_hosts", "_known", "_limits", "_rates", "_stats", "_strangers", "_total")

    def __init__(
        self, limits: Limits, stats: Stats, clock: Callable[[], float] = time.monotonic, *, strangers: bool = False
    ) -> None:
        self._limits = limits
        self._stats = stats
        self._clock = clock
        self._strangers = strangers
        self._hosts: Counter[str] = Counter()
        self._known: dict[str, float] = {}
        self._rates = None
        if limits.connection_rate:
            self._rates = TokenBuckets(limits.connection_rate, 2 * limits.connection_rate, clock=clock)
        self._total = 0

    @property
    def known(self) -> int:
        """Addresses that are remembered."""
        return len(self._known)

    def introduce(self, host: str) -> None:
        """A peer at this address proved who it is."""
        self._known.pop(host, None)
        if len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]  # the one that was silent for longest
        self._known[host] = self._clock()

    def enter(self, host: str, *, shared: bool = False) -> bool:
        """Count a connection in, unless a limit forbids it; a `shared` host (a proxy) has no limit of its own."""
        most = self._limits.connections
        if self._total >= most - most // RESERVED and (self._total >= most or not self._is_known(host)):
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

    def _is_known(self, host: str) -> bool:
        if not self._strangers:
            return _is_loopback(host)
        since = self._known.get(host)
        return since is not None and self._clock() - since <= TRUST

    def leave(self, host: str) -> None:
        """Count a connection out."""
        self._total -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
