"""How many topics and groups one party may have created by using them, so that it cannot take the room of all others.

A party is a user, or an address where users are not known. What an administrator creates is not counted.
"""

from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.signature import ACCESS_KEY
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.connection import Connection

HOUR = 3_600.0


class NewNames:
    """At most `most` for each party at once, and as many again in an hour."""

    def __init__(self, what: str, setting: str, most: int, clock: Callable[[], int]) -> None:
        self._what = what
        self._setting = setting
        self._most = most
        self._parties = TokenBuckets(most / HOUR, most, clock=lambda: clock() / 1000)

    @property
    def refused(self) -> int:
        """How often the bound was met."""
        return self._parties.refused

    def take(self, party: str) -> None:
        """Count one more of a party; nobody's are the broker's own. Raises Refused."""
        if party and not self._parties.take(party):
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{party} had {self._most} {self._what} created by using them within an hour, the bound "
                f"{self._setting}: try again later, have an administrator create them, or raise it",
            )


def party_of(config: BrokerConfig, request: Command, connection: Connection) -> str:
    """Who answers for what a request creates. Without authentication a name in the request proves nothing."""
    user = request.ext.get(ACCESS_KEY, "") if config.is_authenticated else ""
    return user or connection.peer.host
