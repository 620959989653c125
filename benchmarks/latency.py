"""How long a message takes from its sender to its receiver at a fixed rate: through our client, and on bare frames.

Both need a topic with one empty queue. Sends never wait for earlier ones. The bare way is the least that any client
could take: a frame encoded beforehand is written, and the answer of a pull that waits at the broker has arrived.
"""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Sequence
from typing import cast

from benchmarks.load import send_frames
from pyromq.aio import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.requests import pull_messages

PER_SECOND = 500
SECONDS = 4
COUNT = PER_SECOND * SECONDS
WARM_UP = PER_SECOND // 2
"""Messages that are sent first and not counted; all of them have arrived before the others are sent."""
SIZE = 128
BOUND = 60.0
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}

_STAMP = struct.Struct("=d")


def percentile(latencies: Sequence[float], share: float) -> float:
    """Of the counted messages, in seconds."""
    ordered = sorted(latencies[WARM_UP:])
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def through_client(namesrv: str, topic: str) -> list[float]:
    """A producer and a push consumer, both on this event loop."""
    arrivals = _Arrivals()
    consumer = PushConsumer(f"{topic}-group", namesrv=namesrv, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic)

    @consumer.listen
    async def receive(message: ReceivedMessage) -> None:
        arrivals.add(time.perf_counter() - _STAMP.unpack_from(message.body)[0])

    async with Producer(f"{topic}-producer", namesrv=namesrv) as producer, consumer, asyncio.timeout(BOUND):
        async for _ in ticks(arrivals):
            body = _STAMP.pack(time.perf_counter()).ljust(SIZE, b"x")
            _ = producer.send_async(Message(topic, body))
    return arrivals.latencies


async def on_frames(broker: str, topic: str) -> list[float]:
    """The same over two connections without a client."""
    host, _, port = broker.rpartition(":")
    loop = asyncio.get_running_loop()
    sending, _ = await loop.create_connection(asyncio.Protocol, host, int(port))
    receiving, receiver = await loop.create_connection(lambda: _Receiver(topic), host, int(port))
    frames = send_frames(SIZE, topic=topic, queues=1)
    try:
        async with asyncio.timeout(BOUND):
            async for number in ticks(receiver.arrivals):
                receiver.sent.append(time.perf_counter())
                sending.write(frames[number])
    finally:
        sending.abort()
        receiving.abort()
    return receiver.arrivals.latencies


class _Arrivals:
    """Latencies in the order of arrival."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._changed = asyncio.Event()

    def add(self, *latencies: float) -> None:
        self.latencies += latencies
        self._changed.set()

    async def reach(self, count: int) -> None:
        """Wait for so many."""
        while len(self.latencies) < count:
            self._changed.clear()
            await self._changed.wait()


async def ticks(arrivals: _Arrivals) -> AsyncIterator[int]:
    """The numbers of all messages, each when it is due, or at once when that has passed; ends when all have arrived."""
    for first, last in ((0, WARM_UP), (WARM_UP, WARM_UP + COUNT)):
        begun = time.perf_counter()
        for number in range(first, last):
            delay = begun + (number - first) / PER_SECOND - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            yield number
        await arrivals.reach(last)


class _Receiver(asyncio.Protocol):
    """Keeps one pull waiting at the broker."""

    def __init__(self, topic: str) -> None:
        self.sent: list[float] = []
        self.arrivals = _Arrivals()
        self._topic = topic
        self._frames = FrameReader()
        self._offset = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pull()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        for answer in self._frames.feed(data):
            if answer.code == ResponseCode.SUCCESS:
                begin, self._offset = self._offset, answer.header(PullMessageResponseHeader).next_begin_offset
                self.arrivals.add(*(now - sent for sent in self.sent[begin : self._offset]))
            self._pull()

    def _pull(self) -> None:
        command = pull_messages("benchmark", self._topic, 0, self._offset, 32, hold_ms=15_000)
        self._transport.write(encode(command))
