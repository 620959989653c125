"""What wants to see every request of a client: signing, tracing, zone fields."""

from typing import Protocol

from pyromq.protocol.command import Command


class RequestHook(Protocol):
    """Called on the event loop around each request; what `before` raises fails that request before it is sent.

    Hooks run in their order; one that signs must come last, since it signs what the others added.
    """

    def before(self, command: Command, address: str) -> None:
        """Called before a request is written; may change its fields."""

    def after(self, command: Command, response: Command, address: str) -> None:
        """Called with the answer of a request that has one."""
