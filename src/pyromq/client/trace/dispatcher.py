"""Sending message traces: a hook that notes every send, and a dispatcher that ships the notes.

The dispatcher has a small producer of its own and a bounded queue; a trace that finds the queue full is dropped and
counted, a send is never held up by its trace.
"""

import asyncio
import logging
from collections import deque
from itertools import count, groupby
from typing import Protocol

from pyromq.client.clock import Clock, within
from pyromq.client.config import AccessChannel, ClientConfig, ProducerConfig
from pyromq.client.hooks import EndTransactionContext, MessageType, SendContext
from pyromq.client.instance.schedule import Schedule
from pyromq.client.trace.records import TraceBean, TraceContext, TraceType, pack
from pyromq.errors import PyroMQError
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import MAX_BODY, TRACE_TOPIC
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)

QUEUE_LIMIT = 2048
MAX_BATCH = 20
MESSAGE_LIMIT = 128_000
FLUSH_INTERVAL = 5.0
SEND_TIMEOUT = 5.0
CLOUD_TOPIC = "rmq_sys_TRACE_DATA_"

_numbers = count(1)


class TraceProducer(Protocol):
    """What the dispatcher needs of its producer."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def publish_queues(self, topic: str) -> list[MessageQueue]: ...

    async def send(self, payload: Message, *, timeout: float | None, queue: MessageQueue | None) -> object: ...  # noqa: ASYNC109 - as Producer.send


def trace_group(group: str, role: str) -> str:
    """The producer group of one dispatcher; `role` is PRODUCE or CONSUME."""
    return f"_INNER_TRACE_PRODUCER-{group}-{role}-{next(_numbers)}"


def trace_config(config: ProducerConfig) -> ProducerConfig:
    """Settings of the dispatcher's own producer, which is not traced itself."""
    return config.with_options(
        instance_name=f"PID_CLIENT_INNER_TRACE_PRODUCER_{config.namesrv or ''}",
        enable_trace=False,
        vip_channel=False,
        auto_batch=False,
        send_timeout=SEND_TIMEOUT,
        max_message_size=MAX_BODY,
        namespace=None,
        topics=(),
    )


class TraceDispatcher:
    """Collects trace contexts and sends them in batches."""

    def __init__(self, producer: TraceProducer, config: ClientConfig, clock: Clock) -> None:
        self._producer = producer
        self._config = config
        self._clock = clock
        self._batch = min(config.trace_batch_size, MAX_BATCH)
        self._queue: deque[TraceContext] = deque()
        self._schedule = Schedule(clock)
        self._sending: set[asyncio.Task[None]] = set()
        self._turn = count()
        self.dropped = 0

    @property
    def topic(self) -> str:
        """Where traces of this client go by default."""
        return self._config.trace_topic or TRACE_TOPIC

    async def start(self) -> None:
        await self._producer.start()
        self._schedule.every("trace", FLUSH_INTERVAL, FLUSH_INTERVAL, self._flush)

    def append(self, context: TraceContext) -> bool:
        """Take a context over; False when the queue is full and it was dropped."""
        if len(self._queue) >= QUEUE_LIMIT:
            self.dropped += 1
            return False
        self._queue.append(context)
        if len(self._queue) >= self._batch:
            self._ship(self._take())
        return True

    async def flush(self) -> None:
        """Send what is there and wait for it."""
        await self._flush()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def close(self) -> None:
        """Flush, for five seconds at most, and stop."""
        await self._schedule.stop()
        try:
            await within(self._clock, FLUSH_INTERVAL, self.flush())
        except TimeoutError:
            log.warning("traces not all sent: %d messages were still under way", len(self._sending))
        await self._producer.close()

    async def _flush(self) -> None:
        while self._queue:
            self._ship(self._take())

    def _take(self) -> list[TraceContext]:
        return [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]

    def _ship(self, contexts: list[TraceContext]) -> None:
        if len(self._sending) >= QUEUE_LIMIT:
            self.dropped += len(contexts)
            return
        task = asyncio.get_running_loop().create_task(self._send(contexts))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, contexts: list[TraceContext]) -> None:
        usable = [context for context in contexts if context.beans and context.region is not None]
        keyed = sorted(usable, key=self._key)
        for (_, trace_topic), group in groupby(keyed, key=self._key):
            for packed in pack(group, MESSAGE_LIMIT):
                message = Message(trace_topic, packed.text.encode(), keys=sorted(packed.keys))
                try:
                    queue = await self._next_queue(trace_topic)
                    await self._producer.send(message, timeout=SEND_TIMEOUT, queue=queue)
                except PyroMQError as error:
                    self.dropped += 1
                    log.info("trace of %d keys lost: %s", len(packed.keys), error)

    def _key(self, context: TraceContext) -> tuple[str, str]:
        """Message topic and trace topic, by which contexts are put together."""
        topic = context.beans[0].topic
        if self._config.access_channel is AccessChannel.CLOUD:
            return topic, f"{CLOUD_TOPIC}{context.region}"
        return topic, self.topic

    async def _next_queue(self, topic: str) -> MessageQueue | None:
        """Round robin over the brokers that own the trace topic."""
        queues = await self._producer.publish_queues(topic)
        return queues[next(self._turn) % len(queues)] if queues else None


class SendTracer:
    """The hook that traces sends and transaction ends of one producer."""

    name = "SendMessageTraceHook"

    def __init__(self, dispatcher: TraceDispatcher, clock: Clock, namespace: str | None) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._namespace = namespace

    def _unwrap(self, name: str) -> str:
        return namespaces.unwrap(name, self._namespace) if self._namespace else name

    def before(self, context: SendContext) -> None:
        context.state["trace.began"] = self._clock.monotonic()

    def after(self, context: SendContext) -> None:
        """Failures leave no record: without a result there is no message to point at."""
        result = context.result
        message = context.message[0] if isinstance(context.message, list) else context.message
        if result is None or not result.trace_on or message.topic.startswith(self._dispatcher.topic):
            return
        if message.properties.get(Property.TRACE_ON) == "false":
            return
        members = context.message if isinstance(context.message, list) else [context.message]
        elapsed = self._clock.monotonic() - context.state["trace.began"]
        bean = TraceBean(
            topic=self._unwrap(message.topic),
            message_id=result.message_id,
            offset_message_id=result.offset_message_id,
            tags=message.tags or "",
            keys=" ".join(message.keys),
            store_host=context.broker_address,
            body_length=context.body_size,
            message_type=context.message_type,
        )
        self._dispatcher.append(
            TraceContext(
                trace_type=TraceType.PUB,
                timestamp=self._clock.millis() - round(elapsed * 1000),
                region=result.region_id,
                group=self._unwrap(context.group),
                cost_ms=round(elapsed * 1000 / len(members)),
                success=True,
                beans=[bean],
            )
        )

    def end_transaction(self, context: EndTransactionContext) -> None:
        message = context.message
        if message.topic.startswith(self._dispatcher.topic):
            return
        bean = TraceBean(
            topic=self._unwrap(message.topic),
            message_id=context.message_id,
            tags=message.tags or "",
            keys=" ".join(message.keys),
            store_host=context.broker_address,
            message_type=MessageType.TRANSACTION_COMMIT,
            transaction_id=context.transaction_id,
            transaction_state=str(context.state),
            from_transaction_check=context.from_check,
        )
        self._dispatcher.append(
            TraceContext(
                trace_type=TraceType.END_TRANSACTION,
                timestamp=self._clock.millis(),
                region=message.properties.get(Property.MSG_REGION) or "DefaultRegion",
                group=self._unwrap(context.group),
                beans=[bean],
            )
        )

    def recalled(self, topic: str, message_id: str, group: str, *, success: bool) -> None:
        """A delayed message was taken back, or not."""
        self._dispatcher.append(
            TraceContext(
                trace_type=TraceType.RECALL,
                timestamp=self._clock.millis(),
                region="DefaultRegion",
                group=group,
                success=success,
                beans=[TraceBean(topic=topic, message_id=message_id)],
            )
        )
