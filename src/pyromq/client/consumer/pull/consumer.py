"""The pull consumer, for asyncio. `pyromq.PullConsumer` is the same one for threads.

The user asks for messages when he wants some; queues are shared out in the group (`subscribe`) or chosen (`assign`).
Below that there is `manual`, single requests to one queue, for tools that keep offsets themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Unpack

from pyromq.client.clock import Clock
from pyromq.client.consumer.base import Consumer
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.options import PullOptions
from pyromq.client.consumer.pull.manual import ManualPulls
from pyromq.client.consumer.pull.member import PullMember
from pyromq.client.consumer.pull.prefetch import Prefetch
from pyromq.client.consumer.pull.selection import Mode, Selection
from pyromq.client.consumer.pull.watch import QueueWatch, TopicListener
from pyromq.client.consumer.subscription import build_subscription
from pyromq.client.errors import ClientError, ServiceStateError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport
from pyromq.client.state import ServiceState
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from pyromq.client.consumer.scan.scan import Scan, ScanOptions


class PullConsumer(Consumer[PullConfig]):
    """Gives messages to whoever asks.

        async with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            async for message in consumer:
                ...

    With `auto_commit` a message counts as done when the next one, or the next `poll`, is asked for. Options are the
    fields of `PullConfig`, given by name or as `config`. Meant for one task at a time.
    """

    _member: PullMember

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PullConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        base = PullConfig.told(config, namesrv, options)
        super().__init__(group, base, clock, transport)
        self._selection = Selection(group)
        self._watch = QueueWatch()

    def subscribe(self, topic: str, tags: str | None = None, *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group. Not together with `assign`."""
        self._selection.choose(Mode.SUBSCRIBE)
        self._subscribe(topic, tags, sql)
        self._announce(topic)

    async def assign(self, queues: Iterable[MessageQueue], tags: str | None = None, *, sql: str | None = None) -> None:
        """Read exactly these queues, whatever the group does; replaces what was assigned before."""
        self._selection.choose(Mode.ASSIGN)
        wanted = {namespaces.wrap_queue(self._namespace, queue) for queue in queues}
        topics = {queue.topic for queue in wanted}
        for topic in topics:
            if tags is not None or sql is not None or topic not in self._subscriptions.by_topic:
                self._subscriptions.add(build_subscription(topic, tags, sql, self._now_ms()))
        for topic in self._subscriptions.by_topic.keys() - topics:
            self._subscriptions.remove(topic)
        self._selection.assigned = wanted
        if self.state is ServiceState.RUNNING:
            await self._member.ownership.apply_assigned()

    def assignment(self) -> set[MessageQueue]:
        """The queues that are being read."""
        lanes = self._prefetch.lanes
        return {self._member.user_queue(queue) for queue, lane in lanes.items() if not lane.held.leaving}

    def on_queues_changed(self, topic: str, listener: TopicListener) -> None:
        """Be told when a topic gets or loses queues; looked at every `topic_check_interval`."""
        self._watch.add(self._wire(topic), listener)

    async def poll(self, timeout: float | None = None, max_messages: int | None = None) -> list[ReceivedMessage]:  # noqa: ASYNC109 - an empty list, not an error
        """Up to `max_messages` (default `pull_batch_size`) messages; none when `timeout` seconds bring none."""
        self._check_running()
        seconds = self.config.poll_timeout if timeout is None else timeout
        if seconds < 0:
            raise ClientError(f"poll timeout {seconds} is below 0")
        count = max_messages or self.config.pull_batch_size
        inbox = self._member.inbox
        await inbox.fill(seconds, count)
        messages: list[ReceivedMessage] = []
        while len(messages) < count and (message := inbox.give()) is not None:
            messages.append(message)
        return messages

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message, whenever it comes; ends when the consumer is closed."""
        while self.state is ServiceState.RUNNING:
            if (message := self.next_buffered()) is not None:
                return message
            await self.refill()
        if self.state is ServiceState.CREATE_JUST:
            self._check_running()
        raise StopAsyncIteration

    async def refill(self) -> None:
        """For iteration: wait a while for messages, and commit what is due."""
        await self._member.inbox.fill(self.config.poll_timeout, self.config.pull_batch_size)

    def next_buffered(self) -> ReceivedMessage | None:
        """For iteration: a message that waits already; asking for it says that those before it are done.

        It may be called on a thread of the user's, but not while another call of his is under way.
        """
        inbox = self._member.inbox
        inbox.finish()
        return inbox.give()

    def arrow(self, topic: str, **options: Unpack["ScanOptions"]) -> "Scan":
        """What a topic holds now as `pyarrow.RecordBatch`es: an asynchronous iterator, with `schema` and `read_all()`.

            async for batch in consumer.arrow("orders", columns=["keys", "body"], start=datetime(2026, 1, 31)):
                ...

        It joins nothing and commits nothing, and needs neither `subscribe` nor `assign`. `queues` are all of the topic
        unless given; `start` and `end` (exclusive) are times, or offsets by queue; `tags` or `sql` filter at brokers.
        With `body_schema`, a `pyarrow.Schema`, the fields of JSON bodies are columns, and `bad_records` (`fail`,
        `drop`, `null`, `keep`) says what happens to bodies that do not fit; `corrupt_records` (`fail`, `skip`, `keep`)
        the same of damaged records. Raises ClientError, also when pyarrow is not installed.
        """
        self._check_running()
        from pyromq.client.consumer.scan.scan import Scan  # noqa: PLC0415 - needs pyarrow, which few have

        return Scan(self._member, self._member.fetcher, topic, options)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset of an assigned queue. Raises ClientError when the queue does not have it."""
        wire, queries = self._assigned(queue), self._member.queries
        low, high = await asyncio.gather(queries.min_offset(wire), queries.max_offset(wire))
        if not low <= offset <= high:
            raise ClientError(f"offset {offset} of {queue} is outside {low}..{high}")
        await self._prefetch.seek(wire, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message."""
        wire = self._assigned(queue)
        await self._prefetch.seek(wire, await self._member.queries.min_offset(wire))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with what arrives from now on."""
        wire = self._assigned(queue)
        await self._prefetch.seek(wire, await self._member.queries.max_offset(wire))

    async def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Continue at the first message stored at or after a time (Unix ms)."""
        wire = self._assigned(queue)
        await self._prefetch.seek(wire, await self._member.queries.search_offset(wire, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset behind the last message given out; None before the first pull."""
        return self._prefetch.lane(self._assigned(queue)).position

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Read nothing more of these queues for now."""
        for queue in queues:
            self._prefetch.lanes[self._assigned(queue)].paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues again after `pause`."""
        for queue in queues:
            self._prefetch.lanes[self._assigned(queue)].paused = False
        self._prefetch.arrived.set()

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None, *, persist: bool = True
    ) -> None:
        """Write how far the user got: the positions of all queues or of some, or given offsets.

        With `persist` it returns after the broker has them; without, they are written within a few seconds.
        """
        self._check_running()
        member, lanes = self._member, self._prefetch.lanes
        if isinstance(offsets, Mapping):
            wanted = {member.wire_queue(queue): offset for queue, offset in offsets.items()}
        else:
            queues = list(lanes) if offsets is None else [member.wire_queue(queue) for queue in offsets]
            for lane in (lanes[queue] for queue in queues if queue in lanes):
                lane.finish()  # or the next automatic commit would take it back
            wanted = self._prefetch.positions(queues, lambda lane: lane.position)
        for queue, offset in wanted.items():
            member.offsets.update(queue, offset)
        if persist:
            await asyncio.gather(*(member.offsets.persist(queue, confirm=True) for queue in wanted))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has for a queue; None when it has none. Raises ClientError."""
        return await self.manual.fetch_offset(queue)

    @property
    def manual(self) -> ManualPulls:
        """Single pulls, and offsets kept by hand. Raises ServiceStateError unless the consumer runs."""
        self._check_running()
        return self._member.manual

    @property
    def _prefetch(self) -> Prefetch:
        if self.state in (ServiceState.CREATE_JUST, ServiceState.START_FAILED):
            raise ServiceStateError(f"consumer {self.group!r} is {self.state}: start() it, or use it in a with block")
        return self._member.prefetch

    def _join(self, instance: ClientInstance) -> PullMember:
        return PullMember(instance, self._wire_group, self.config, self._subscriptions, self._selection, self._hooks)

    async def _begin(self) -> None:
        member, interval = self._member, self.config.topic_check_interval
        member.schedule.every("topic queues", 10.0, interval, lambda: self._watch.check(member))
        await super()._begin()

    def _assigned(self, queue: MessageQueue) -> MessageQueue:
        """The queue as brokers know it. Raises ClientError when it is not assigned, or is being given up."""
        self._check_running()
        wire = self._member.wire_queue(queue)
        lane = self._prefetch.lanes.get(wire)
        if lane is None or lane.held.leaving:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return wire
