"""Automatic batching: messages of one topic that are sent close together travel as one request.

A group is sent when it is old enough or large enough. Everybody waiting in it gets a receipt of its own, or the error
of the whole. Bytes held are bounded; what cannot be batched is sent by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeGuard

import msgspec

from pyromq.client.clock import Clock, Timer
from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError
from pyromq.client.hooks import SendMode
from pyromq.client.producer.results import SendResult
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import is_retry_topic
from pyromq.protocol.properties import Property

SendBatch = Callable[[list[Message], MessageQueue | None, SendMode], Awaitable[SendResult]]


class GroupKey(NamedTuple):
    """Messages with the same key may share a batch; synchronous and asynchronous ones are kept apart."""

    topic: str
    queue: MessageQueue | None
    wait_store_ok: bool
    tags: str | None
    mode: SendMode


class _Group:
    def __init__(self, timer: Timer) -> None:
        self.messages: list[Message] = []
        self.waiters: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer = timer


class Accumulator:
    """The groups of one producer that are being filled."""

    def __init__(self, clock: Clock, config: ProducerConfig, send: SendBatch) -> None:
        self._clock = clock
        self._config = config
        self._send = send
        self._groups: dict[GroupKey, _Group] = {}
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def held_bytes(self) -> int:
        return self._held

    def accepts(self, message: object) -> TypeGuard[Message]:
        """Whether it is a message that can wait for company. Nothing is reserved for one that cannot."""
        return isinstance(message, Message) and not (
            self._closed
            or message.is_delayed
            or is_retry_topic(message.topic)
            or Property.PRODUCER_GROUP in message.properties
            or self._held + len(message.body) > self._config.total_batch_bytes
        )

    def add(self, message: Message, queue: MessageQueue | None, mode: SendMode) -> "asyncio.Future[SendResult]":
        """Put an accepted message into its group; the future is its own receipt."""
        key = GroupKey(message.topic, queue, message.wait_store_ok, message.tags, mode)
        group = self._groups.get(key)
        if group is None:
            timer = self._clock.call_later(self._config.batch_delay, lambda: self._flush(key))
            group = self._groups[key] = _Group(timer)
        waiter: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        group.messages.append(message)
        group.waiters.append(waiter)
        group.size += len(message.body)
        self._held += len(message.body)
        if group.size > self._config.batch_bytes:
            self._flush(key)
        return waiter

    async def close(self) -> None:
        """Send what is held and wait for it."""
        self._closed = True
        for key in list(self._groups):
            self._flush(key)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _flush(self, key: GroupKey) -> None:
        group = self._groups.pop(key, None)
        if group is None:
            return
        group.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._deliver(key, group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, key: GroupKey, group: _Group) -> None:
        try:
            result = await self._send(group.messages, key.queue, key.mode)
            receipts = split_result(result, len(group.messages))
        except BaseException as error:
            outcome = error if isinstance(error, Exception) else ClientError("the client was closed")
            for waiter in group.waiters:
                if not waiter.done():
                    waiter.set_exception(outcome)
                    waiter.exception()  # several share it; one nobody awaits is not worth a warning
            if not isinstance(error, Exception):
                raise
        else:
            for waiter, receipt in zip(group.waiters, receipts, strict=True):
                if not waiter.done():
                    waiter.set_result(receipt)
        finally:
            self._held -= group.size


def split_result(result: SendResult, count: int) -> list[SendResult]:
    """One receipt per member. A broker that stored the batch as one record gives all of them the same.

    Raises ClientError when the numbers do not fit.
    """
    if "," not in result.message_id:
        return [result] * count
    ids = result.message_id.split(",")
    offset_ids = result.offset_message_id.split(",")
    if len(ids) != count or len(offset_ids) != count:
        raise ClientError(
            f"a batch of {count} messages came back with {len(ids)} message ids and {len(offset_ids)} offset ids"
        )
    return [
        msgspec.structs.replace(
            result, message_id=ids[i], offset_message_id=offset_ids[i], queue_offset=result.queue_offset + i
        )
        for i in range(count)
    ]
