"""Places where users' code joins in around consumption. Hooks run on the event loop and must not block.

What a hook raises is logged and ignored.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pyromq.client.config import AccessChannel
from pyromq.client.consumer.push.listener import ConsumeOutcome, Verdict
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


def return_type(verdict: Verdict, timeout: float) -> ReturnType:
    """As RocketMQ names it: raising beats the time-out, the time-out beats the outcome."""
    if verdict.error is not None:
        return ReturnType.EXCEPTION
    if verdict.seconds >= timeout:
        return ReturnType.TIME_OUT
    return ReturnType.FAILED if verdict.outcome is ConsumeOutcome.LATER else ReturnType.SUCCESS


def status_name(outcome: ConsumeOutcome, *, orderly: bool) -> str:
    """The name that hooks of other clients know."""
    if orderly:
        return "SUSPEND_CURRENT_QUEUE_A_MOMENT" if outcome is ConsumeOutcome.LATER else outcome.value
    return "RECONSUME_LATER" if outcome is ConsumeOutcome.LATER else "CONSUME_SUCCESS"
