"""What calls work with in tests, without a transport and without a broker."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.grpc.method import GrpcStatus
from pyromq.remoting.address import Address

PEER = Address("10.0.0.9", 4000)
HERE = Address("10.0.0.1", 8081)
CLIENT = {"x-mq-client-id": "client-1", "x-mq-language": "GO", "x-mq-client-version": "5.1.4"}


@dataclass
class FakeCall:
    """A call that notes what is sent."""

    metadata: Mapping[str, str] = field(default_factory=lambda: dict(CLIENT))
    path: str = "/apache.rocketmq.v2.MessagingService/Telemetry"
    peer: Address = PEER
    local: Address = HERE
    secure: bool = False
    is_open: bool = True
    deadline: float | None = 3.0
    sent: list[bytes] = field(default_factory=list)
    ended: tuple[GrpcStatus, str] | None = None
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def remaining(self) -> float | None:
        return self.deadline

    def on_end(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def send(self, message: bytes) -> None:
        if self.is_open:
            self.sent.append(message)

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        if self.is_open:
            self.is_open = False
            self.ended = status, text
            for listener in self.listeners:
                listener()

    async def drained(self) -> None:
        pass


Answers = Callable[[Command], Command]


class FakeCluster:
    """Answers by code, with what is asked noted beside who asked."""

    def __init__(self, answers: Mapping[int, Answers] | None = None, *, links: bool = True) -> None:
        self.answers = dict(answers or {})
        self.asked: list[tuple[Caller | None, str, Command]] = []
        self.routes: dict[str, TopicRouteData] = {}
        self.left: list[str] = []
        self.created: list[str] = []
        self.may_create = False
        self.has_links = links

    def add_topic(self, topic: str, *brokers: tuple[str, int, int, int]) -> None:
        """`brokers` are name, permission, read queues and write queues."""
        self.routes[topic] = TopicRouteData(
            broker_datas=[BrokerData(broker_addrs={0: f"{name}:10911"}, broker_name=name) for name, *_ in brokers],
            queue_datas=[
                QueueData(broker_name=name, perm=perm, read_queue_nums=read, write_queue_nums=write)
                for name, perm, read, write in brokers
            ],
        )

    async def route(self, topic: str) -> TopicRouteData | None:
        return self.routes.get(topic)

    async def brokers(self) -> list[str]:
        return ["a", "b"]

    def ask(self, caller: Caller | None, broker: str, command: Command, _timeout: float) -> Awaitable[Command]:
        self.asked.append((caller, broker, command))
        answer = self.answers.get(command.code)

        async def answered() -> Command:
            return command.reply() if answer is None else answer(command)

        return answered()

    async def create(self, _caller: Caller, topic: str) -> bool:
        if self.may_create:
            self.created.append(topic)
            self.add_topic(topic, ("a", 6, 4, 4))
        return self.may_create

    def forget(self, client_id: str) -> None:
        self.left.append(client_id)

    async def stop(self) -> None:
        pass

    def codes(self) -> list[int]:
        """What was asked, in order."""
        return [command.code for _, _, command in self.asked]


def last(call: FakeCall, kind: Any) -> Any:
    """The last message that was sent on a stream."""
    return kind.FromString(call.sent[-1])
