"""When a stored message is as safe as its sender asked: on this disk, and on the replicas where the role demands it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from pyromq.protocol.properties import Property
from pyromq.remoting.endpoint import Answer
from pyromq.store.log.put import PutResult, PutStatus
from pyromq.store.messagestore import MessageStore

_LOOK_AGAIN = 0.02
_LONGEST_WAIT = 30.0

Safe = Callable[[PutStatus], None]
"""Told PUT_OK once the message is safe, or which wait ran out."""


class Replicas(Protocol):
    """The slaves of a broker, as far as senders wait for them."""

    @property
    def wanted(self) -> bool: ...
    def wait(self, end: int, done: Safe) -> None: ...


class Durability:
    """Waits on behalf of whoever put a message."""

    def __init__(self, store: MessageStore, replicas: Replicas | None = None) -> None:
        self._store = store
        self._replicas = replicas
        self._sync_flush = store.config.sync_flush

    def needed(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is acknowledged only after a wait."""
        if not self._sync_flush and (self._replicas is None or not self._replicas.wanted):
            return False
        return properties.get(Property.WAIT, "true") != "false"

    def wait(self, result: PutResult, done: Safe) -> None:
        """Call `done` once the message is safe or the wait is over."""
        replicas = self._replicas
        if replicas is not None and replicas.wanted and result.stored:
            done = partial(self._flushed, replicas, result.end, done)
        if not self._store.when_durable(result, done):
            done(result.status)

    def once_safe(self, result: PutResult, answer: Callable[[PutStatus], Answer]) -> asyncio.Future[Answer]:
        """The answer to whoever put a message, when it is safe or the wait is over."""
        later: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def safe(status: PutStatus) -> None:
            if not later.done():
                later.set_result(answer(status))

        self.wait(result, safe)
        return later

    @staticmethod
    def _flushed(replicas: Replicas, end: int, done: Safe, status: PutStatus) -> None:
        """What is not on this disk is not sent to any other: there is nothing to wait for then."""
        if status is PutStatus.PUT_OK:
            replicas.wait(end, done)
        else:
            done(status)

    async def reached(self, offset: int) -> bool:
        """Wait until everything in the log below an offset is on disk; False if it takes too long."""
        deadline = time.monotonic() + _LONGEST_WAIT
        while self._store.progress.flushed < offset:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_AGAIN)
        return True
