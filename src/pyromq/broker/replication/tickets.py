"""What a slave gets that has proved its log, and shows at the replication port, where there is no room for a proof.

A ticket is a negative number, which no report is, good once, for a short time, and for the place it was given for. Who
restarted knows none of those it gave before, so a verdict of one master does not count with the next.
"""

import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

LIFETIME_MS: Final = 30_000
MAX_TICKETS: Final = 256


class _Ticket(NamedTuple):
    offset: int
    host: str
    until: int


class Tickets:
    """`clock` gives milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._given: dict[int, _Ticket] = {}

    def give(self, offset: int, host: str) -> int:
        """A new ticket for a slave at `host` that begins at `offset`."""
        self._drop_old()
        if len(self._given) >= MAX_TICKETS:
            del self._given[next(iter(self._given))]
        number = -1 - secrets.randbits(63)
        self._given[number] = _Ticket(offset, host, self._clock() + LIFETIME_MS)
        return number

    def take(self, number: int) -> int | None:
        """Where the slave that shows a ticket begins; None when it was never given, is used or too old."""
        self._drop_old()
        ticket = self._given.pop(number, None)
        return None if ticket is None else ticket.offset

    def expects(self, host: str) -> bool:
        """Whether somebody at an address has one to show."""
        self._drop_old()
        return any(ticket.host == host for ticket in self._given.values())

    def _drop_old(self) -> None:
        now = self._clock()
        for number in [number for number, ticket in self._given.items() if ticket.until <= now]:
            del self._given[number]
