"""Where messages go that have waited: into this store or, on a slave that works for its master, to another master."""

from collections.abc import Callable

from pyromq.broker.core import Core
from pyromq.broker.replication.succession.escape import Escape
from pyromq.store.log.put import PutMessage, PutResult

Put = Callable[[PutMessage], PutResult]


class Onward:
    """`escape` is there on a slave that may act for its master."""

    def __init__(self, core: Core, escape: Escape | None) -> None:
        self._role = core.role
        self._put = core.store.put
        self._escape = escape
        self._kept: dict[str, Put] = {}

    def keep(self, topic: str, put: Put) -> None:
        """Messages of this topic stay here, also on a slave: with whoever takes them in."""
        self._kept[topic] = put

    @property
    def way_out(self) -> Escape | None:
        """To another master, while it is needed."""
        return self._escape if self._role.working else None

    def put(self, message: PutMessage) -> PutResult:
        """Store a message, here or elsewhere."""
        escape = self.way_out
        return self._put(message) if escape is None else self._kept.get(message.topic, escape.put)(message)

    def when_woken(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when what was refused may be taken now."""
        if self._escape is not None:
            self._escape.woken.append(wake)
