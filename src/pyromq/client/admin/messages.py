"""Messages: by id, key and place, a stretch of a topic, entries of a consume queue, half messages."""

from pyromq.client.admin.reach import Reach, Server, Subject, as_client_errors
from pyromq.client.consumer.fetch import Fetcher, PullRequest, PullStatus
from pyromq.client.consumer.subscription import build_subscription
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.stats import ConsumeQueuePage
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import QueryConsumeQueueHeader, ResumeCheckHalfMessageHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from pyromq.protocol.routes import subscribe_queues

PAGE = 32
FOREVER = 2**63 - 1


class MessageMethods(Subject):
    """What `Admin` does with single messages, and the offsets of single queues."""

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, in order. Raises NoRouteError."""
        return sorted(subscribe_queues(topic, await self._reach().route(topic)))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time."""
        return await (await self._reach().queries(queue.topic)).search_offset(queue, timestamp_ms)

    async def max_offset(self, queue: MessageQueue) -> int:
        """One past the last message of the queue."""
        return await (await self._reach().queries(queue.topic)).max_offset(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return await (await self._reach().queries(queue.topic)).min_offset(queue)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the first message that the queue still has was stored, in Unix ms."""
        return await (await self._reach().queries(queue.topic)).earliest_store_time(queue)

    async def view_message(self, topic: str, message_id: str) -> ReceivedMessage:
        """A message by either of its ids."""
        return await (await self._reach().queries(topic)).view_message(topic, message_id)

    async def query_message(
        self, topic: str, key: str, max_num: int = 64, begin_ms: int = 0, end_ms: int = FOREVER
    ) -> list[ReceivedMessage]:
        """Messages with a key, from all brokers of the topic. Raises ClientError NO_MESSAGE when there is none."""
        return await (await self._reach().queries(topic)).query_message(topic, key, max_num, begin_ms, end_ms)

    async def messages_of_id(self, topic: str, message_id: str, max_num: int = 32) -> list[ReceivedMessage]:
        """All copies of a message by the id that its sender gave it, oldest first. Raises ClientError NO_MESSAGE."""
        return await (await self._reach().queries(topic)).messages_of_id(topic, message_id, max_num)

    async def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message at one offset of a queue. Raises ClientError NO_MESSAGE when there is none."""
        reach = self._reach()
        await reach.instance.routes.refresh(queue.topic)
        found, _ = await _page(reach, queue, offset, 1, build_subscription(queue.topic, None, None, 0))
        if not found or found[0].queue_offset != offset:
            raise ClientError(f"{queue} has no message at offset {offset}", code=ResponseCode.NO_MESSAGE)
        return found[0]

    async def messages(
        self,
        topic: str,
        *,
        queue: MessageQueue | None = None,
        tags: str | None = None,
        sql: str | None = None,
        begin_ms: int = 0,
        end_ms: int = FOREVER,
        offset: int = 0,
        limit: int = 1000,
    ) -> list[ReceivedMessage]:
        """Up to `limit` messages of a topic, or of one queue of it, stored from one time up to another.

        Queue by queue, each in order, and none before `offset`. Reading leaves no trace in the offsets of any group.
        """
        reach = self._reach()
        subscription = build_subscription(topic, tags, sql, reach.instance.clock.millis())
        queries = await reach.queries(topic)
        found: list[ReceivedMessage] = []
        for each in [queue] if queue is not None else await self.queues(topic):
            begin = max(offset, await queries.min_offset(each))
            if begin_ms > 0:
                begin = max(begin, await queries.search_offset(each, begin_ms))
            room = limit - len(found)
            end = await queries.max_offset(each)
            found += await stretch(reach, each, begin, end, subscription, limit=room, end_ms=end_ms)
            if len(found) >= limit:
                break
        return [message for message in found if message.store_timestamp >= begin_ms]

    async def queue_entries(
        self, queue: MessageQueue, index: int, count: int = 10, *, group: str | None = None
    ) -> ConsumeQueuePage:
        """Entries of a consume queue, and whether the filter of a group lets each pass."""
        reach = self._reach()
        header = QueryConsumeQueueHeader(
            topic=queue.topic, queue_id=queue.queue_id, index=index, count=count, consumer_group=group
        )
        server = await reach.master(queue.broker_name)
        return await reach.read(server, RequestCode.QUERY_CONSUME_QUEUE, ConsumeQueuePage, header)

    async def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """Have the broker ask again about a half message that it has given up on."""
        with as_client_errors(offset_message_id):
            address = str(parse_offset_message_id(offset_message_id).host)
        header = ResumeCheckHalfMessageHeader(topic=topic, msg_id=offset_message_id)
        await self._reach().ask(Server(address, address), RequestCode.RESUME_CHECK_HALF_MESSAGE, header)


async def stretch(
    reach: Reach,
    queue: MessageQueue,
    begin: int,
    end: int,
    subscription: SubscriptionData,
    *,
    limit: int,
    end_ms: int = FOREVER,
) -> list[ReceivedMessage]:
    """Messages of a queue from one offset up to another, not more than `limit` and none stored from a time on."""
    found: list[ReceivedMessage] = []
    while begin < end and len(found) < limit:
        page, after = await _page(reach, queue, begin, min(PAGE, limit - len(found)), subscription)
        wanted = [m for m in page if m.store_timestamp < end_ms and m.queue_offset < end]
        found += wanted
        if len(wanted) < len(page) or after <= begin:
            break
        begin = after
    return found


async def _page(
    reach: Reach, queue: MessageQueue, offset: int, count: int, subscription: SubscriptionData
) -> tuple[list[ReceivedMessage], int]:
    """Messages from an offset on, and where to continue; not beyond the offset when nothing can follow."""
    request = PullRequest(
        queue=queue,
        offset=offset,
        max_messages=count,
        subscription=subscription,
        version=subscription.sub_version,
        timeout=reach.timeout,
        with_subscription=True,
    )
    with as_client_errors(queue.broker_name):
        result = await Fetcher(reach.instance, TOOLS_CONSUMER_GROUP).fetch(request)
    after = offset if result.status is PullStatus.NO_NEW_MESSAGE else result.next_offset
    return result.messages, after
