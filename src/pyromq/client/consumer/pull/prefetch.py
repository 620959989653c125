"""Reading ahead for a pull consumer: a task per queue fills a cache, `take` empties it.

Three offsets of a queue matter: where to pull next, the *position* behind the last message the user was given, and the
part of it that is *done*, because the user came back for more. Only the position (when the user commits) or the done
part (automatic commits) is ever written, so what was read ahead or given out but not finished is never skipped.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection

from pyromq.client.clock import sleep
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.fetch import (
    FLOW_DELAY,
    PAUSED_DELAY,
    Fetcher,
    PullRequest,
    PullResult,
    PullStatus,
    delay_after,
)
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.offsets import Read
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.rebalance.lastowner import LastOwners
from pyromq.client.consumer.subscription import is_tag_filter, tag_subscription
from pyromq.client.errors import ClientError
from pyromq.errors import PyroMQError
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

NO_START_DELAY = 3.0


class Lane:
    """One assigned queue."""

    def __init__(self, queue: MessageQueue, held: ProcessQueue) -> None:
        self.queue = queue
        self.held = held
        self.cache: deque[ReceivedMessage] = deque()
        self.paused = False
        self.next_offset: int | None = None
        self.position: int | None = None
        self.done: int | None = None
        self.leased_to: int | None = None
        """Behind the last message that left the cache, whether the user has it yet or not."""
        self.epoch = 0
        self.last_owner: str | None = None
        """The live member that had the queue before and may still work on it."""
        self.task: asyncio.Task[None] | None = None

    def begin_at(self, offset: int) -> None:
        self.next_offset = self.position = self.done = self.leased_to = offset

    def give(self, message: ReceivedMessage) -> None:
        """The user has it now. Plain assignment: a thread of the user's may call it."""
        self.position = message.queue_offset + 1

    @property
    def finished(self) -> bool:
        """Whether the user is done with all that he was given."""
        return self.done == self.position

    def finish(self) -> None:
        """The user came back: what he was given is done."""
        self.done = self.position

    def skip_to(self, offset: int) -> None:
        """Nothing that matches lies before `offset`."""
        if self.cache or self.position != self.leased_to:
            return
        if self.done == self.position:
            self.done = offset
        self.position = self.leased_to = offset


class Leased:
    """A message that left the cache, valid as long as its queue was neither given up nor moved."""

    __slots__ = ("_epoch", "lane", "message")

    def __init__(self, lane: Lane, message: ReceivedMessage) -> None:
        self.lane = lane
        self.message = message
        self._epoch = lane.epoch

    @property
    def valid(self) -> bool:
        return not self.lane.held.dropped and self.lane.epoch == self._epoch


class Prefetch:
    """The lanes of one consumer."""

    def __init__(self, member: Member[PullConfig], fetcher: Fetcher) -> None:
        self._config = member.config
        self._limits = member.config.queue_limits
        self._clock = member.clock
        self._fetcher = fetcher
        self._starts = member.starts
        self._subscriptions = member.subscriptions
        self._stats = member.stats
        self._last_owners = LastOwners(member)
        self.lanes: dict[MessageQueue, Lane] = {}
        self.arrived = asyncio.Event()
        self._cached = 0
        self._turn = itertools.count()

    def add(self, queue: MessageQueue, last_owner: str | None = None) -> None:
        lane = self.lanes[queue] = Lane(queue, ProcessQueue(self._clock, pull_max_idle=self._config.pull_max_idle))
        lane.last_owner = last_owner
        self._start(lane)

    async def leave(self, queue: MessageQueue, patience: float) -> bool:
        """Read no more of a queue; whether its user is done with what he was given, or had so many seconds for it."""
        lane = self.lanes[queue]
        if not lane.held.leaving:
            lane.held.leave(patience)
            lane.epoch += 1  # what he was not given yet is left to the next owner
            await self._stop(lane)
            self._clear(lane)
        return lane.finished or lane.held.overdue

    async def remove(self, queue: MessageQueue) -> None:
        """Stop reading a queue."""
        lane = self.lanes.pop(queue)
        lane.held.dropped = True
        await self._stop(lane)
        self._clear(lane)
        self._fetcher.forget(queue)

    def lane(self, queue: MessageQueue) -> Lane:
        """Raises ClientError for a queue that is not assigned, or was taken away meanwhile."""
        lane = self.lanes.get(queue)
        if lane is None:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return lane

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue elsewhere; what was read ahead is forgotten."""
        lane = self.lane(queue)
        lane.epoch += 1
        await self._stop(lane)
        self._clear(lane)
        lane.begin_at(offset)
        lane.last_owner = None
        if self.lanes.get(queue) is lane and not lane.held.leaving:
            self._start(lane)

    async def close(self) -> None:
        for lane in self.lanes.values():
            lane.epoch += 1
            await self._stop(lane)
        self.arrived.set()

    def take(self, count: int) -> list[Leased]:
        """Up to `count` messages, as many as possible of one queue; another queue is first in line every time."""
        ready = [lane for lane in self.lanes.values() if lane.cache and not lane.paused]
        taken: list[Leased] = []
        if ready:
            first = next(self._turn) % len(ready)
            for lane in ready[first:] + ready[:first]:
                part = [lane.cache.popleft() for _ in range(min(count - len(taken), len(lane.cache)))]
                if not part:
                    break
                self._cached -= len(part)
                lane.held.remove(part)
                lane.leased_to = part[-1].queue_offset + 1
                taken += [Leased(lane, message) for message in part]
        if not taken:
            self.arrived.clear()
        return taken

    def positions(self, queues: Collection[MessageQueue], of: Callable[[Lane], int | None]) -> dict[MessageQueue, int]:
        """Offsets of some queues, as far as they are known."""
        return {
            queue: offset
            for queue in queues
            if (lane := self.lanes.get(queue)) is not None and (offset := of(lane)) is not None
        }

    def _start(self, lane: Lane) -> None:
        lane.task = asyncio.get_running_loop().create_task(self._run(lane), name=f"prefetch {lane.queue}")

    async def _stop(self, lane: Lane) -> None:
        task, lane.task = lane.task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _clear(self, lane: Lane) -> None:
        self._cached -= len(lane.cache)
        lane.cache.clear()
        lane.held.clear()

    async def _run(self, lane: Lane) -> None:
        if lane.last_owner is not None:
            await self._last_owners.let_go(lane.last_owner, lane.queue)
            lane.last_owner = None
        while not lane.held.dropped:
            lane.held.pulled()
            if not lane.paused and self._is_full(lane):
                await lane.held.room(FLOW_DELAY, lambda: self._is_full(lane))
                continue
            delay = PAUSED_DELAY if lane.paused else None
            if delay is None:
                try:
                    delay = await self._pull(lane)
                except Exception:
                    log.exception("pulling %s failed", lane.queue)
                    delay = self._config.pull_delay_on_error
            if delay:
                await sleep(self._clock, delay)
            else:
                await asyncio.sleep(0)  # the others on this loop get their turn

    def _is_full(self, lane: Lane) -> bool:
        return self._cached > self._config.pull_threshold_for_all or self._limits.exceeded(lane.held) is not None

    async def _pull(self, lane: Lane) -> float:
        """One round; how long to wait before the next."""
        if lane.next_offset is None:
            try:
                lane.begin_at(await self._starts.find(lane.queue, Read.MEMORY_THEN_STORE))
            except PyroMQError as error:
                log.warning("%s has no place to begin yet: %s", lane.queue, error)
                return NO_START_DELAY
        started = self._clock.monotonic()
        try:
            result = await self._fetcher.fetch(self._request(lane))
        except PyroMQError as error:
            return delay_after(error, lane.queue, self._config.pull_delay_on_error)
        self._take_in(lane, result, self._clock.monotonic() - started)
        return 0.0

    def _request(self, lane: Lane) -> PullRequest:
        config = self._config
        queue = lane.queue
        subscription = self._subscriptions.by_topic.get(queue.topic) or tag_subscription(queue.topic, None, 0)
        if lane.next_offset is None:
            raise ClientError(f"{queue} has no position yet", retryable=True)
        return PullRequest(
            queue=queue,
            offset=lane.next_offset,
            max_messages=config.pull_batch_size,
            subscription=subscription,
            version=0 if is_tag_filter(subscription) else subscription.sub_version,
            timeout=config.suspend_call_timeout,
            suspend=config.suspend_timeout,
            with_subscription=True,
            lite=True,
        )

    def _take_in(self, lane: Lane, result: PullResult, seconds: float) -> None:
        if lane.held.dropped:
            return
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("%s has no offset %s, continues at %d", lane.queue, lane.next_offset, result.next_offset)
        lane.next_offset = result.next_offset
        if result.messages:
            self._stats.pulled(lane.queue.topic, seconds, len(result.messages))
            lane.held.put(result.messages)
            lane.cache.extend(result.messages)
            self._cached += len(result.messages)
            self.arrived.set()
        else:
            lane.skip_to(result.next_offset)
