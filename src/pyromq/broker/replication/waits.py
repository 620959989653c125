"""Messages that are acknowledged only once enough slaves have them. No I/O; times are passed in.

Waits are answered in the order of the log. One that starts with too few slaves near enough ends at once.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.follower import Follower
from pyromq.protocol.properties import Property
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

Done = Callable[[PutStatus], None]

DEFAULT_REPLICAS = 2
"""Of a SYNC_MASTER that was not told: itself and one more."""

_SYNC_MASTER = BrokerRole.SYNC_MASTER


class _Wait(NamedTuple):
    end: int
    copies: int
    deadline: int
    done: Done


class ReplicaWaits:
    """`followers` gives the slaves that are connected now."""

    def __init__(
        self, config: BrokerConfig, clock: Callable[[], int], followers: Callable[[], Collection[Follower]]
    ) -> None:
        self._config = config
        self._clock = clock
        self._followers = followers
        self._waiting: deque[_Wait] = deque()
        self.outcomes: Counter[PutStatus] = Counter()
        """How waits ended."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def wanted(self) -> bool:
        """Whether messages have to wait at all."""
        config = self._config
        if config.broker_role is not _SYNC_MASTER:
            return False
        return config.all_ack_in_sync_state_set or (config.in_sync_replicas or DEFAULT_REPLICAS) > 1

    def copies(self, in_sync: int) -> int:
        """How many slaves must have a message while `in_sync` of them are near enough."""
        config = self._config
        replicas = config.in_sync_replicas or DEFAULT_REPLICAS
        if config.enable_auto_in_sync_replicas:
            replicas = max(min(replicas, in_sync + 1), config.min_in_sync_replicas)
        if config.all_ack_in_sync_state_set:
            replicas = max(replicas, in_sync + 1)
        return replicas - 1

    @property
    def too_few(self) -> bool:
        """Whether a message could not have enough copies now, whatever is waited for."""
        if not self.wanted:
            return False
        gap = self._config.ha_max_gap_not_in_sync
        near = sum(follower.in_sync(gap) for follower in self._followers())
        return near < self.copies(near)

    def refusal(self, message: PutMessage) -> PutResult | None:
        """A hook of the store, where a slave may act for this master: what no slave has would be missed there."""
        if (message.property_map or {}).get(Property.WAIT, "true") == "false" or not self.too_few:
            return None
        return PutResult(
            PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH,
            reason="fewer slaves than inSyncReplicas needs are connected and near enough: the message is not stored, "
            "try another broker",
        )

    def wait(self, end: int, done: Done) -> None:
        """Tell `done` once enough slaves have everything below `end`: PUT_OK, or why not."""
        config = self._config
        near = [follower for follower in self._followers() if follower.in_sync(config.ha_max_gap_not_in_sync)]
        copies = self.copies(len(near))
        if sum(follower.ack >= end for follower in near) >= copies:
            self._end(done, PutStatus.PUT_OK)
        elif len(near) < copies:
            self._end(done, PutStatus.SLAVE_NOT_AVAILABLE)
        elif len(self._waiting) >= config.max_flush_waiters:
            self._end(done, PutStatus.FLUSH_SLAVE_TIMEOUT)
        else:
            self._waiting.append(_Wait(end, copies, self._clock() + config.slave_timeout, done))

    def advance(self) -> None:
        """Slaves reported: answer what is copied often enough."""
        waiting = self._waiting
        if not waiting:
            return
        acks = sorted((follower.ack for follower in self._followers()), reverse=True)
        while waiting and waiting[0].copies <= len(acks) and acks[waiting[0].copies - 1] >= waiting[0].end:
            self._end(waiting.popleft().done, PutStatus.PUT_OK)

    def expire(self, now: int) -> None:
        """Give up the waits whose time is over."""
        waiting = self._waiting
        while waiting and waiting[0].deadline <= now:
            self._end(waiting.popleft().done, PutStatus.FLUSH_SLAVE_TIMEOUT)

    def end_all(self) -> None:
        """The broker stops: nobody will report any more."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._end(each.done, PutStatus.FLUSH_SLAVE_TIMEOUT)

    def _end(self, done: Done, status: PutStatus) -> None:
        self.outcomes[status] += 1
        done(status)
