"""Places where users' code joins in around consumption. Hooks run on the event loop and must not block.

What a hook raises is logged and ignored.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pyromq.client.config import AccessChannel
from pyromq.client.consumer.damage import DamageHook
from pyromq.protocol.message import MessageQueue, ReceivedMessage


class ReturnType(StrEnum):
    """How a listener call ended, as hooks and traces tell it."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


@dataclass(slots=True, kw_only=True)
class ConsumeHookContext:
    """What a consume hook sees. `success`, `status` and `return_type` are set when its `after` runs."""

    group: str
    messages: list[ReceivedMessage]
    queue: MessageQueue
    namespace: str | None
    access_channel: AccessChannel
    success: bool = False
    status: str = ""
    return_type: ReturnType | None = None
    state: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class ConsumeHook(Protocol):
    """Runs around every call of the listener."""

    name: str

    def before(self, context: ConsumeHookContext) -> None: ...

    def after(self, context: ConsumeHookContext) -> None: ...


@dataclass(slots=True, kw_only=True)
class FilterContext:
    """What a filter hook sees; it may take messages out of the list. They then count as consumed."""

    group: str
    messages: list[ReceivedMessage]
    queue: MessageQueue
    unit_mode: bool
    arg: Any = None


@runtime_checkable
class FilterHook(Protocol):
    """Runs over every batch that was pulled."""

    name: str

    def filter(self, context: FilterContext) -> None: ...


QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]
"""Called with a topic, all its queues, and those that this consumer has now."""


@dataclass(slots=True)
class ConsumerHooks:
    """All hooks of one consumer."""

    consume: list[ConsumeHook] = field(default_factory=list)
    filter: list[FilterHook] = field(default_factory=list)
    damage: list[DamageHook] = field(default_factory=list)
    queues: list[QueueListener] = field(default_factory=list)
