"""Asynchronous sends that left at once: their first attempt needs no task, and most have no other.

The outcome goes straight to the future that the caller has, one of asyncio or one for threads. Only a first attempt
that fails becomes a task, which does what is left to do: judge the error and try again. Those that a task brings on
their way from the beginning stand in a line, so that none that comes later leaves before them.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pyromq.client.errors import BrokerError, ServiceStateError
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.producer.departure import Departure
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.protocol.errors import ProtocolError
from pyromq.remoting.errors import RemotingError

Fault = RemotingError | BrokerError | ProtocolError

Told = Callable[[SendResult | None, Exception | None], None]
_OK = SendStatus.SEND_OK
CLOSED = "the client was closed before the call was finished"


class Taker(Protocol):
    """Who is told the outcome: a future of asyncio, or what a thread waits for."""

    def done(self) -> bool:
        """Whether it has an outcome, or wants none any more."""

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


class Promises:
    """Those of one producer that are under way."""

    def __init__(self) -> None:
        self._under_way: set[Promise] = set()
        self._quiet: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    def add(self, promise: "Promise") -> None:
        self._under_way.add(promise)

    def discard(self, promise: "Promise") -> None:
        self._under_way.discard(promise)
        if self._quiet is not None and not self._under_way:
            self._quiet.set()

    async def quiet(self) -> None:
        """Wait until there is none."""
        while self._under_way:
            self._quiet = asyncio.Event()
            await self._quiet.wait()

    def break_all(self) -> None:
        """Wait for none of them any more: who does is told that the client was closed."""
        for promise in list(self._under_way):
            promise.broken()


class Origin(Protocol):
    """Where promises come from, and return to when they fail."""

    def book(self, promise: "Promise", /) -> None: ...

    async def resume(self, promise: "Promise", error: Fault, /) -> SendResult: ...

    async def next_rounds(self, promise: "Promise", outcome: SendResult | Fault, /) -> SendResult: ...


class Promise(Departure):
    """One of them. `Sends` sets what is public when it has left, `keep` the rest."""

    __slots__ = ("_promises", "_taker", "_task", "_told", "began", "info", "origin")

    origin: Origin
    info: PublishInfo | None
    """The queues that it may move to."""
    began: float

    def keep(self, promises: Promises | None, taker: Taker, told: Told | None) -> None:
        """Whom to tell: a future that can still be told, and a function. `promises` counts it until then."""
        self._promises = promises
        self._taker = taker
        self._told = told
        self._task: asyncio.Task[SendResult] | None = None
        if promises is not None:
            promises.add(self)

    def stored(self, result: SendResult) -> None:
        self.origin.book(self)
        self._tell(result)

    def failed(self, error: Fault) -> None:
        self._go_on(error)

    def call_off(self) -> None:
        super().call_off()
        if self._task is not None:
            self._task.cancel()

    def broken(self) -> None:
        """The client was closed."""
        self.call_off()
        if isinstance(self._taker, asyncio.Future):
            self._discard()
            self._taker.cancel()
        else:
            self._fail(ServiceStateError(CLOSED))

    def _again(self, outcome: SendResult | Fault) -> Coroutine[Any, Any, SendResult]:
        assert not isinstance(outcome, SendResult)  # noqa: S101 - which is told, whatever it says
        return self.origin.resume(self, outcome)

    def _go_on(self, outcome: SendResult | Fault) -> None:
        """A task does the rest."""
        taker = self._taker
        if taker.done():
            self._discard()
            return
        task = self._task = asyncio.get_running_loop().create_task(self._again(outcome))
        task.add_done_callback(self._copy)
        if isinstance(taker, asyncio.Future):
            taker.add_done_callback(lambda outcome: task.cancel() if outcome.cancelled() else None)

    def _copy(self, task: "asyncio.Task[SendResult]") -> None:
        if task.cancelled():
            self.broken()
        elif (error := task.exception()) is not None:
            self._fail(error)
        else:
            self._tell(task.result())

    def _tell(self, result: SendResult) -> None:
        self._discard()
        taker = self._taker
        if not taker.done():
            taker.set_result(result)
        if self._told is not None:
            self._told(result, None)

    def _fail(self, error: BaseException) -> None:
        self._discard()
        if not self._taker.done():
            self._taker.set_exception(error)
            if self._told is not None and isinstance(error, Exception):
                self._told(None, error)

    def _discard(self) -> None:
        if self._promises is not None:
            self._promises.discard(self)


class FirstRound(Promise):
    """The same for a synchronous send, which is not content with every receipt."""

    __slots__ = ()

    def stored(self, result: SendResult) -> None:
        if result.status is _OK:
            super().stored(result)
        else:
            self._go_on(result)

    def _again(self, outcome: SendResult | Fault) -> Coroutine[Any, Any, SendResult]:
        return self.origin.next_rounds(self, outcome)


class Line:
    """`behind` is how many have begun and not come to their first attempt."""

    __slots__ = ("behind",)

    def __init__(self) -> None:
        self.behind = 0


class Turn:
    """The place in line of one send, until its first attempt or its end."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line: Line | None = line
        line.behind += 1

    def over(self, _: object = None) -> None:
        """More than once does no harm."""
        if self._line is not None:
            self._line.behind -= 1
            self._line = None


def returned(outcome: SendResult | Fault) -> SendResult:
    """The result of an attempt that was made, or its error, raised."""
    if isinstance(outcome, SendResult):
        return outcome
    raise outcome
