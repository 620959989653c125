"""Which queues a pull consumer reads: its share of subscribed topics, or those that it was told."""

from dataclasses import dataclass, field
from enum import Enum

from pyromq.client.errors import ServiceStateError
from pyromq.protocol.message import MessageQueue


class Mode(Enum):
    NONE = "neither subscribe nor assign was called"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"


@dataclass(slots=True)
class Selection:
    """`group` is for errors; `assigned` are names on the wire."""

    group: str
    mode: Mode = Mode.NONE
    assigned: set[MessageQueue] = field(default_factory=set)

    def choose(self, mode: Mode) -> None:
        """Raises ServiceStateError when the other mode is in use."""
        if self.mode not in (Mode.NONE, mode):
            raise ServiceStateError(
                f"consumer {self.group!r} uses {self.mode.value}; {mode.value} cannot be mixed with it"
            )
        self.mode = mode
