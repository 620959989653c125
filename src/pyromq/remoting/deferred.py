"""An answer that comes later from a plain callback: what a future does, without the event loop in between."""

from collections.abc import Callable

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
