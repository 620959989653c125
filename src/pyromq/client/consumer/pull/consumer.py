"""The pull consumer, for asyncio. `pyromq.PullConsumer` is the same one for threads.

The user asks for messages when he wants some; queues are shared out in the group (`subscribe`) or chosen (`assign`).
Below that there is `pull`, one request to one queue, for tools that keep offsets themselves.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from pyromq.client.clock import Clock, within
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.hooks import FilterHook
from pyromq.client.consumer.offsets import NONE_STORED, NOT_READABLE, Read
from pyromq.client.consumer.pull.manual import PlainPulls
from pyromq.client.consumer.pull.prefetch import Lane, Leased, Prefetch
from pyromq.client.consumer.rebalance.lastowner import LastOwners
from pyromq.client.consumer.rebalance.rounds import Rebalance
from pyromq.client.consumer.retry import Retry, restore_topic
from pyromq.client.consumer.running_info import running_info
from pyromq.client.consumer.subscription import build_subscription
from pyromq.client.errors import ClientError, ServiceStateError
from pyromq.client.instance.transport import Transport
from pyromq.client.state import ServiceState
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeResult, ConsumeType
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT = 3.0
PLAIN_BATCH = 32

TopicListener = Callable[[str, set[MessageQueue]], object]
"""Called with a topic and its queues when their set changed."""


class _Mode(Enum):
    NONE = "neither subscribe nor assign was called"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"


class PullConsumer(PlainPulls):
    """Gives messages to whoever asks.

        async with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            async for message in consumer:
                ...

    With `auto_commit` a message counts as done when the next one, or the next `poll`, is asked for. Options are the
    fields of `PullConfig`, given by name or as `config`. Meant for one task at a time.
    """

    consume_type = ConsumeType.CONSUME_ACTIVELY

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PullConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Any,
    ) -> None:
        if namesrv is not None:
            options["namesrv"] = namesrv
        base = PullConfig.build(options) if config is None else config.with_options(**options)
        if base.namespace is None and base.namesrv:
            base = base.with_options(namespace=namespaces.namespace_of_endpoint(base.namesrv) or None)
        super().__init__(group, base, clock, transport)
        self.config = base
        self.filter_hooks: list[FilterHook] = []
        self._mode = _Mode.NONE
        self._assigned: set[MessageQueue] = set()
        self._plain: dict[str, SubscriptionData] = {}
        self._buffer: deque[Leased] = deque()
        self._given: set[Lane] = set()
        self._topic_listeners: dict[str, tuple[TopicListener, set[MessageQueue] | None]] = {}
        self._prefetch: Prefetch | None = None
        self._rebalance: Rebalance | None = None

    # -- choosing queues

    def subscribe(self, topic: str, tags: str | None = None, *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group. Not together with `assign`."""
        self._choose(_Mode.SUBSCRIBE)
        self._subscribe(topic, tags, sql)
        self._announce(self._wire(topic))

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        wire = self._wire(topic)
        self._subscriptions.remove(wire)
        self._announce(wire)

    async def assign(self, queues: Iterable[MessageQueue], tags: str | None = None, *, sql: str | None = None) -> None:
        """Read exactly these queues, whatever the group does; replaces what was assigned before."""
        self._choose(_Mode.ASSIGN)
        wanted = {self._wire_queue(queue) for queue in queues}
        for topic in {queue.topic for queue in wanted}:
            if tags is not None or sql is not None or topic not in self._subscriptions.by_topic:
                self._subscriptions.add(build_subscription(topic, tags, sql, self._now_ms()))
        for topic in self._subscriptions.by_topic.keys() - {queue.topic for queue in wanted}:
            self._subscriptions.remove(topic)
        self._assigned = wanted
        if self.state is ServiceState.RUNNING:
            await self._apply_assigned()

    def assignment(self) -> set[MessageQueue]:
        """The queues that are being read."""
        return {self._user_queue(queue) for queue, lane in self._reading.lanes.items() if not lane.held.leaving}

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRouteError."""
        self._check_running()
        return [self._user_queue(queue) for queue in await self._queues_of(self._wire(topic))]

    def on_queues_changed(self, topic: str, listener: TopicListener) -> None:
        """Be told when a topic gets or loses queues; looked at every `topic_check_interval`."""
        self._topic_listeners[self._wire(topic)] = (listener, None)

    # -- reading

    async def poll(self, timeout: float | None = None, max_messages: int | None = None) -> list[ReceivedMessage]:  # noqa: ASYNC109 - an empty list, not an error
        """Up to `max_messages` (default `pull_batch_size`) messages; none when `timeout` seconds bring none."""
        self._check_running()
        seconds = self.config.poll_timeout if timeout is None else timeout
        if seconds < 0:
            raise ClientError(f"poll timeout {seconds} is below 0")
        self._finish_given()
        self._auto_commit()
        await self._fill(seconds, max_messages or self.config.pull_batch_size)
        messages: list[ReceivedMessage] = []
        while len(messages) < (max_messages or self.config.pull_batch_size):
            message = self._give_next()
            if message is None:
                break
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
        self._finish_given()
        self._auto_commit()
        await self._fill(self.config.poll_timeout, self.config.pull_batch_size)

    def next_buffered(self) -> ReceivedMessage | None:
        """For iteration: a message that waits already; asking for it says that those before it are done.

        It may be called on a thread of the user's, but not while another call of his is under way.
        """
        self._finish_given()
        return self._give_next()

    # -- positions

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset of an assigned queue. Raises ClientError when the queue does not have it."""
        wire = self._reading_queue(queue)
        low, high = await asyncio.gather(self._queries.min_offset(wire), self._queries.max_offset(wire))
        if not low <= offset <= high:
            raise ClientError(f"offset {offset} of {queue} is outside {low}..{high}")
        await self._reading.seek(wire, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message."""
        wire = self._reading_queue(queue)
        await self._reading.seek(wire, await self._queries.min_offset(wire))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what arrives from now on."""
        wire = self._reading_queue(queue)
        await self._reading.seek(wire, await self._queries.max_offset(wire))

    async def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on at the first message stored at or after a time (Unix ms)."""
        wire = self._reading_queue(queue)
        await self._reading.seek(wire, await self._queries.search_offset(wire, timestamp_ms))

    async def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time (Unix ms)."""
        return await self.search_offset(queue, timestamp_ms)

    def position(self, queue: MessageQueue) -> int | None:
        """The offset behind the last message given out; None before the first pull."""
        return self._reading.lane(self._reading_queue(queue)).position

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Read nothing more of these queues for now."""
        for queue in queues:
            self._reading.lanes[self._reading_queue(queue)].paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after `pause`."""
        for queue in queues:
            self._reading.lanes[self._reading_queue(queue)].paused = False
        self._reading.arrived.set()

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None, *, persist: bool = True
    ) -> None:
        """Write how far the user got: the positions of all queues or of some, or given offsets.

        With `persist` it returns after the broker has them; without, they are written within a few seconds.
        """
        self._check_running()
        reading = self._reading
        if isinstance(offsets, Mapping):
            wanted = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        else:
            queues = list(reading.lanes) if offsets is None else [self._wire_queue(queue) for queue in offsets]
            for lane in (reading.lanes[queue] for queue in queues if queue in reading.lanes):
                lane.finish()  # or the next automatic commit would take it back
            wanted = reading.positions(queues, lambda lane: lane.position)
        for queue, offset in wanted.items():
            self._offsets.update(queue, offset)
        if persist:
            await asyncio.gather(*(self._offsets.persist(queue, confirm=True) for queue in wanted))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has for a queue; None when it has none. Raises ClientError."""
        self._check_running()
        offset = await self._offsets.read(self._wire_queue(queue), Read.MEMORY_THEN_STORE)
        if offset == NOT_READABLE:
            raise ClientError(f"the offset of {queue} cannot be read", broker=queue.broker_name, retryable=True)
        return None if offset == NONE_STORED else offset

    # -- what the client instance asks

    def subscribed_topics(self) -> Collection[str]:
        return [*self._subscriptions.by_topic, *(self._plain.keys() - self._subscriptions.by_topic.keys())]

    def heartbeat_data(self) -> ConsumerData:
        data = super().heartbeat_data()
        told = {subscription.topic for subscription in data.subscription_data_set}
        data.subscription_data_set += [plain for topic, plain in self._plain.items() if topic not in told]
        return data

    def wake_rebalance(self) -> None:
        if self._rebalance is not None:
            self._rebalance.wake(at_once=True)

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moved the offsets: go on there."""
        for queue in [queue for queue in self._reading.lanes if queue.topic == topic and queue in offsets]:
            await self._reading.seek(queue, offsets[queue])
            self._offsets.update(queue, offsets[queue])
            await self._offsets.persist(queue, confirm=True)

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        properties = {
            "PROP_NAMESERVER_ADDR": ";".join(self._instance.name_servers.addresses),
            "PROP_CONSUME_TYPE": str(self.consume_type),
        }
        return running_info(
            self.config,
            properties,
            self._subscriptions.by_topic,
            {queue: lane.held for queue, lane in self._reading.lanes.items()},
            self._offsets,
            self._stats,
            jstack=jstack,
        )

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:  # noqa: ARG002 - as a push consumer
        return ConsumeDirectlyResult(
            consume_result=ConsumeResult.CR_THROW_EXCEPTION,
            remark=f"group {self.group} is read by a pull consumer, which has no listener",
        )

    # -- what rebalancing asks

    @property
    def balancing(self) -> bool:
        return self.state is ServiceState.RUNNING and self._mode is _Mode.SUBSCRIBE and self.config.enable_rebalance

    def owned(self, topic: str) -> Collection[MessageQueue]:
        return [queue for queue in self._reading.lanes if queue.topic == topic]

    def owned_topics(self) -> Collection[str]:
        return {queue.topic for queue in self._reading.lanes}

    def stuck(self, topic: str) -> Collection[MessageQueue]:
        return [
            queue
            for queue, lane in self._reading.lanes.items()
            if queue.topic == topic and (lane.held.leaving or lane.held.pull_expired)
        ]

    async def take_over(self, queue: MessageQueue, last_owner: str | None = None) -> bool:
        self._offsets.remove(queue)
        self._reading.add(queue, last_owner=last_owner if self.config.clustering else None)
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        shared = self._mode is _Mode.SUBSCRIBE
        if not await self._reading.leave(queue, self.config.handover_timeout if shared else 0.0):
            return False
        lane = self._reading.lanes[queue]
        if self.config.auto_commit and lane.done is not None:
            self._offsets.update(queue, lane.done)
        # Whoever asks for our queues, as the next owner does, finds it among them until its offset is written.
        await self._offsets.persist(queue, confirm=True)
        await self._reading.remove(queue)
        self._offsets.remove(queue)
        return True

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        log.info("group %s: %d of %d queues of %s are read here", self.group, len(mine), len(queues), topic)
        self._subscriptions.touch(topic, self._instance.clock.millis())
        self._instance.heart.subscriptions_changed()
        await self._instance.send_heartbeats()

    # -- inside

    @property
    def _reading(self) -> Prefetch:
        if self._prefetch is None:
            raise ServiceStateError(f"consumer {self.group!r} is {self.state}: start() it, or use it in a with block")
        return self._prefetch

    def _assemble(self) -> None:
        instance, config = self._instance, self.config
        self._fetcher = Fetcher(instance, self._wire_group, broker_id=config.broker_id)
        self._fetcher.filter_hooks = self.filter_hooks
        self._retry = Retry(
            instance,
            self._wire_group,
            max_reconsume=config.max_reconsume_times,
            timeout=SEND_BACK_TIMEOUT,
            unit_mode=config.unit_mode,
        )
        self._fetcher.damage = self._damage(self._retry)
        self._prefetch = Prefetch(
            config,
            instance.clock,
            self._fetcher,
            self._starts,
            self._subscriptions,
            self._stats,
            LastOwners(instance, self._wire_group, config.handover_timeout),
        )
        self._commit_due = instance.clock.monotonic() + config.auto_commit_interval
        self._rebalance = Rebalance(
            instance,
            self._wire_group,
            config.model,
            config.allocation,
            self._subscriptions,
            self,
            interval=config.rebalance_interval,
            min_interval=config.rebalance_min_interval,
        )

    async def _begin(self) -> None:
        assert self._rebalance is not None  # noqa: S101 - assembled
        await self._learn_routes()
        await self._check_expressions()
        self._schedule.every("topic queues", 10.0, self.config.topic_check_interval, self._check_topics)
        if self._mode is _Mode.ASSIGN:
            await self._apply_assigned()
        sent = await self._instance.send_heartbeats()
        if not sent or not await self._rebalance.round():
            self._rebalance.wake()
        self._rebalance.start()

    async def _stop_work(self, grace: float) -> None:  # noqa: ARG002 - nothing of ours is under way
        if self._rebalance is None or self._prefetch is None:
            return
        await self._schedule.stop()
        await self._rebalance.stop()
        await self._prefetch.close()
        if self.config.auto_commit:
            self._commit_done()

    def _owned_queues(self) -> Collection[MessageQueue]:
        if self._mode is _Mode.NONE:
            return list(self._offsets.table())
        return list(self._reading.lanes)

    def _choose(self, mode: _Mode) -> None:
        if self._mode not in (_Mode.NONE, mode):
            raise ServiceStateError(
                f"consumer {self.group!r} uses {self._mode.value}; {mode.value} cannot be mixed with it"
            )
        self._mode = mode

    async def _apply_assigned(self) -> None:
        lanes = self._reading.lanes
        for queue in lanes.keys() - self._assigned:
            await self.give_up(queue)
        for queue in sorted(self._assigned - lanes.keys()):
            await self.take_over(queue)

    async def _fill(self, seconds: float, count: int) -> None:
        """Get messages into the buffer, waiting for some if need be."""
        self._buffer = deque(leased for leased in self._buffer if leased.valid)
        if self._buffer:
            return
        deadline = self._instance.clock.monotonic() + seconds
        while self.state is ServiceState.RUNNING:
            self._buffer.extend(self._reading.take(count))
            left = deadline - self._instance.clock.monotonic()
            if self._buffer or left <= 0:
                return
            try:
                await within(self._instance.clock, left, self._reading.arrived.wait())
            except TimeoutError:
                return

    def _give_next(self) -> ReceivedMessage | None:
        while self._buffer:
            leased = self._buffer.popleft()
            if leased.valid:
                leased.lane.give(leased.message)
                self._given.add(leased.lane)
                restore_topic(leased.message, self._wire_group, self._namespace)
                return leased.message
        return None

    def _finish_given(self) -> None:
        for lane in self._given:
            lane.finish()
        self._given.clear()

    def _auto_commit(self) -> None:
        now = self._instance.clock.monotonic()
        if self.config.auto_commit and now >= self._commit_due:
            self._commit_due = now + self.config.auto_commit_interval
            self._commit_done()

    def _commit_done(self) -> None:
        for queue, offset in self._reading.positions(list(self._reading.lanes), lambda lane: lane.done).items():
            self._offsets.update(queue, offset)

    def _reading_queue(self, queue: MessageQueue) -> MessageQueue:
        self._check_running()
        wire = self._wire_queue(queue)
        lane = self._reading.lanes.get(wire)
        if lane is None or lane.held.leaving:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return wire

    async def _check_topics(self) -> None:
        for topic, (listener, known) in list(self._topic_listeners.items()):
            try:
                queues = set(await self._queues_of(topic))
            except ClientError as error:
                log.warning("queues of topic %s not learned: %s", topic, error)
                continue
            if queues != known:
                self._topic_listeners[topic] = (listener, queues)
                if known is not None:
                    shown = {self._user_queue(queue) for queue in queues}
                    try:
                        listener(namespaces.unwrap(topic, self._namespace or ""), shown)
                    except Exception:
                        log.exception("a topic listener failed")
