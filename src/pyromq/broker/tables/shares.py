"""`Shares`: something the broker has only so much of, and no party may use up what all need."""

from collections import Counter

from pyromq.broker.errors import Refused
from pyromq.protocol.codes import ResponseCode


def left(counts: Counter[str], party: str) -> None:
    """Count one of a party out, and the party with its last one."""
    counts[party] -= 1
    if counts[party] <= 0:
        del counts[party]


class Shares:
    """At most `capacity` in use, of which one party has at most `each`. A party is a user, or else an address."""

    def __init__(self, what: str, capacity: int, each: int) -> None:
        self._what = what
        self._used: Counter[str] = Counter()
        self.capacity = capacity
        self.each = each
        self.total = 0
        self.refused = 0
        """How often a bound was met."""

    def used_by(self, party: str) -> int:
        """What a party uses."""
        return self._used.get(party, 0)

    def __len__(self) -> int:
        """Parties that use something."""
        return len(self._used)

    def check(self, party: str, amount: int = 1) -> None:
        """Raise Refused unless the party may take so much more."""
        own = self.used_by(party)
        if own + amount > self.each:
            bound = f"{own} of {self._what} are taken by {party}, and {amount} more would pass its share of {self.each}"
        elif self.total + amount > self.capacity:
            bound = f"{self.total} of {self._what} are taken, and {amount} more would pass {self.capacity}"
        else:
            return
        self.refused += 1
        raise Refused(ResponseCode.SYSTEM_BUSY, f"{bound}: try again when some have been given back")

    def take(self, party: str, amount: int = 1) -> None:
        """Count in, without a check."""
        if amount:
            self.total += amount
            self._used[party] += amount

    def clear(self) -> None:
        """Nothing is in use any more."""
        self._used.clear()
        self.total = 0

    def give_back(self, party: str, amount: int = 1) -> None:
        """Count out."""
        self.take(party, -amount)
        if party in self._used and self._used[party] <= 0:
            del self._used[party]
