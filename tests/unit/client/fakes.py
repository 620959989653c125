"""A clock that stands still and a cluster without sockets: what the client's unit tests run against."""

import asyncio
import functools
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from pyromq.client.producer.producer import Producer
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.remoting.errors import ConnectError

T = TypeVar("T")

WALL = 1_700_000_000_000


def asyncio_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test to its end."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(60):
        await asyncio.sleep(0)


class _Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Time that only `advance` moves."""

    def __init__(self) -> None:
        self.now = 5000.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()

    def millis(self) -> int:
        return WALL + round((self.now - 5000.0) * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.now + max(delay, 0.0), next(self._order), timer))
        return timer

    @property
    def pending(self) -> int:
        return sum(1 for _, _, timer in self._timers if timer.callback is not None)

    async def advance(self, seconds: float) -> None:
        """Go forward, running what falls due on the way, each at its time."""
        await settle()
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until + 1e-9:
            due, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            if timer.callback is not None:
                timer.callback()
                await settle()
        self.now = until
        await settle()


Answer = Command | Exception
Peer = Callable[[Command], Answer | Awaitable[Answer]]


class FakeTransport:
    """Delivers commands to peers that are plain functions. An address without a peer refuses connections."""

    def __init__(self) -> None:
        self.peers: dict[str, Peer] = {}
        self.calls: list[tuple[str, Command, float]] = []
        self.oneways: list[tuple[str, Command]] = []
        self.disconnected: list[str] = []
        self.closed = False
        self.oneway_error: Exception | None = None
        self.sent_oneway = asyncio.Event()

    async def call(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as Client
        self.calls.append((address, command, timeout))
        peer = self.peers.get(address)
        answer: Answer | Awaitable[Answer]
        answer = ConnectError(f"cannot connect to {address}: refused") if peer is None else peer(command)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def oneway(self, address: str, command: Command, timeout: float) -> None:  # noqa: ASYNC109 - as Client
        assert timeout >= 0
        if self.oneway_error is not None:
            raise self.oneway_error
        self.oneways.append((address, command))
        self.sent_oneway.set()

    def disconnect(self, address: str, reason: str = "") -> None:
        self.disconnected.append(f"{address} {reason}")

    async def close(self) -> None:
        self.closed = True

    def sent(self, code: int) -> list[tuple[str, Command]]:
        """Requests with a code, in order."""
        return [(address, command) for address, command, _ in self.calls if command.code == code]


class FakeBroker:
    """Stores what it is sent in a list. `script` holds answers for the next sends, before it goes on as usual."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.stored: list[tuple[SendMessageV2Header, bytes]] = []
        self.script: list[Callable[[Command], Answer | Awaitable[Answer]]] = []
        self.answers: dict[int, Callable[[Command], Answer]] = {}
        self.heartbeats: list[Command] = []
        self.unregistered: list[Command] = []

    def __call__(self, command: Command) -> Answer | Awaitable[Answer]:
        code = command.code
        if code in SENDS:
            if self.script:
                return self.script.pop(0)(command)
            return self.store(command)
        if code in self.answers:
            return self.answers[code](command)
        if code == RequestCode.HEART_BEAT:
            self.heartbeats.append(command)
            return command.reply()
        if code == RequestCode.UNREGISTER_CLIENT:
            self.unregistered.append(command)
            return command.reply()
        return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"code {code}")

    def store(self, command: Command, code: int = ResponseCode.SUCCESS) -> Command:
        """Keep the message and answer with a receipt, whatever status it carries."""
        header = command.header(SendMessageV2Header)
        offset = len(self.stored)
        self.stored.append((header, bytes(command.body)))
        receipt = SendMessageResponseHeader(
            msg_id=offset_message_id("10.0.0.1", 10911, offset * 100),
            queue_id=header.queue_id,
            queue_offset=offset,
            transaction_id="TX",
        )
        return command.reply(code, receipt)


SENDS = {
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
}


class FakeCluster:
    """Name servers that know routes, and brokers, behind one fake transport."""

    def __init__(self, *brokers: str, name_servers: tuple[str, ...] = ("ns1:9876",)) -> None:
        self.clock = ManualClock()
        self.transport = FakeTransport()
        self.routes: dict[str, TopicRouteData] = {}
        self.lookups: list[str] = []
        self.brokers: dict[str, FakeBroker] = {}
        self.name_servers = name_servers
        for address in name_servers:
            self.transport.peers[address] = self.answer_route
        for index, name in enumerate(brokers):
            broker = FakeBroker(name, f"10.0.0.{index + 1}:10911")
            self.brokers[name] = broker
            self.transport.peers[broker.address] = broker

    def answer_route(self, command: Command) -> Answer:
        topic = command.header(GetRouteInfoByTopicHeader).topic
        self.lookups.append(topic)
        route = self.routes.get(topic)
        if route is None:
            return command.reply(ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic route info for the topic: {topic}")
        return command.reply(body=route.encode(strict=True))

    def add_topic(self, topic: str, queues: int = 4, *, brokers: tuple[str, ...] | None = None, perm: int = 6) -> None:
        names = brokers or tuple(self.brokers)
        self.routes[topic] = route_of({name: self.brokers[name].address for name in names}, queues, perm=perm)

    async def producer(self, group: str = "PG", **options: Any) -> Producer:
        """A started producer on this cluster."""
        producer = self.new_producer(group, **options)
        await producer.start()
        return producer

    def new_producer(self, group: str = "PG", **options: Any) -> Producer:
        options.setdefault("client_ip", "10.1.1.1")
        return Producer(
            group, namesrv=";".join(self.name_servers), clock=self.clock, transport=self.transport, **options
        )


def route_of(masters: dict[str, str], queues: int = 4, *, perm: int = 6) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name=name, cluster="C", broker_addrs={0: address}) for name, address in masters.items()
        ],
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm) for name in masters
        ],
    )
