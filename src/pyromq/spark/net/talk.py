"""The questions to one peer, some under way at a time. Sans I/O: who sends and receives is the caller's."""

from collections.abc import Iterator, Sequence

from pyromq.protocol.command import Command

WINDOW = 64
"""Requests that are under way at a time."""


class Talk:
    """Questions and what was answered so far, in the order of the questions."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._commands = commands
        self._found: list[Command | None] = [None] * len(commands)
        self._places: dict[int, int] = {}
        self._next = 0

    def next(self) -> Iterator[Command]:
        """Those that may be sent now; the number of each is to be told before the next is taken."""
        while self._next < len(self._commands) and len(self._places) < WINDOW:
            yield self._commands[self._next]

    def sent(self, opaque: int) -> None:
        self._places[opaque] = self._next
        self._next += 1

    def take(self, answer: Command) -> None:
        if (place := self._places.pop(answer.opaque, None)) is not None:
            self._found[place] = answer

    @property
    def is_over(self) -> bool:
        return self._next == len(self._commands) and not self._places

    @property
    def answers(self) -> list[Command]:
        return [answer for answer in self._found if answer is not None]
