"""The pull consumer for threads. Every method is that of the asyncio one, with a wait around it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pyromq.client.blocking.consumer import BlockingConsumer
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.damage import DamageHook
from pyromq.client.consumer.fetch import PullResult
from pyromq.client.consumer.hooks import FilterHook
from pyromq.client.consumer.pull.consumer import PullConsumer as AsyncPullConsumer
from pyromq.client.consumer.pull.consumer import TopicListener
from pyromq.client.consumer.pull.manual import PLAIN_BATCH
from pyromq.client.consumer.retry import BROKER_DECIDES
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import ServiceState
from pyromq.protocol.message import MessageQueue, ReceivedMessage


class PullConsumer(BlockingConsumer[AsyncPullConsumer]):
    """Gives messages to whoever asks.

        with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            for message in consumer:
                ...

    With `auto_commit` a message counts as done when the next one, or the next `poll`, is asked for. Options are the
    fields of `PullConfig`, given by name or as `config`. Meant for one thread at a time; any thread may close it.
    """

    def __init__(
        self, group: str, *, namesrv: str | None = None, config: PullConfig | None = None, **options: Any
    ) -> None:
        super().__init__(AsyncPullConsumer(group, namesrv=namesrv, config=config, **options))

    @property
    def config(self) -> PullConfig:
        return self._consumer.config

    @property
    def damage_hooks(self) -> list[DamageHook]:
        """Append hooks before `start`."""
        return self._consumer.damage_hooks

    @property
    def filter_hooks(self) -> list[FilterHook]:
        """Append hooks before `start`."""
        return self._consumer.filter_hooks

    def subscribe(self, topic: str, tags: str | None = None, *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group. Not together with `assign`."""
        self._on_loop(lambda: self._consumer.subscribe(topic, tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        self._on_loop(lambda: self._consumer.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], tags: str | None = None, *, sql: str | None = None) -> None:
        """Read exactly these queues, whatever the group does; replaces what was assigned before."""
        self._run(lambda: self._consumer.assign(queues, tags, sql=sql))

    def assignment(self) -> set[MessageQueue]:
        """The queues that are being read."""
        return self._on_loop(self._consumer.assignment)

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRouteError."""
        return self._run(lambda: self._consumer.fetch_queues(topic))

    def on_queues_changed(self, topic: str, listener: TopicListener) -> None:
        """Be told, on the background loop, when a topic gets or loses queues."""
        self._on_loop(lambda: self._consumer.on_queues_changed(topic, listener))

    def poll(self, timeout: float | None = None, max_messages: int | None = None) -> list[ReceivedMessage]:
        """Up to `max_messages` (default `pull_batch_size`) messages; none when `timeout` seconds bring none."""
        return self._run(lambda: self._consumer.poll(timeout, max_messages))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message, whenever it comes; ends when the consumer is closed."""
        consumer = self._consumer
        while consumer.state is ServiceState.RUNNING:
            # Handing out what was fetched already needs no trip to the loop.
            if (message := consumer.next_buffered()) is not None:
                return message
            try:
                self._run(consumer.refill)
            except ServiceStateError:
                break
        if consumer.state is ServiceState.CREATE_JUST:
            self._running()
        raise StopIteration

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset of an assigned queue. Raises ClientError when the queue does not have it."""
        self._run(lambda: self._consumer.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message."""
        self._run(lambda: self._consumer.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what arrives from now on."""
        self._run(lambda: self._consumer.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on at the first message stored at or after a time (Unix ms)."""
        self._run(lambda: self._consumer.seek_to_time(queue, timestamp_ms))

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time (Unix ms)."""
        return self._run(lambda: self._consumer.offset_for_time(queue, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset behind the last message given out; None before the first pull."""
        return self._on_loop(lambda: self._consumer.position(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Read nothing more of these queues for now."""
        self._on_loop(lambda: self._consumer.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after `pause`."""
        self._on_loop(lambda: self._consumer.resume(queues))

    def commit(
        self, offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None, *, persist: bool = True
    ) -> None:
        """Write how far the user got: the positions of all queues or of some, or given offsets.

        With `persist` it returns after the broker has them; without, they are written within a few seconds.
        """
        self._run(lambda: self._consumer.commit(offsets, persist=persist))

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has for a queue; None when it has none. Raises ClientError."""
        return self._run(lambda: self._consumer.committed(queue))

    def pull(
        self,
        queue: MessageQueue,
        expression: str | None,
        offset: int,
        max_messages: int = PLAIN_BATCH,
        *,
        sql: str | None = None,
        timeout: float | None = None,
        max_bytes: int | None = None,
    ) -> PullResult:
        """One pull of a queue, answered at once. Raises ClientError or one of its children."""
        return self._run(
            lambda: self._consumer.pull(
                queue, expression, offset, max_messages, sql=sql, timeout=timeout, max_bytes=max_bytes
            )
        )

    def pull_block(
        self,
        queue: MessageQueue,
        expression: str | None,
        offset: int,
        max_messages: int = PLAIN_BATCH,
        *,
        sql: str | None = None,
        max_bytes: int | None = None,
    ) -> PullResult:
        """One pull that the broker holds, up to `suspend_timeout`, until something arrives."""
        return self._run(
            lambda: self._consumer.pull_block(queue, expression, offset, max_messages, sql=sql, max_bytes=max_bytes)
        )

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remember an offset; it is written within a few seconds, or by `persist_offset`."""
        self._on_loop(lambda: self._consumer.update_offset(queue, offset))

    def fetch_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset of a queue, from memory if it is there; None when there is none. Raises ClientError."""
        return self._run(lambda: self._consumer.fetch_offset(queue, from_store=from_store))

    def persist_offset(self, queue: MessageQueue) -> None:
        """Write the offset of one queue now."""
        self._run(lambda: self._consumer.persist_offset(queue))

    def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = BROKER_DECIDES,
        *,
        broker: str | None = None,
        group: str | None = None,
    ) -> None:
        """Have a message delivered again to a push consumer of the group later. Raises ClientError."""
        self._run(lambda: self._consumer.send_back(message, delay_level, broker=broker, group=group))
