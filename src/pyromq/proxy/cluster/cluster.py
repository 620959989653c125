"""`Cluster`: the brokers that calls go to: that around the proxy (`local`), or those behind name servers (`remote`)."""

from collections.abc import Awaitable
from typing import Protocol

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller


class Cluster(Protocol):
    """Answers are given whatever their code. Who asks hears RemotingError when nobody could be asked, or in time."""

    @property
    def has_links(self) -> bool:
        """Whether brokers see each client by a connection of its own; if not, they see the proxy alone."""

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic lives; None when nobody knows it. Remembered for a while."""

    async def brokers(self) -> list[str]:
        """The names of all brokers that have a master."""

    def ask(self, caller: Caller | None, broker: str, command: Command, timeout: float) -> Awaitable[Command]:
        """Ask the master of this name, as a client or, without one, as the proxy itself.

        Raises Refusal when there is no such broker.
        """

    async def create(self, caller: Caller, topic: str) -> bool:
        """Make a topic that takes every kind of message, where brokers let clients do so. Raises Refusal."""

    def forget(self, client_id: str) -> None:
        """A client has left."""

    async def stop(self) -> None:
        """Ask nobody any more."""
