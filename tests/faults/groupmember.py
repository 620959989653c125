"""A push consumer that says what it gets, to be killed.

    python -m tests.faults.groupmember NAMESRV GROUP TOPIC concurrent|orderly

Prints the queue and the offset of each message.
"""

import asyncio
import sys

from pyromq.aio import PushConsumer, ReceivedMessage


async def main(namesrv: str, group: str, topic: str, kind: str) -> None:
    consumer = PushConsumer(group, namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe(topic)

    @consumer.listen(orderly=kind == "orderly")
    async def say(message: ReceivedMessage) -> None:
        # One text: listeners run in several threads, and a kill between two pieces would leave half a line.
        print(f"{message.queue_id} {message.queue_offset}\n", end="", flush=True)  # noqa: T201 - for who started it

    async with consumer:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
