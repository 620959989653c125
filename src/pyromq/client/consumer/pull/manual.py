"""Single pulls, for tools that keep offsets themselves: one request to one queue, and the group's offsets by hand."""

from pyromq.client.consumer.base import Consumer
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.fetch import PullRequest, PullResult
from pyromq.client.consumer.offsets import NONE_STORED, NOT_READABLE, Read
from pyromq.client.consumer.retry import BROKER_DECIDES, Retry, restore_topic
from pyromq.client.consumer.subscription import build_subscription, is_tag_filter, tag_subscription
from pyromq.client.errors import ClientError, transport_error
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.remoting.errors import RemotingError

PLAIN_BATCH = 32


class PlainPulls(Consumer):
    """This part of `PullConsumer`. It needs neither `subscribe` nor `assign`."""

    config: PullConfig
    _retry: Retry
    _plain: dict[str, SubscriptionData]
    """Topics pulled this way; heartbeats mention them, rebalancing does not."""

    async def pull(
        self,
        queue: MessageQueue,
        expression: str | None,
        offset: int,
        max_messages: int = PLAIN_BATCH,
        *,
        sql: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - passed on
        max_bytes: int | None = None,
    ) -> PullResult:
        """One pull of a queue, answered at once. Raises ClientError or one of its children."""
        seconds = self.config.pull_timeout if timeout is None else timeout
        return await self._pull_once(queue, expression, sql, offset, max_messages, seconds, 0.0, max_bytes)

    async def pull_block(
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
        config = self.config
        return await self._pull_once(
            queue, expression, sql, offset, max_messages, config.suspend_call_timeout, config.suspend_timeout, max_bytes
        )

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remember an offset; it is written within a few seconds, or by `persist_offset`."""
        self._check_running()
        self._offsets.update(self._wire_queue(queue), offset)

    async def fetch_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset of a queue, from memory if it is there; None when there is none. Raises ClientError."""
        self._check_running()
        where = Read.STORE if from_store else Read.MEMORY_THEN_STORE
        offset = await self._offsets.read(self._wire_queue(queue), where)
        if offset == NOT_READABLE:
            raise ClientError(f"the offset of {queue} cannot be read", broker=queue.broker_name, retryable=True)
        return None if offset == NONE_STORED else offset

    async def persist_offset(self, queue: MessageQueue) -> None:
        """Write the offset of one queue now."""
        self._check_running()
        await self._offsets.persist(self._wire_queue(queue), confirm=True)

    async def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = BROKER_DECIDES,
        *,
        broker: str | None = None,
        group: str | None = None,
    ) -> None:
        """Have a message delivered again to a push consumer of the group later. Raises ClientError."""
        self._check_running()
        wire = namespaces.wrap(self._namespace or "", group) if group else None
        if not await self._retry.send_back(message, delay_level, broker=broker, group=wire):
            raise ClientError(f"{message!r} could not be sent back", broker=message.broker_name, retryable=True)

    async def _pull_once(
        self,
        queue: MessageQueue,
        tags: str | None,
        sql: str | None,
        offset: int,
        max_messages: int,
        seconds: float,
        suspend: float,
        max_bytes: int | None,
    ) -> PullResult:
        self._check_running()
        if offset < 0:
            raise ClientError(f"offset {offset} is below 0")
        if max_messages <= 0 or (max_bytes is not None and max_bytes <= 0):
            raise ClientError(f"at least one message and one byte must be asked for, not {max_messages}, {max_bytes}")
        wire = self._wire_queue(queue)
        if wire.topic not in self._plain:
            self._plain[wire.topic] = tag_subscription(wire.topic, None, self._now_ms())
        subscription = build_subscription(wire.topic, tags, sql, 0)
        request = PullRequest(
            queue=wire,
            offset=offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            subscription=subscription,
            version=0 if is_tag_filter(subscription) else self._now_ms(),
            timeout=seconds,
            suspend=suspend,
            with_subscription=True,
        )
        try:
            result = await self._fetcher.fetch(request)
        except RemotingError as error:
            raise transport_error(error, queue.broker_name) from error
        except ProtocolError as error:
            raise ClientError(f"answer of broker {queue.broker_name} cannot be read: {error}") from error
        for message in result.messages:
            restore_topic(message, self._wire_group, self._namespace)
        return result
