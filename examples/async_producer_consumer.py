"""Produce and consume with asyncio in one event loop."""

import asyncio
import os

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-async"
COUNT = 100


async def main() -> None:
    async with Admin(namesrv=NAMESRV) as admin:
        await admin.create_topic(TOPIC, queues=4)
        await admin.wait_for_topic(TOPIC)

    received: set[bytes] = set()
    everything = asyncio.Event()
    consumer = PushConsumer("example-async-consumer", namesrv=NAMESRV)
    consumer.subscribe(TOPIC)

    @consumer.listen
    async def handle(message: ReceivedMessage) -> None:
        received.add(message.body)
        if len(received) == COUNT:
            everything.set()

    async with consumer, Producer("example-async-producer", namesrv=NAMESRV) as producer:
        bodies = [f"message {number}".encode() for number in range(COUNT)]
        await asyncio.gather(*(producer.send(Message(TOPIC, body)) for body in bodies))
        await everything.wait()
    print(f"received {len(received)} messages")


asyncio.run(main())
