"""Listeners: the user's functions that consume messages, what they may return, and the context they get."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from pyromq.client.errors import ClientError
from pyromq.client.trace import context as tracecontext
from pyromq.protocol.message import MessageQueue, ReceivedMessage

ListenerFunction = Callable[..., Any]
"""`f(message)`, or `f(messages)` for a batch listener; a second parameter, if it has one, gets the context.

Returning None or True means consumed; False, or raising, means later. A `ConsumeOutcome` says it in words.
"""

F = TypeVar("F", bound=ListenerFunction)


class ConsumeOutcome(Enum):
    """What became of the messages."""

    SUCCESS = "SUCCESS"
    LATER = "LATER"
    """Concurrent: delivered again after a delay that grows. Ordered: the queue pauses, then the same messages again."""
    COMMIT = "COMMIT"
    """Ordered, with `context.auto_commit` off: everything up to here is consumed."""
    ROLLBACK = "ROLLBACK"
    """Ordered, with `context.auto_commit` off: everything since the last commit again."""


@dataclass(slots=True, kw_only=True)
class ConcurrentContext:
    """What a concurrent listener may look at and decide."""

    queue: MessageQueue
    delay_level: int = 0
    """For failed messages: 0 lets the broker choose, -1 sends them to the dead letters, 1 to 18 is that delay."""
    acknowledged: int | None = None
    """For batches that return success: how many of the messages, from the first on, it is true for; None means all."""


@dataclass(slots=True, kw_only=True)
class OrderlyContext:
    """What an ordered listener may look at and decide."""

    queue: MessageQueue
    auto_commit: bool = True
    suspend_time: float | None = None
    """How long the queue pauses after LATER; None means the consumer's setting."""


ConsumeContext = ConcurrentContext | OrderlyContext


class Verdict(NamedTuple):
    """How one call of a listener ended."""

    outcome: ConsumeOutcome
    error: BaseException | None = None
    seconds: float = 0.0


class Call(Protocol):
    """What a listener is called with. The context may be made when it is first looked at."""

    @property
    def messages(self) -> Sequence[ReceivedMessage]: ...

    @property
    def context(self) -> ConsumeContext: ...


@dataclass(frozen=True, slots=True)
class Listener:
    """A user's function and how to call it."""

    function: ListenerFunction
    orderly: bool
    batch: bool
    takes_context: bool
    is_async: bool

    @classmethod
    def of(cls, function: ListenerFunction, *, orderly: bool, batch: bool) -> "Listener":
        """Raises ClientError for what cannot be called with one or two arguments."""
        if not callable(function):
            raise ClientError(f"a listener must be callable, not {type(function).__name__}")
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected, not whether it exists
        )
        return cls(function, orderly, batch, _takes_two(function), is_async)

    def call(self, work: Call) -> Any:
        """Call a plain function, or make the coroutine of the other kind."""
        messages = work.messages
        if tracecontext.is_used():
            return self._call_traced(messages, work.context)
        what = list(messages) if self.batch else messages[0]
        return self.function(what, work.context) if self.takes_context else self.function(what)

    def _call_traced(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Any:
        what = list(messages) if self.batch else messages[0]
        arguments = (what, context) if self.takes_context else (what,)

        async def traced() -> Any:
            with tracecontext.continued(messages):
                return await self.function(*arguments)

        if self.is_async:
            return traced()
        with tracecontext.continued(messages):
            return self.function(*arguments)


class Listens(ABC):
    """Both faces of a push consumer."""

    @abstractmethod
    def _take_listener(self, listener: Listener) -> None:
        """Raises ClientError when it is too late for one."""

    @overload
    def listen(self, function: F, *, orderly: bool = ..., batch: bool = ...) -> F: ...

    @overload
    def listen(self, *, orderly: bool = ..., batch: bool = ...) -> Callable[[F], F]: ...

    def listen(self, function: F | None = None, *, orderly: bool = False, batch: bool = False) -> F | Callable[[F], F]:
        """Set the listener; also a decorator, with or without arguments.

        It gets a message, or with `batch` a list of up to `consume_batch_size`, and if it takes a second parameter the
        context. `orderly` keeps the order of each queue: one call at a time, and a failed message holds up those
        behind it. Returning None or True means consumed; False, or raising, means later.
        """

        def register(function: F) -> F:
            self._take_listener(Listener.of(function, orderly=orderly, batch=batch))
            return function

        return register if function is None else register(function)


def _takes_two(function: ListenerFunction) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 2 and _required_or_context(signature)
    raise ClientError(f"listener {function!r} must take a message, or a message and its context")


def _required_or_context(signature: inspect.Signature) -> bool:
    """A second parameter with a default is the user's own, unless it is called `context`."""
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(parameters) >= 2 and (parameters[1].default is parameters[1].empty or parameters[1].name == "context")


def read_outcome(returned: Any) -> ConsumeOutcome:
    """Raises ClientError for something that is no outcome."""
    if returned is None or returned is True:
        return ConsumeOutcome.SUCCESS
    if returned is False:
        return ConsumeOutcome.LATER
    if isinstance(returned, ConsumeOutcome):
        return returned
    if inspect.iscoroutine(returned):
        returned.close()
        raise ClientError("the listener returned a coroutine; define it with async def, so that it is awaited")
    raise ClientError(f"the listener returned {returned!r}; expected None, True, False or a ConsumeOutcome")
