"""The seam between the transport and those who serve calls: what a method is, and what it gets.

A service is a table from path (`/package.Service/Method`) to `Unary`, `ServerStream` or `Conversation`. Messages
are bytes here: who serves a call parses them.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol

from pyromq.errors import PyroMQError
from pyromq.remoting.address import Address


class GrpcStatus(IntEnum):
    """How a call ended, as its trailers say."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(PyroMQError):
    """Raised by who serves a call to end it with a status other than OK."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Call(Protocol):
    """One call that is under way. Use it on the event loop only."""

    @property
    def path(self) -> str:
        """`/package.Service/Method`."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The header fields of the request that are not HTTP's own, names in lower case."""

    @property
    def peer(self) -> Address:
        """Who asks."""

    @property
    def local(self) -> Address:
        """Where they asked."""

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def is_open(self) -> bool:
        """Whether the caller still waits: nothing was finished, cancelled or cut off."""

    def remaining(self) -> float | None:
        """Seconds until the caller's deadline, never negative; None without one."""

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when the call has ended, however it did; at once when it already has."""

    def send(self, message: bytes) -> None:
        """Write one message of a stream. Does nothing when the call has ended."""

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """End a stream with a status. Does nothing when the call has ended."""

    async def drained(self) -> None:
        """Wait until the caller has taken enough of what was sent, or the call has ended."""


class Unary(NamedTuple):
    """One message in, one out: at once, or awaited. Raise GrpcError, or have the awaitable raise it, for a status.

    An awaitable is cancelled when the caller goes away or its deadline passes.
    """

    serve: Callable[[bytes, Call], bytes | Awaitable[bytes]]


class ServerStream(NamedTuple):
    """One message in, any number out by `call.send`; the stream ends with OK when the coroutine returns.

    The coroutine is cancelled when the caller goes away or its deadline passes.
    """

    serve: Callable[[bytes, Call], Awaitable[None]]


class Talk(Protocol):
    """This end of a stream in both directions; answers go out by `call.send`, at any time."""

    def received(self, message: bytes) -> None:
        """A message came. What is raised ends the call."""

    def closed(self) -> None:
        """The caller sends nothing more; whoever is here decides when to `finish`."""


class Conversation(NamedTuple):
    """Messages both ways, in any order. `begin` makes this end of one; raise GrpcError to refuse it."""

    begin: Callable[[Call], Talk]


Method = Unary | ServerStream | Conversation
Service = Mapping[str, Method]
