"""Between the transport and the handlers: refusals become answers, and what is being saved is waited for.

A handler that raises `Refused` answers with its code and remark. One that raises `Unsaved`, because a topic or group
that it has to make is not on disk yet, is called again when it is; so it must have stored and changed nothing before.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Mapping

from pyromq.broker.errors import Refused
from pyromq.broker.tables.savedtable import Unsaved
from pyromq.protocol.command import Command
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler, Outcome
from pyromq.remoting.handler import Deferred, Grouped
from pyromq.remoting.outbox import Frames


def guarded(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The same table with refusals turned into answers. Any other fault is the transport's to answer."""
    return {code: _guard(handler) for code, handler in handlers.items()}


def _guard(handler: Handler) -> Handler:
    if isinstance(handler, Grouped):
        return Grouped(_guard(handler.one), handler.many, handler.run)
    plain = handler
    while isinstance(plain, functools.partial):
        plain = plain.func
    if inspect.iscoroutinefunction(plain):

        async def serve_later(request: Command, connection: Connection) -> Answer:
            return await _again(handler, request, connection)

        return serve_later

    def serve(request: Command, connection: Connection) -> Outcome:
        try:
            return handler(request, connection)
        except Refused as refused:
            return answer(request, refused)
        except Unsaved as unsaved:
            return _again(handler, request, connection, unsaved)

    return serve


async def _again(handler: Handler, request: Command, connection: Connection, unsaved: Unsaved | None = None) -> Answer:
    """Serve a request as often as it takes until everything that it needs is saved."""
    while True:
        try:
            if unsaved is not None:
                await unsaved.save
                if not connection.is_open and not request.is_oneway:
                    return None  # nobody is there to be told: do not count them in, and give them nothing
            outcome = handler(request, connection)
            if isinstance(outcome, Deferred):
                outcome = _answered(outcome)
            result = await outcome if isinstance(outcome, Awaitable) else outcome
            if unsaved is not None:
                await unsaved.save.told()
            return result
        except Refused as refused:
            return answer(request, refused)
        except Unsaved as another:
            unsaved = another


def _answered(later: Deferred) -> "asyncio.Future[Frames]":
    future: asyncio.Future[Frames] = asyncio.get_running_loop().create_future()
    later.when_answered(lambda frames: None if future.done() else future.set_result(frames))
    return future


def answer(request: Command, refused: Refused) -> Command:
    """The response that says no."""
    return request.reply(refused.code, remark=refused.remark, ext=refused.ext)
