"""What the check before the handlers must know about this broker, and who may follow its log.

The replication protocol has no room for a signature. With authentication on, a slave of ours shows a ticket that it got
for a signed request (see `replication.tickets`). Others are let in by their address: if it is trusted, or if a super
user's signed exchange of replication addresses, which nobody but a broker sends, came from there not long ago.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pyromq.auth.addresses import AddressRange
from pyromq.broker.delay.detour import read_record
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.properties import Property, decode_properties
from pyromq.remoting.connection import Connection
from pyromq.store.messagestore import MessageStore

if TYPE_CHECKING:
    from pyromq.auth.guard import Guard

TRUST_MS: Final = 600_000
MAX_HOSTS: Final = 1_000
_WAITING: Final = frozenset({names.TRANS_HALF_TOPIC, names.SCHEDULE_TOPIC, names.TIMER_TOPIC})


def topic_at(store: MessageStore, offset: int) -> str | None:
    """The topic that the message at a place in the log belongs to; None when there is none.

    One that waits in a topic of the broker itself belongs to where it will go.
    """
    found = read_record(store, offset, None) if offset >= 0 else None
    if found is None:
        return None
    summary, _ = found
    if summary.topic in _WAITING:
        return decode_properties(summary.properties).get(Property.REAL_TOPIC) or summary.topic
    return summary.topic


class KnownSlaves:
    """Addresses from which slaves may come without a ticket. `clock` gives Unix milliseconds.

    Raises AuthError for a trusted address that is none.
    """

    def __init__(self, guard: "Guard", clock: Callable[[], int], trusted: Iterable[str] = ()) -> None:
        self._clock = clock
        self._trusted = tuple(map(AddressRange, trusted))
        self._seen: dict[str, int] = {}
        guard.on_super = self._note

    def may_follow(self, host: str) -> bool:
        """Whether a connection to the replication port from there is welcome."""
        if any(host in each for each in self._trusted):
            return True
        return self._clock() - self._seen.get(host, -TRUST_MS) < TRUST_MS

    def _note(self, request: Command, connection: Connection) -> None:
        if request.code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            if len(self._seen) >= MAX_HOSTS:
                self._seen.clear()
            self._seen[connection.peer.host] = self._clock()
