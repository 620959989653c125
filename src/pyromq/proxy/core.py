"""`Core`: what all calls work with. Made once, when the proxy starts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.cluster.cluster import Cluster
from pyromq.proxy.grpc.method import Call


class Doorkeeper(Protocol):
    """Knows callers and what they may do. Both raise Refusal."""

    def caller(self, call: Call) -> Caller:
        """Who makes a call: a client id, and a signature where one is asked for."""

    def permit(self, caller: Caller, command: Command) -> None:
        """Whether the user may have this asked of a broker, by the rules that hold for remoting clients too."""


@dataclass(frozen=True, slots=True)
class Core:
    """`clock` gives Unix milliseconds, `monotonic` seconds for durations."""

    cluster: Cluster
    doorkeeper: Doorkeeper
    clock: Callable[[], int]
    monotonic: Callable[[], float]
    on_half: list[Callable[[Caller, str], Awaitable[None]]] = field(default_factory=list)
    """Told who sends a half message, and of which topic, before it is sent."""

    def ask(self, caller: Caller, broker: str, command: Command, timeout: float) -> Awaitable[Command]:
        """Ask a broker for a client, if its user may. Raises Refusal, or RemotingError when awaited."""
        self.doorkeeper.permit(caller, command)
        return self.cluster.ask(caller, broker, command, timeout)

    async def expect_half(self, caller: Caller, topic: str) -> None:
        """A client is about to send a half message. Raises Refusal and RemotingError."""
        for told in self.on_half:
            await told(caller, topic)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic lives."""
        return await self.cluster.route(topic)
