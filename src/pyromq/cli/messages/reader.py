"""Where `pyromq consume` gets messages from: queues that it reads without a trace, or a share of a consumer group."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from pyromq.client.consumer.fetch import PullResult
from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.errors import ClientError, TransportError
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP

log = logging.getLogger(__name__)

AHEAD = 64
"""Pulls that wait to be printed; the reading of queues stops there."""
TRY_AGAIN = 1.0
LOOK_AGAIN = 0.25
"""Seconds after which a member that waits for messages looks whether it is at the end."""


class Reader:
    """Reads queues from given offsets on, side by side; no group has an offset afterwards that it had not before.

    `ends` are the offsets to stop at; without them it never ends.
    """

    def __init__(
        self,
        consumer: PullConsumer,
        starts: Mapping[MessageQueue, int],
        ends: Mapping[MessageQueue, int] | None,
        *,
        tags: str | None,
        sql: str | None,
    ) -> None:
        self._consumer = consumer
        self._starts = starts
        self._ends = ends
        self._filter: dict[str, Any] = {"expression": tags, "sql": sql}
        self._pulled: asyncio.Queue[list[ReceivedMessage] | BaseException | None] = asyncio.Queue(AHEAD)

    async def messages(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Messages as they come; raises what a queue failed with. Ends when every queue is at its end."""
        tasks = [asyncio.create_task(self._read(queue, start)) for queue, start in self._starts.items()]
        running = len(tasks)
        try:
            while running:
                pulled = await self._pulled.get()
                if pulled is None:
                    running -= 1
                elif isinstance(pulled, BaseException):
                    raise pulled
                else:
                    for message in pulled:
                        yield message
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pull(self, queue: MessageQueue, offset: int) -> PullResult:
        return await self._consumer.manual.pull(queue, offset=offset, **self._filter)

    async def _follow(self, queue: MessageQueue, offset: int) -> PullResult:
        """A pull that waits for messages, and for a broker that is away."""
        while True:
            try:
                return await self._consumer.manual.pull_block(queue, offset=offset, **self._filter)
            except ClientError as error:
                if not (error.retryable or isinstance(error, TransportError)):
                    raise
                log.warning("%s cannot be read for now: %s", queue, error)
                await asyncio.sleep(TRY_AGAIN)

    async def _read(self, queue: MessageQueue, offset: int) -> None:
        end = self._ends[queue] if self._ends is not None else None
        try:
            while end is None or offset < end:
                # What is there is answered at once; only a queue without an end is waited for.
                result = await (self._follow(queue, offset) if end is None else self._pull(queue, offset))
                wanted = [message for message in result.messages if end is None or message.queue_offset < end]
                if wanted:
                    await self._pulled.put(wanted)
                if result.next_offset == offset and end is not None:
                    break
                offset = result.next_offset
        except ClientError as error:
            await self._pulled.put(error)
        else:
            await self._pulled.put(None)


async def group_messages(
    consumer: PullConsumer, ends: Mapping[MessageQueue, int] | None
) -> AsyncGenerator[ReceivedMessage, None]:
    """Messages of a member of a group; one counts as done when the next is asked for.

    With `ends` it stops once all queues that are this member's are past them.
    """
    while True:
        message = consumer.next_buffered()
        if message is not None:
            yield message
        elif ends is not None and _finished(consumer, ends):
            return
        else:
            await consumer.refill()


def _finished(consumer: PullConsumer, ends: Mapping[MessageQueue, int]) -> bool:
    mine = [queue for queue in consumer.assignment() if queue in ends]
    if not mine:
        return False
    positions = {}
    for queue in mine:
        with contextlib.suppress(ClientError):  # taken away meanwhile
            positions[queue] = consumer.position(queue)
    return all(position is not None and position >= ends[queue] for queue, position in positions.items())


async def bounds(
    consumer: PullConsumer, queues: Iterable[MessageQueue], begin: str | int
) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
    """Where to begin in each queue (earliest, latest, or a time in Unix ms), and where its end is now."""
    listed = list(queues)
    ends = dict(zip(listed, await asyncio.gather(*map(consumer.queries.max_offset, listed)), strict=True))
    if begin == "latest":
        return ends, ends
    if begin == "earliest":
        starts = await asyncio.gather(*map(consumer.queries.min_offset, listed))
    else:
        starts = await asyncio.gather(*(consumer.queries.search_offset(queue, int(begin)) for queue in listed))
    return dict(zip(listed, starts, strict=True)), ends


def tools_consumer(options: Mapping[str, Any]) -> PullConsumer:
    """A consumer that stores nothing, in the group that brokers keep for tools."""
    return PullConsumer(TOOLS_CONSUMER_GROUP, auto_commit=False, **options)
