"""The answer to a call from the answer of one broker, without a task in between."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from pyromq.protocol.command import Command

Finish = Callable[["asyncio.Future[Command]"], bytes | Awaitable[bytes]]
"""Makes the answer out of what came from the broker, a command or an error; or begins something else that does."""


def promised(asked: Awaitable[Command], finish: Finish) -> "asyncio.Future[bytes]":
    """What `finish` makes of what was asked. When nobody waits for it any more, it is not called."""
    done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    asyncio.ensure_future(asked).add_done_callback(partial(_settle, done, finish))
    return done


def _settle(done: "asyncio.Future[bytes]", finish: Finish, answer: "asyncio.Future[Command]") -> None:
    if answer.cancelled() or done.done():
        if not answer.cancelled():
            answer.exception()  # seen, and nobody's business
        done.cancel()
        return
    try:
        result = finish(answer)
    except Exception as error:  # noqa: BLE001 - for who waits
        done.set_exception(error)
        return
    if isinstance(result, bytes):
        done.set_result(result)
    else:
        asyncio.ensure_future(result).add_done_callback(partial(_pass_on, done))


def _pass_on(done: "asyncio.Future[bytes]", result: "asyncio.Future[bytes]") -> None:
    if result.cancelled() or done.done():
        done.cancel()
    elif (error := result.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(result.result())
