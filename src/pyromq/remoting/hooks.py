"""What wants to see every request of a client: signing, tracing, zone fields."""

from typing import Protocol

from pyromq.protocol.command import Command
from pyromq.protocol.signature import signed


class RequestHook(Protocol):
    """Called on the event loop around each request; what `before` raises fails that request before it is sent.

    Hooks run in their order; one that signs must come last, since it signs what the others added.
    """

    def before(self, command: Command, address: str) -> None:
        """Called before a request is written; may change its fields."""

    def after(self, command: Command, response: Command, address: str) -> None:
        """Called with the answer of a request that has one."""


class Signing:
    """Signs what a request has become; must be the last hook, since fields added later break the signature."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._access_key = access_key
        self._secret_key = secret_key
        self._security_token = security_token

    def before(self, command: Command, address: str) -> None:  # noqa: ARG002 - the same for every address
        signed(command, self._access_key, self._secret_key, self._security_token)

    def after(self, command: Command, response: Command, address: str) -> None:
        """Responses are not signed."""
