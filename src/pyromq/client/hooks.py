"""Places where users' code joins in: around sends, before a send is allowed, around end-transaction.

Around every request on the wire there is `pyromq.remoting.RequestHook`.

Hooks run on the event loop and must not block. An exception in a send or end-transaction hook is logged and ignored; a
forbidden-check hook aborts the send by raising.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from pyromq.client.producer.results import LocalTransactionState, SendResult
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)


class SendMode(StrEnum):
    """How the caller waits."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


class MessageType(IntEnum):
    """Kinds of messages that hooks and traces tell apart; the numbers are those that traces carry."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4

    @classmethod
    def of(cls, message: Message) -> "MessageType":
        """A delay property beats the half-message mark, as in RocketMQ."""
        properties = message.properties
        if Property.DELAY in properties or "__STARTDELIVERTIME" in properties:
            return cls.DELAY
        if properties.get(Property.TRANSACTION_PREPARED) == "true":
            return cls.TRANSACTION_HALF
        return cls.NORMAL


@dataclass(slots=True, kw_only=True)
class SendContext:
    """What a send hook sees. `result` and `error` are set when its `after` runs; `state` is the hook's own."""

    group: str
    message: Message | list[Message]
    queue: MessageQueue
    broker_address: str
    mode: SendMode
    message_type: MessageType
    namespace: str | None
    born_host: str
    body_size: int
    result: SendResult | None = None
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class SendHook(Protocol):
    """Runs around every attempt to send."""

    name: str

    def before(self, context: SendContext) -> None: ...

    def after(self, context: SendContext) -> None: ...


@dataclass(slots=True, kw_only=True)
class ForbiddenCheck:
    """What a forbidden-check hook decides about."""

    namesrv: str
    group: str
    mode: SendMode
    broker_address: str
    message: Message | list[Message]
    queue: MessageQueue
    unit_mode: bool


@runtime_checkable
class ForbiddenHook(Protocol):
    """Raises to forbid a send."""

    name: str

    def check(self, context: ForbiddenCheck) -> None: ...


@dataclass(slots=True, kw_only=True)
class EndTransactionContext:
    """What an end-transaction hook sees."""

    group: str
    message: Message
    broker_address: str
    message_id: str
    transaction_id: str | None
    state: LocalTransactionState
    from_check: bool


@runtime_checkable
class EndTransactionHook(Protocol):
    """Runs before the outcome of a transaction is told to the broker."""

    name: str

    def end_transaction(self, context: EndTransactionContext) -> None: ...


H = TypeVar("H")


def run_hooks(hooks: Iterable[H], call: Callable[[H], None], what: str) -> None:
    """Run each hook; one that raises is logged and does not disturb the others or the send."""
    for hook in hooks:
        try:
            call(hook)
        except Exception:
            log.exception("%s hook %r failed", what, getattr(hook, "name", hook))
