"""Single pulls, for tools that keep offsets themselves: one request to one queue, and the group's offsets by hand."""

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.fetch import Fetcher, PullRequest, PullResult
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.offsets import NONE_STORED, NOT_READABLE, Read
from pyromq.client.consumer.retry import restore_topic
from pyromq.client.consumer.subscription import build_subscription, is_tag_filter, tag_subscription
from pyromq.client.errors import ClientError, transport_error
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError

SINGLE_BATCH = 32


class ManualPulls:
    """`consumer.manual` of a `PullConsumer`. It needs neither `subscribe` nor `assign`."""

    def __init__(self, member: Member[PullConfig], fetcher: Fetcher) -> None:
        self._member = member
        self._config = member.config
        self._fetcher = fetcher
        self.topics: dict[str, SubscriptionData] = {}
        """Topics pulled this way; heartbeats mention them, rebalancing does not."""

    async def pull(
        self,
        queue: MessageQueue,
        expression: str | None,
        offset: int,
        max_messages: int = SINGLE_BATCH,
        *,
        sql: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - passed on
        max_bytes: int | None = None,
    ) -> PullResult:
        """One pull of a queue, answered at once. Raises ClientError or one of its children."""
        seconds = self._config.pull_timeout if timeout is None else timeout
        return await self._pull(queue, expression, sql, offset, max_messages, max_bytes, seconds)

    async def pull_block(
        self,
        queue: MessageQueue,
        expression: str | None,
        offset: int,
        max_messages: int = SINGLE_BATCH,
        *,
        sql: str | None = None,
        max_bytes: int | None = None,
    ) -> PullResult:
        """One pull that the broker holds, up to `suspend_timeout`, until something arrives."""
        seconds, suspend = self._config.suspend_call_timeout, self._config.suspend_timeout
        return await self._pull(queue, expression, sql, offset, max_messages, max_bytes, seconds, suspend)

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remember an offset; it is written within a few seconds, or by `persist_offset`."""
        self._member.offsets.update(self._member.wire_queue(queue), offset)

    async def fetch_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset of a queue, from memory if it is there; None when there is none. Raises ClientError."""
        where = Read.STORE if from_store else Read.MEMORY_THEN_STORE
        offset = await self._member.offsets.read(self._member.wire_queue(queue), where)
        if offset == NOT_READABLE:
            raise ClientError(f"the offset of {queue} cannot be read", broker=queue.broker_name, retryable=True)
        return None if offset == NONE_STORED else offset

    async def persist_offset(self, queue: MessageQueue) -> None:
        """Write the offset of one queue now."""
        await self._member.offsets.persist(self._member.wire_queue(queue), confirm=True)

    async def _pull(
        self,
        queue: MessageQueue,
        tags: str | None,
        sql: str | None,
        offset: int,
        max_messages: int,
        max_bytes: int | None,
        seconds: float,
        suspend: float = 0.0,
    ) -> PullResult:
        if offset < 0:
            raise ClientError(f"offset {offset} is below 0")
        if max_messages <= 0 or (max_bytes is not None and max_bytes <= 0):
            raise ClientError(f"at least one message and one byte must be asked for, not {max_messages}, {max_bytes}")
        member = self._member
        wire, now = member.wire_queue(queue), member.clock.millis()
        if wire.topic not in self.topics:
            self.topics[wire.topic] = tag_subscription(wire.topic, None, now)
        subscription = build_subscription(wire.topic, tags, sql, 0)
        request = PullRequest(
            queue=wire,
            offset=offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            subscription=subscription,
            version=0 if is_tag_filter(subscription) else now,
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
            restore_topic(message, member.group, member.namespace)
        return result
