"""Where messages go that have waited: into this store or, on a slave that does its master's work, to another one."""

import logging
from collections.abc import Callable
from typing import Protocol

from pyromq.broker.core import Core
from pyromq.broker.replication.succession.escape import Escape
from pyromq.store.errors import StoreError
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

log = logging.getLogger(__name__)

HOPELESS = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
        PutStatus.WHEEL_TIMER_NOT_ENABLE,
    }
)
"""Refusals that the same message would meet again."""


class Keeper(Protocol):
    """Takes in messages of a topic that a slave cannot store; those from `held_since` on are in memory only."""

    def take(self, message: PutMessage) -> PutResult: ...
    def held_since(self) -> int | None: ...


class Onward:
    """`escape` is there on a slave that may act for its master."""

    def __init__(self, core: Core, escape: Escape | None = None) -> None:
        self._role = core.role
        self._store = core.store
        self._stats = core.stats
        self._escape = escape
        self._keepers: dict[str, Keeper] = {}

    def keep(self, topic: str, keeper: Keeper) -> None:
        """Messages of this topic stay here, also on a slave: with whoever takes them in."""
        self._keepers[topic] = keeper

    def when_woken(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when what was refused may be taken now."""
        if self._escape is not None:
            self._escape.woken.append(wake)

    @property
    def way_out(self) -> Escape | None:
        """To another master, while it is needed."""
        return self._escape if self._role.working else None

    def put(self, message: PutMessage) -> PutResult:
        """Store a message, here or elsewhere."""
        escape = self.way_out
        if escape is None:
            return self._store.put(message)
        keeper = self._keepers.get(message.topic)
        return escape.put(message) if keeper is None else keeper.take(message)

    def deliver(self, message: PutMessage, name: str, *args: object) -> bool:
        """Put a message, and count it. False when that has to be tried again; what is hopeless is dropped by `name`."""
        topic = message.topic
        result = self.put(message)
        if result.stored:
            self._stats.stored(topic, result)
        elif result.status in HOPELESS:
            log.error(f"{name} is dropped: %s", *args, result.reason)  # noqa: G004 - a name with its own arguments
        else:
            return False
        return True

    def flush(self) -> bool:
        """Get to the disk what was put, before anybody saves that it was; False when that fails."""
        try:
            self._store.flush()
        except StoreError as error:
            log.warning("what was delivered since the last save will be delivered again: %s", error)
            return False
        return True

    def held_since(self) -> int | None:
        """The time of the oldest message that was handed over and is not safe yet."""
        if self.way_out is None:
            return None
        times = [time for keeper in self._keepers.values() if (time := keeper.held_since()) is not None]
        return min(times, default=None)
