"""Between the transport and the handlers: a handler that raises `Refused` answers with its code and remark."""

import functools
import inspect
from collections.abc import Awaitable, Mapping

from pyromq.broker.errors import Refused
from pyromq.protocol.command import Command
from pyromq.remoting import Answer, Connection, Grouped, Handler, Outcome


def guarded(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The same table with refusals turned into answers. Any other fault is the transport's to answer."""
    return {code: _guard(handler) for code, handler in handlers.items()}


def _guard(handler: Handler) -> Handler:
    if isinstance(handler, Grouped):
        return Grouped(_guard(handler.one), handler.many)
    plain = handler
    while isinstance(plain, functools.partial):
        plain = plain.func
    if inspect.iscoroutinefunction(plain):

        async def serve_later(request: Command, connection: Connection) -> Answer:
            try:
                awaitable = handler(request, connection)
                assert isinstance(awaitable, Awaitable)  # noqa: S101 - a coroutine function, as checked above
                return await awaitable
            except Refused as refused:
                return answer(request, refused)

        return serve_later

    def serve(request: Command, connection: Connection) -> Outcome:
        try:
            return handler(request, connection)
        except Refused as refused:
            return answer(request, refused)

    return serve


def answer(request: Command, refused: Refused) -> Command:
    """The response that says no."""
    return request.reply(refused.code, remark=refused.remark, ext=refused.ext)
