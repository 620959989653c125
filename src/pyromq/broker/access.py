"""What the check before the handlers must know about this broker, and who may follow its log.

The replication protocol has no room for a signature. With authentication on, a slave is let in if a super user's signed
request for the tables that slaves copy came from its address not long ago; slaves send those all the time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyromq.broker.parked import read_parked
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.properties import Property, decode_properties
from pyromq.remoting import Connection
from pyromq.store import MessageStore

if TYPE_CHECKING:
    from pyromq.auth.guard import Guard

TRUST_MS: Final = 600_000
MAX_HOSTS: Final = 1_000
_COPYING: Final = frozenset(
    {
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.EXCHANGE_BROKER_HA_INFO,
    }
)
_WAITING: Final = frozenset({names.TRANS_HALF_TOPIC, names.SCHEDULE_TOPIC, names.TIMER_TOPIC})


def topic_at(store: MessageStore, offset: int) -> str | None:
    """The topic that the message at a place in the log belongs to; None when there is none.

    One that waits in a topic of the broker itself belongs to where it will go.
    """
    found = read_parked(store, offset, None) if offset >= 0 else None
    if found is None:
        return None
    summary, _ = found
    if summary.topic in _WAITING:
        return decode_properties(summary.properties).get(Property.REAL_TOPIC) or summary.topic
    return summary.topic


class KnownSlaves:
    """Addresses from which slaves may come. `clock` gives Unix milliseconds."""

    def __init__(self, guard: "Guard", clock: Callable[[], int]) -> None:
        self._clock = clock
        self._seen: dict[str, int] = {}
        guard.on_super = self._note

    def may_follow(self, host: str) -> bool:
        """Whether a connection to the replication port from there is welcome."""
        return self._clock() - self._seen.get(host, -TRUST_MS) < TRUST_MS

    def _note(self, request: Command, connection: Connection) -> None:
        if request.code in _COPYING:
            if len(self._seen) >= MAX_HOSTS:
                self._seen.clear()
            self._seen[connection.peer.host] = self._clock()
