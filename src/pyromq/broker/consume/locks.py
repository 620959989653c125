"""Queue locks: which client of a group may consume a queue in order right now.

Only in memory: a restart forgets them and clients lock again within 20 s. A lock that its owner does not renew is free
for others after `max_age`, and sooner when the connection ended on which it was asked for: a client that said that it
relies on no lock without a connection has a grace to come back, any other the time for which it may rely on it.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Figure, Part, gauge, limit
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import MessageQueue

LOCK_MAX_AGE_MS = 60_000
CLIENT_LOCK_LIFE_MS = 35_000
"""Clients of all languages rely on a lock for 30 s after they were granted it, and hear of that a moment later."""
GRACE_MS = 3_000
MAX_LOCKS = 1_000_000
LOOK_INTERVAL_MS = 1_000
SCAN_INTERVAL = 10.0


@dataclass(slots=True)
class _Lock:
    owner: str
    since: int
    until: int
    connection: Hashable | None
    tied: bool


class QueueLocks(Part):
    """Group → queue → lock. `grace` says how long one lasts whose owner went away and does not rely on it."""

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        max_age: int = LOCK_MAX_AGE_MS,
        capacity: int = MAX_LOCKS,
        grace: Callable[[], int] = lambda: GRACE_MS,
    ) -> None:
        self._clock = clock
        self._max_age = max_age
        self._capacity = capacity
        self._grace = grace
        self.refused = 0
        """How often the bound was met."""
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._of_connection: dict[Hashable, set[tuple[str, MessageQueue]]] = {}
        self._count = 0
        self._looked_at = -LOOK_INTERVAL_MS

    def __len__(self) -> int:
        return self._count

    def every(self) -> Iterable[Every]:
        """Make room."""
        return [Every(SCAN_INTERVAL, self.drop_expired)]

    def metrics(self) -> Iterable[Figure]:
        """How many there are."""
        yield gauge("pyromq_queue_locks", "Queues locked by ordered consumers.", len(self))
        yield limit("queue_locks", self.refused)

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        connection: Hashable | None = None,
        *,
        tied: bool = False,
    ) -> set[MessageQueue]:
        """Lock or renew each queue that is free, expired or already the client's; return those it holds now.

        `tied` when the client relies on no lock after it lost the connection. Raises Refused when there would be too
        many locks.
        """
        now = self._clock()
        queues = set(queues)
        self._check_room(len(queues - self._groups.get(group, {}).keys()))
        granted = set()
        for queue in queues:
            held = self._groups.get(group, {}).get(queue)
            if held is not None:
                if held.owner != client_id and now <= held.until:
                    continue
                self._drop(group, queue, held)
            self._groups.setdefault(group, {})[queue] = _Lock(client_id, now, now + self._max_age, connection, tied)
            self._count += 1
            if connection is not None:
                self._of_connection.setdefault(connection, set()).add((group, queue))
            granted.add(queue)
        return granted

    def connection_closed(self, connection: Hashable) -> None:
        """The locks that were asked for on it end soon, unless their owner asks for them on another."""
        now = self._clock()
        for group, queue in self._of_connection.pop(connection, ()):
            held = self._groups[group][queue]
            held.connection = None
            end = now + self._grace()
            held.until = min(held.until, end if held.tied else max(end, held.since + CLIENT_LOCK_LIFE_MS))

    def _drop(self, group: str, queue: MessageQueue, held: _Lock) -> None:
        queues = self._groups[group]
        del queues[queue]
        if not queues:
            del self._groups[group]
        self._count -= 1
        if held.connection is not None:
            places = self._of_connection[held.connection]
            places.discard((group, queue))
            if not places:
                del self._of_connection[held.connection]

    def _check_room(self, more: int) -> None:
        if more and len(self) + more > self._capacity and self._clock() - self._looked_at >= LOOK_INTERVAL_MS:
            self.drop_expired()
        if more and (held := len(self)) + more > self._capacity:
            self.refused += 1
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{held} queue locks are held and {more} more would pass {self._capacity}; "
                f"locks that are not renewed end after {self._max_age // 1000} s, try again then",
            )

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release those of the queues that the client owns."""
        for queue in queues:
            held = self._groups.get(group, {}).get(queue)
            if held is not None and held.owner == client_id:
                self._drop(group, queue, held)

    def group_holds_locks(self, group: str) -> bool:
        """Whether any lock of the group is unexpired, which tells that the group consumes in order."""
        now = self._clock()
        return any(now <= held.until for held in self._groups.get(group, {}).values())

    def drop_expired(self) -> None:
        """Forget what nobody renewed, so that groups that went away cost nothing."""
        now = self._looked_at = self._clock()
        for group, queues in list(self._groups.items()):
            for queue, held in list(queues.items()):
                if now > held.until:
                    self._drop(group, queue, held)
