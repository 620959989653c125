"""Every way to send with our client, each a run of its own against a running cluster."""

import asyncio
from collections import deque
from concurrent.futures import Future

import uvloop

from benchmarks.load import BATCH_COUNT
from benchmarks.pace import BOUND, Meter, Pace
from pyromq import Message, Producer, aio
from pyromq.client.producer.results import SendResult

TOPIC = "BenchmarkClient"
SIZE = 128
WINDOW = 256
BODY = b"x" * SIZE


def message() -> Message:
    """A new one for each send, as applications make them."""
    return Message(TOPIC, BODY, tags="TagA")


def sync(namesrv: str) -> Pace:
    """One thread that waits for each receipt."""
    with Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        meter, count = Meter(), 0
        while meter.running:
            producer.send(message())
            count += 1
        return meter.pace(count)


async def _sync_aio(namesrv: str) -> Pace:
    async with aio.Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        meter, count = Meter(), 0
        while meter.running:
            await producer.send(message())
            count += 1
        return meter.pace(count)


def sync_aio(namesrv: str) -> Pace:
    """One coroutine that waits for each receipt."""
    return uvloop.run(_sync_aio(namesrv))


def window(namesrv: str) -> Pace:
    """One thread that keeps a window of futures."""
    with Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        meter, count = Meter(), 0
        under_way: deque[Future[SendResult]] = deque()
        while meter.running:
            under_way.append(producer.send_async(message()))
            count += 1
            if len(under_way) == WINDOW:
                under_way.popleft().result(BOUND)
        for future in under_way:
            future.result(BOUND)
        return meter.pace(count)


async def _window_aio(namesrv: str) -> Pace:
    room = asyncio.Semaphore(WINDOW)

    def received(sent: "asyncio.Future[SendResult]") -> None:
        sent.result()
        room.release()

    async with aio.Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        meter, count = Meter(), 0
        while meter.running:
            await room.acquire()
            producer.send_async(message()).add_done_callback(received)
            count += 1
        for _ in range(WINDOW):
            await room.acquire()
        return meter.pace(count)


def window_aio(namesrv: str) -> Pace:
    """A window of sends on the event loop, refilled as receipts come."""
    return uvloop.run(_window_aio(namesrv))


def batch(namesrv: str) -> Pace:
    """One thread that waits for the receipt of each batch."""
    with Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        meter, count = Meter(), 0
        while meter.running:
            producer.send([message() for _ in range(BATCH_COUNT)])
            count += BATCH_COUNT
        return meter.pace(count)


async def _oneway(namesrv: str) -> Pace:
    async with aio.Producer("benchmark", namesrv=namesrv, topics=(TOPIC,)) as producer:
        queues = await producer.publish_queues(TOPIC)

        async def stored() -> int:
            return sum([await producer.max_offset(queue) for queue in queues])

        before = await stored()
        meter, count = Meter(), 0
        while meter.running:
            await producer.send_oneway(message())
            count += 1
        async with asyncio.timeout(BOUND):
            while await stored() < before + count:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.001)
        return meter.pace(count)


def oneway(namesrv: str) -> Pace:
    """One coroutine; the clock runs until the broker has everything."""
    return uvloop.run(_oneway(namesrv))
