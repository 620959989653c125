"""When a stored message is as safe as its sender asked: on this disk, and on the replicas where the role demands it."""

from collections.abc import Callable, Mapping

from pyromq.protocol.properties import Property
from pyromq.store import MessageStore, PutResult, PutStatus

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
