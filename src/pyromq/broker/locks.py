"""Queue locks: which client of a group may consume a queue in order right now.

Only in memory: a restart forgets them and clients lock again within 20 s. A lock that its owner does not renew is
free for others after `max_age`.
"""

from collections.abc import Callable, Iterable

from pyromq.broker.errors import Refused
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import MessageQueue

LOCK_MAX_AGE_MS = 60_000
MAX_LOCKS = 1_000_000
LOOK_INTERVAL_MS = 1_000


class QueueLocks:
    """Group → queue → (owner, time of the last lock call)."""

    def __init__(self, clock: Callable[[], int], *, max_age: int = LOCK_MAX_AGE_MS, capacity: int = MAX_LOCKS) -> None:
        self._clock = clock
        self._max_age = max_age
        self._capacity = capacity
        self.refused = 0
        """How often the bound was met."""
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}
        self._count = 0
        self._looked_at = -LOOK_INTERVAL_MS

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock or renew each queue that is free, expired or already the client's; return those it holds now.

        Raises Refused when there would be too many locks.
        """
        now = self._clock()
        queues = set(queues)
        self._check_room(len(queues - self._groups.get(group, {}).keys()))
        held = self._groups.setdefault(group, {})
        granted = set()
        for queue in queues:
            owner, since = held.get(queue, (client_id, now))
            if owner == client_id or now - since > self._max_age:
                self._count += queue not in held
                held[queue] = (client_id, now)
                granted.add(queue)
        if not held:
            del self._groups[group]
        return granted

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
        held = self._groups.get(group)
        if held is None:
            return
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            del self._groups[group]

    def group_holds_locks(self, group: str) -> bool:
        """Whether any lock of the group is unexpired, which tells that the group consumes in order."""
        now = self._clock()
        return any(now - since <= self._max_age for _, since in self._groups.get(group, {}).values())

    def drop_expired(self) -> None:
        """Forget what nobody renewed, so that groups that went away cost nothing."""
        now = self._looked_at = self._clock()
        for group, held in list(self._groups.items()):
            for queue, (_, since) in list(held.items()):
                if now - since > self._max_age:
                    del held[queue]
                    self._count -= 1
            if not held:
                del self._groups[group]
