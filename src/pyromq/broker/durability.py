"""When a stored message is as safe as its sender asked: on this disk, and on the replicas where the role demands it."""

import asyncio
import time
from collections.abc import Callable, Mapping

from pyromq.protocol.properties import Property
from pyromq.store import MessageStore, PutResult, PutStatus

_LOOK_AGAIN = 0.02
_LONGEST_WAIT = 30.0

Safe = Callable[[PutStatus], None]
"""Told PUT_OK once the message is safe, or which wait ran out."""


class Durability:
    """Waits on behalf of whoever put a message."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._sync_flush = store.config.sync_flush

    def needed(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is acknowledged only after a wait."""
        return self._sync_flush and properties.get(Property.WAIT, "true") != "false"

    def wait(self, result: PutResult, done: Safe) -> None:
        """Call `done` once the message is safe or the wait is over."""
        if not self._store.when_durable(result, done):
            done(result.status)

    async def reached(self, offset: int) -> bool:
        """Wait until everything in the log below an offset is on disk; False if it takes too long."""
        deadline = time.monotonic() + _LONGEST_WAIT
        while self._store.flushed_offset < offset:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_AGAIN)
        return True
