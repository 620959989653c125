"""The pull loop of a push consumer: one for each queue it owns, for as long as it owns it."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from pyromq.client.clock import sleep
from pyromq.client.consumer.config import PushConfig
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
from pyromq.client.consumer.process_queue import ProcessQueue, QueueLimits
from pyromq.client.consumer.push.concurrent import ConcurrentConsumption
from pyromq.client.consumer.push.orderly import OrderlyConsumption
from pyromq.client.consumer.rebalance.lastowner import LastOwners
from pyromq.errors import PyroMQError
from pyromq.protocol.message import MessageQueue

log = logging.getLogger(__name__)

UNLOCKED_DELAY = 1.0
NO_SUBSCRIPTION_DELAY = 1.0
SUSPEND = 15.0
CALL_TIMEOUT = 30.0
FLOW_LOG_EVERY = 50.0

OffsetMoved = Callable[[MessageQueue, ProcessQueue, int], Awaitable[None]]


class PullLoops:
    """The pull loops of one consumer. `limits` changes when bounds of topics are shared out anew."""

    def __init__(
        self,
        member: Member[PushConfig],
        fetcher: Fetcher,
        consumption: ConcurrentConsumption | OrderlyConsumption,
        offset_moved: OffsetMoved,
    ) -> None:
        self.paused = False
        self.limits: dict[str, QueueLimits] = {}
        self._member = member
        self._config = member.config
        self._usual_limits = member.config.queue_limits
        self._clock = member.clock
        self._fetcher = fetcher
        self._dispatch = consumption.dispatch
        self._orderly = consumption.orderly
        self._offset_moved = offset_moved
        self._last_owners = LastOwners(member)
        self._loops: dict[MessageQueue, asyncio.Task[None]] = {}
        self._flow_log_due = -math.inf

    def start(self, queue: MessageQueue, held: ProcessQueue, offset: int, last_owner: str | None = None) -> None:
        """Begin to pull a queue that was just taken over; `last_owner` is the live member that had it before."""
        self._loops[queue] = asyncio.get_running_loop().create_task(
            self._run(queue, held, offset, last_owner), name=f"pull {queue.topic}/{queue.broker_name}/{queue.queue_id}"
        )

    async def stop(self, queue: MessageQueue) -> None:
        """Pull it no more; a request under way is abandoned."""
        loop = self._loops.pop(queue, None)
        self._fetcher.forget(queue)
        if loop is not None and loop is not asyncio.current_task():
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    async def stop_all(self) -> None:
        loops, self._loops = list(self._loops.values()), {}
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    async def _run(self, queue: MessageQueue, held: ProcessQueue, offset: int, last_owner: str | None) -> None:
        offset = await self._after_last_owner(queue, offset, last_owner)
        while not held.dropped:
            held.pulled()
            if not self.paused and (over := self._excess(queue, held)) is not None:
                self._log_flow(queue, over)
                await held.room(FLOW_DELAY, lambda: self._excess(queue, held) is not None)
                continue
            delay = self._reason_to_wait(queue, held)
            if delay is None:
                try:
                    offset, delay = await self._pull(queue, held, offset)
                except Exception:
                    log.exception("pulling %s failed", queue)
                    delay = self._config.pull_delay_on_error
            if delay:
                await sleep(self._clock, delay)
            elif delay is not None:
                # Pulls that a broker answers at once must not starve everything else on this loop.
                await asyncio.sleep(0)

    async def _after_last_owner(self, queue: MessageQueue, offset: int, last_owner: str | None) -> int:
        """What the last owner finished and wrote while we waited need not be consumed again."""
        if self._config.first_pull_delay:
            await sleep(self._clock, self._config.first_pull_delay)
        if self._orderly or not self._member.clustering:  # with locks nobody begins before another has ended
            return offset
        if last_owner is not None:
            await self._last_owners.let_go(last_owner, queue)
        elif not self._config.first_pull_delay:
            return offset
        return max(offset, await self._member.offsets.read(queue, Read.STORE))

    def _reason_to_wait(self, queue: MessageQueue, held: ProcessQueue) -> float | None:
        if self.paused:
            return PAUSED_DELAY
        if self._orderly and self._member.clustering and not held.holds_lock:
            return UNLOCKED_DELAY
        return NO_SUBSCRIPTION_DELAY if queue.topic not in self._member.subscriptions.by_topic else None

    def _excess(self, queue: MessageQueue, held: ProcessQueue) -> str | None:
        return self.limits.get(queue.topic, self._usual_limits).exceeded(held, ordered=self._orderly)

    def _log_flow(self, queue: MessageQueue, over: str) -> None:
        now = self._clock.monotonic()
        if now >= self._flow_log_due:
            self._flow_log_due = now + FLOW_LOG_EVERY
            log.warning("%s is not pulled for now: %s", queue, over)

    async def _pull(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> tuple[int, float]:
        """One round; the next offset and how long to wait before it."""
        started = self._clock.monotonic()
        try:
            result = await self._fetcher.fetch(self._request(queue, offset))
        except PyroMQError as error:
            return offset, delay_after(error, queue, self._config.pull_delay_on_error)
        if held.dropped:
            return offset, 0.0
        return await self._take(queue, held, result, self._clock.monotonic() - started)

    def _request(self, queue: MessageQueue, offset: int) -> PullRequest:
        config = self._config
        subscription = self._member.subscriptions.by_topic[queue.topic]
        commit = self._member.offsets.known(queue) if self._member.clustering else None
        return PullRequest(
            queue=queue,
            offset=offset,
            max_messages=config.pull_batch_size,
            max_bytes=config.pull_batch_bytes,
            subscription=subscription,
            version=self._member.subscriptions.told_version(queue.topic),
            timeout=CALL_TIMEOUT,
            commit=commit or None,
            suspend=SUSPEND,
            with_subscription=config.post_subscription and not subscription.class_filter_mode,
        )

    async def _take(
        self, queue: MessageQueue, held: ProcessQueue, result: PullResult, seconds: float
    ) -> tuple[int, float]:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("%s has no such offset, continues at %d", queue, result.next_offset)
            held.dropped = True
            await self._offset_moved(queue, held, result.next_offset)
            return result.next_offset, 0.0
        if result.messages:
            self._member.stats.pulled(queue.topic, seconds, len(result.messages))
            held.put(result.messages)
            self._dispatch(queue, held, result.messages)
            return result.next_offset, self._config.pull_interval
        if not len(held):
            self._member.offsets.update(queue, result.next_offset, increase_only=True)
        return result.next_offset, 0.0
