"""A handler that can answer several requests of its kind at once, for peers that send many before they wait."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyromq.protocol.command import Command
from pyromq.remoting.deferred import Deferred

if TYPE_CHECKING:
    from pyromq.remoting.connection import Connection
    from pyromq.remoting.endpoint import Handler, Outcome

MAX_GROUP = 128
"""Requests that are given to a handler at once, so that other connections get their turn."""

ManyHandler = Callable[[Sequence[Command], "Connection"], bytes | Deferred | None]
"""The answers to all requests that want one, as frames in one buffer; None when they must be served one by one."""


class Grouped:
    """What `one` does with a request, `many` does with several that came behind each other on one connection.

    `many` must not have stored or changed anything when it returns None.
    """

    __slots__ = ("many", "one")

    def __init__(self, one: "Handler", many: ManyHandler) -> None:
        self.one = one
        self.many = many

    def __call__(self, request: Command, connection: "Connection") -> "Outcome":
        return self.one(request, connection)
