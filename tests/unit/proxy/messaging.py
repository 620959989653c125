"""Brokers and callers for calls about messages, without sockets: tests say what is answered, requests are kept."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, GrpcStatus, Method, ServerStream, Unary
from pyromq.proxy.schema import messages
from pyromq.remoting.address import Address

NOW = 1_700_000_000_000
CLIENT = Address("10.1.2.3", 5000)
PROXY = Address("127.0.0.1", 8081)

Reply = Callable[[Command], Command | Awaitable[Command]]


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


class FakeCall:
    """A call whose caller reads everything, until it `leaves`."""

    path = "/test"
    local = PROXY
    secure = False

    def __init__(self, deadline: float | None = 10.0, client_id: str = "client-1") -> None:
        self.metadata: Mapping[str, str] = {"x-mq-client-id": client_id}
        self.peer = CLIENT
        self.is_open = True
        self.sent: list[bytes] = []
        self.deadline = deadline
        self._listeners: list[Callable[[], None]] = []

    def remaining(self) -> float | None:
        return self.deadline

    def on_end(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def send(self, message: bytes) -> None:
        if self.is_open:
            self.sent.append(message)

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:  # noqa: ARG002 - as calls have it
        self.leave()

    def leave(self) -> None:
        self.is_open = False
        for listener in self._listeners:
            listener()

    async def drained(self) -> None:
        return


class FakeCluster:
    """Brokers `b` and, if asked for, more; two queues each. `replies` answer by request code, else with SUCCESS."""

    has_links = False

    def __init__(self, *brokers: str) -> None:
        self.names = list(brokers or ("b",))
        self.topics: dict[str, TopicConfig] = {"t": TopicConfig(topic_name="t")}
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.perm = 6
        self.replies: dict[int, Reply] = {
            RequestCode.GET_TOPIC_CONFIG: self._topic,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._group,
        }
        self.failures: dict[str, Exception] = {}
        self.asked: list[tuple[str, Command]] = []

    def of(self, code: RequestCode) -> list[Command]:
        """The requests of a code."""
        return [command for _, command in self.asked if command.code == code]

    async def route(self, topic: str) -> TopicRouteData | None:
        if topic not in self.topics:
            return None
        return TopicRouteData(
            broker_datas=[BrokerData(broker_name=name, broker_addrs={0: f"{name}:10911"}) for name in self.names],
            queue_datas=[
                QueueData(broker_name=name, perm=self.perm, read_queue_nums=2, write_queue_nums=2)
                for name in self.names
            ],
        )

    async def brokers(self) -> list[str]:
        return self.names

    async def ask(self, caller: Caller | None, broker: str, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109 - as clusters have it
        self.asked.append((broker, command))
        if broker in self.failures:
            raise self.failures[broker]
        reply = self.replies.get(command.code)
        answer = reply(command) if reply is not None else command.reply()
        return answer if isinstance(answer, Command) else await answer

    async def create(self, caller: Caller, topic: str) -> bool:  # noqa: ARG002
        return False

    def forget(self, client_id: str) -> None:
        """Nothing is kept."""

    async def stop(self) -> None:
        """Nothing runs."""

    def _topic(self, request: Command) -> Command:
        topic = self.topics.get(request.ext["topic"])
        return request.reply(ResponseCode.TOPIC_NOT_EXIST) if topic is None else request.reply(body=topic.encode())

    def _group(self, request: Command) -> Command:
        group = self.groups.get(request.ext["group"])
        if group is None:
            return request.reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return request.reply(body=group.encode())


class Doorkeeper:
    """Lets everybody in."""

    def caller(self, call: Call) -> Caller:
        return Caller(call.metadata["x-mq-client-id"], call.peer)

    def permit(self, caller: Caller, command: Command) -> None:
        """Everything."""


class Clock:
    """Unix milliseconds and seconds, which only tests move."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class Bench:
    """A core over a fake cluster, and the way to call methods of the service."""

    def __init__(self, cluster: FakeCluster | None = None) -> None:
        self.cluster = cluster or FakeCluster()
        self.clock = Clock()
        self.core = Core(self.cluster, Doorkeeper(), self.clock, self.clock.monotonic)
        self.catalogue = Catalogue(self.cluster, self.clock.monotonic)

    async def call(self, methods: dict[str, Method], name: str, request: Any, call: FakeCall | None = None) -> Any:
        """The answer of a unary call."""
        method = methods[f"/{messages.SERVICE}/{name}"]
        assert isinstance(method, Unary)
        answer = method.serve(request.SerializeToString(), call or FakeCall())
        data = answer if isinstance(answer, bytes) else await answer
        return getattr(messages, f"{name}Response").FromString(data)

    async def stream(
        self, methods: dict[str, Method], name: str, request: Any, call: FakeCall | None = None
    ) -> list[Any]:
        """The answers of a stream."""
        method = methods[f"/{messages.SERVICE}/{name}"]
        assert isinstance(method, ServerStream)
        call = call or FakeCall()
        await method.serve(request.SerializeToString(), call)
        return [getattr(messages, f"{name}Response").FromString(data) for data in call.sent]
