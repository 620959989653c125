"""What handlers may be and return beside plain functions and answers: `Grouped`, `Deferred` and `Begun`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pyromq.protocol.command import Command
from pyromq.remoting.outbox import Frames


class Deferred:
    """Returned by a handler that must wait, and given its answer once, on the loop's thread.

    later = Deferred()
    store.when_flushed(offset, lambda durable: later.answer(request.reply(...)))
    return later

    The request counts as in flight until then, so a server that stops waits for it.
    """

    __slots__ = ("_answer", "_deliver")

    def __init__(self) -> None:
        self._answer: Frames | None = None
        self._deliver: Callable[[Frames], None] | None = None

    def answer(self, answer: Frames) -> None:
        """The answer is there. Only the first one counts."""
        if self._answer is None:
            self._answer = answer
            if self._deliver is not None:
                self._deliver(answer)

    def when_answered(self, deliver: Callable[[Frames], None]) -> None:
        """Have the answer delivered, at once if it is there."""
        self._deliver = deliver
        if self._answer is not None:
            deliver(self._answer)


if TYPE_CHECKING:
    from pyromq.remoting.connection import Connection
    from pyromq.remoting.endpoint import Handler, Outcome

MAX_GROUP = 128
"""Requests that are given to a handler at once, so that other connections get their turn."""

ManyHandler = Callable[[Sequence[Command], "Connection"], bytes | Deferred | None]
"""The answers to all requests that want one, as frames in one buffer; None when they must be served one by one."""


class Begun(msgspec.Struct, gc=False):
    """What a handler did with a run of which it took the first requests only; all of them want an answer."""

    taken: int
    frames: Frames


RunHandler = Callable[[Any, "Connection"], bytes | Deferred | Begun | None]
"""The same for a run of plain requests, of the kind that its code has."""


class Grouped:
    """What `one` does with a request, `many` does with several that came behind each other on one connection, and `run`
    with a run of plain ones, each if it is there.

    `many` and `run` must not have stored or changed anything when they return None. Of a run that is begun, the next
    request may need a way of its own; without `many`, what is not served as a run is served one by one, and what a peer
    does not take holds back those that follow.
    """

    __slots__ = ("many", "one", "run")

    def __init__(self, one: "Handler", many: ManyHandler | None = None, run: RunHandler | None = None) -> None:
        self.one = one
        self.many = many
        self.run = run

    def __call__(self, request: Command, connection: "Connection") -> "Outcome":
        return self.one(request, connection)
