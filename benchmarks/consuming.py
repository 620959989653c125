"""Every way to consume with our client: each run is a new group that reads all that is stored in a topic."""

import asyncio
from typing import Any

import uvloop

from benchmarks.load import PULL_COUNT
from benchmarks.pace import Pace, Tally
from pyromq import PullConsumer, PushConsumer, ReceivedMessage, aio
from pyromq.protocol.bodies.enums import ConsumeFromWhere

TOPIC = "BenchmarkStored"
STORED = 60_000
FROM_FIRST: dict[str, Any] = {"consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}


def push(namesrv: str, group: str) -> Pace:
    """A plain listener, on threads, one message for each call."""
    tally = Tally(STORED)
    consumer = PushConsumer(group, namesrv=namesrv, **FROM_FIRST)
    consumer.subscribe(TOPIC)
    consumer.listen(tally.count)
    with consumer:
        return tally.wait()


async def _push_aio(namesrv: str, group: str) -> Pace:
    tally = Tally(STORED)
    consumer = aio.PushConsumer(group, namesrv=namesrv, **FROM_FIRST)
    consumer.subscribe(TOPIC)

    @consumer.listen
    async def receive(message: ReceivedMessage) -> None:
        tally.count(message)

    async with consumer:
        return await asyncio.to_thread(tally.wait)


def push_aio(namesrv: str, group: str) -> Pace:
    """A coroutine as listener, on the event loop, one message for each call."""
    return uvloop.run(_push_aio(namesrv, group))


def pull(namesrv: str, group: str) -> Pace:
    """One thread that iterates."""
    tally = Tally(STORED)
    with PullConsumer(group, namesrv=namesrv, pull_batch_size=PULL_COUNT, **FROM_FIRST) as consumer:
        consumer.subscribe(TOPIC)
        for message in consumer:
            tally.count(message)
            if tally.ended:
                break
    return tally.wait()
