"""Handing outcomes to users' callbacks: on the callback pool, never on the event loop unless the pool is full."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pyromq.client.errors import ClientError
from pyromq.client.pool import BoundedPool, PoolFull

log = logging.getLogger(__name__)

T = TypeVar("T")

Callback = Callable[[T | None, Exception | None], Awaitable[None] | None]
"""Called once with a result or with an error. A coroutine function runs on the event loop, a plain one on the pool."""

_running: "set[asyncio.Future[Any]]" = set()


def deliver(pool: BoundedPool, callback: "Callback[T]", result: T | None, error: Exception | None) -> None:
    """Call it; what it raises is logged."""
    if inspect.iscoroutinefunction(callback):
        task = asyncio.ensure_future(_awaited(callback(result, error)))
        _running.add(task)
        task.add_done_callback(_running.discard)
        return
    try:
        pool.post(lambda: _plain(callback, result, error))
    except PoolFull:
        _plain(callback, result, error)


def deliver_outcome(pool: BoundedPool, callback: "Callback[T]", outcome: "asyncio.Future[T]") -> None:
    """Call it with what a finished future holds."""
    if outcome.cancelled():
        deliver(pool, callback, None, ClientError("the call was cancelled"))
        return
    error = outcome.exception()
    if isinstance(error, Exception):
        deliver(pool, callback, None, error)
    elif error is None:
        deliver(pool, callback, outcome.result(), None)


def _plain(callback: "Callback[T]", result: T | None, error: Exception | None) -> None:
    try:
        callback(result, error)
    except Exception:
        log.exception("a callback failed")


async def _awaited(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        log.exception("a callback failed")
