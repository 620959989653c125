"""What the demo does, step by step, on servers that are there. Each step takes and returns plain values."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

from pyromq.aio import Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.cli.demo.orders import Order, window_of
from pyromq.client.errors import ClientError, UnsendableError

IN_FLIGHT = 256
ATTEMPTS = 5
WAIT_SECONDS = 120.0

Tick = Callable[[], None]
Windows = Counter[tuple[str, str]]


async def produce(
    namesrv: str, topic: str, orders: Iterable[Order], tick: Tick, again: Tick
) -> list[tuple[float, float]]:
    """Send the orders in their order of arrival, many at a time; returns messages per second over the time.

    The last order waits for all others: it closes the windows they belong to. `again` hears of each send that is
    repeated because no answer came, and may have left a copy.
    """
    room, sent, begin = asyncio.Semaphore(IN_FLIGHT), 0, time.monotonic()
    rates: list[tuple[float, float]] = []

    async def send(order: Order) -> None:
        nonlocal sent
        try:
            await _send_once_more(producer, Message(topic, order.body, keys=[order.key]), again)
        finally:
            room.release()
        sent += 1
        tick()
        if sent % 500 == 0:
            passed = time.monotonic() - begin
            rates.append((passed, sent / passed))

    # Without retries of its own: what is sent again has to be in the books.
    async with Producer("demo-shops", namesrv=namesrv, retries=0) as producer:
        closing: list[Order] = []
        async with asyncio.TaskGroup() as sends:
            for order in orders:
                if order.is_closing:
                    closing.append(order)
                    continue
                await room.acquire()
                sends.create_task(send(order))
        for order in closing:
            await room.acquire()
            await send(order)
    passed = time.monotonic() - begin
    return [*rates, (passed, sent / passed)]


async def _send_once_more(producer: Producer, message: Message, again: Tick) -> None:
    """Send, again and again for a while. Raises ClientError."""
    for left in reversed(range(ATTEMPTS)):
        try:
            await producer.send(message, timeout=30.0)
        except UnsendableError:
            raise
        except ClientError:
            if not left:
                raise
            again()
        else:
            return


async def stored(namesrv: str, topic: str) -> int:
    """How many messages the queues of a topic hold."""
    async with Admin(namesrv=namesrv) as admin:
        stats = await admin.topic_stats(topic)
    return sum(queue.max_offset - queue.min_offset for queue in stats.offset_table.values())


async def read_results(namesrv: str, topic: str, count: int) -> list[dict[str, object]]:
    """Consume so many results. Raises TimeoutError."""
    results: list[dict[str, object]] = []
    consumer = PullConsumer("demo-office", namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe(topic)
    async with consumer, asyncio.timeout(WAIT_SECONDS):
        while len(results) < count:
            results += [json.loads(message.body) for message in await consumer.poll(timeout=5.0)]
    return results


class Counting:
    """The pipeline's work by a consumer group, for machines without Spark: at least once, repetitions removed."""

    def __init__(self, namesrv: str, orders: str, broken: str) -> None:
        self._namesrv = namesrv
        self._orders = orders
        self._broken = broken
        self._seen: set[str] = set()
        self._places: set[tuple[str, int, int]] = set()
        self.delivered_again = 0
        self.windows: Windows = Counter()
        self.duplicates = 0
        self.broken = 0

    async def run(self, count: int, tick: Tick) -> None:
        """Until so many messages have been received. Raises TimeoutError."""
        received, everything = 0, asyncio.Event()
        consumer = PushConsumer("demo-counting", namesrv=self._namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
        consumer.subscribe(self._orders)
        async with Producer("demo-counting-out", namesrv=self._namesrv) as out:

            @consumer.listen
            async def handle(message: ReceivedMessage) -> None:
                nonlocal received
                if await self.book(message, out):
                    received += 1
                    tick()
                if received >= count:
                    everything.set()

            async with consumer, asyncio.timeout(WAIT_SECONDS):
                await everything.wait()

    async def book(self, message: ReceivedMessage, out: Producer) -> bool:
        """Take a message into account; False when it was delivered before, which a group must expect."""
        place = (message.broker_name, message.queue_id, message.queue_offset)
        if place in self._places:
            self.delivered_again += 1
            return False
        self._places.add(place)
        await self._book(message, out)
        return True

    async def _book(self, message: ReceivedMessage, out: Producer) -> None:
        try:
            order = json.loads(message.body)
        except ValueError:
            self.broken += 1
            await out.send(Message(self._broken, message.body, keys=message.keys))
            return
        if order["id"] in self._seen:
            self.duplicates += 1
        elif order["id"] != "closing":
            self.windows[window_of(datetime.fromisoformat(order["ts"])), order["shop"]] += order["cents"]
        self._seen.add(order["id"])
