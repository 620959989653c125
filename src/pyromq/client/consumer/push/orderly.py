"""Ordered consumption: one batch of a queue at a time, in the order of offsets, while the broker's lock is held.

A failed batch stops its queue for a while and comes again before anything behind it. Giving a queue up waits for the
batch that runs, writes the offset and only then unlocks, so that the next owner continues exactly behind it.
"""

import asyncio
import logging
from collections.abc import Sequence

from pyromq.client.clock import sleep, within
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import ConsumeHook
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.consumption import Consumption, PlainBatch
from pyromq.client.consumer.push.listener import ConsumeOutcome, OrderlyContext
from pyromq.client.consumer.push.locks import QueueLocks
from pyromq.client.consumer.push.workers import Workers
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

LOCK_AGAIN_AFTER = 0.1
GO_ON_AFTER = 0.010
TRY_LATER_AFTER = 3.0
RELEASE_WAIT = 0.5
MIN_SUSPEND, MAX_SUSPEND = 0.010, 30.0


class _Lane:
    """One queue: its task, the signal that messages arrived, and the lock held while a batch is consumed."""

    def __init__(self, held: ProcessQueue) -> None:
        self.held = held
        self.arrived = asyncio.Event()
        self.busy = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None


class OrderlyConsumption(Consumption):
    """The way of messages from the process queues through an ordered listener."""

    orderly = True

    def __init__(
        self, member: Member[PushConfig], workers: Workers, hooks: list[ConsumeHook], locks: QueueLocks
    ) -> None:
        super().__init__(member, workers, hooks)
        self._locks = locks
        self._lanes: dict[MessageQueue, _Lane] = {}

    def dispatch(self, queue: MessageQueue, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:  # noqa: ARG002 - they are in `held`
        """Messages arrived."""
        lane = self._lanes.get(queue)
        if lane is None or lane.held is not held:
            lane = self._lanes[queue] = _Lane(held)
            lane.task = asyncio.get_running_loop().create_task(self._consume(queue, lane))
        lane.arrived.set()

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Whether the queue can be given up now: nothing of it is being consumed, or its lock is old anyway."""
        held.dropped = True
        lane = self._lanes.get(queue)
        if lane is None or lane.held is not held:
            return True
        try:
            await within(self._clock, RELEASE_WAIT, lane.busy.acquire())
        except TimeoutError:
            held.unlock_attempts += 1
            if held.lock_age <= self._config.unlock_delay:
                return False
        await self._end(queue, lane)
        return True

    async def settled(self, seconds: float) -> None:
        """Wait until no batch runs, or the time is over."""

        async def all_done() -> None:
            for lane in list(self._lanes.values()):
                async with lane.busy:
                    pass

        try:
            await within(self._clock, seconds, all_done())
        except TimeoutError:
            log.warning("ordered batches were still running after %g s", seconds)

    async def close(self, grace: float) -> None:
        """Let the batches that run finish within the grace."""
        started = self._clock.monotonic()
        await self._workers.close(grace)
        # The results of those calls are dealt with by the lanes.
        await self.settled(max(0.0, grace - (self._clock.monotonic() - started)))
        for queue, lane in list(self._lanes.items()):
            await self._end(queue, lane)

    async def expire(self, queues: dict[MessageQueue, ProcessQueue]) -> None:
        """Nothing: an ordered message cannot be overtaken."""

    async def _end(self, queue: MessageQueue, lane: _Lane) -> None:
        self._lanes.pop(queue, None)
        if lane.task is not None:
            lane.task.cancel()
            await asyncio.gather(lane.task, return_exceptions=True)

    async def _consume(self, queue: MessageQueue, lane: _Lane) -> None:
        held = lane.held
        while not held.dropped and not self._closed:
            if self._member.clustering and not held.holds_lock:
                await sleep(self._clock, LOCK_AGAIN_AFTER)
                if await self._locks.lock(queue) and await self._locks.regain(queue, held):
                    await sleep(self._clock, GO_ON_AFTER)
                else:
                    await sleep(self._clock, TRY_LATER_AFTER)
                continue
            if held.first is None:
                lane.arrived.clear()
                await lane.arrived.wait()
                continue
            try:
                async with lane.busy:
                    pause = await self._batch(queue, held)
            except Exception:
                log.exception("ordered consumption of %s failed", queue)
                pause = self._config.suspend_time
            if pause:
                await sleep(self._clock, pause)

    async def _batch(self, queue: MessageQueue, held: ProcessQueue) -> float:
        """Consume one batch; how long the queue pauses after it."""
        messages = held.take(self._batch_size)
        context = OrderlyContext(queue=self._member.user_queue(queue))
        batch = PlainBatch(messages, context, queue)

        def begin() -> bool:
            if held.dropped or (self._member.clustering and not held.holds_lock):
                return False
            self.before(batch)
            return True

        # Cancelled here, they stay in flight: the listener still has them, and the lock is given back later.
        verdict = await self._workers.call(messages, context, begin)
        if verdict is None:
            held.again(messages)
            return 0.0
        failed = len(messages) if verdict.outcome in (ConsumeOutcome.LATER, ConsumeOutcome.ROLLBACK) else 0
        self.after(batch, verdict, failed=failed)
        return await self._settle(queue, held, messages, context, verdict.outcome)

    async def _settle(
        self,
        queue: MessageQueue,
        held: ProcessQueue,
        messages: list[ReceivedMessage],
        context: OrderlyContext,
        outcome: ConsumeOutcome,
    ) -> float:
        pause = self._pause(context)
        if outcome is ConsumeOutcome.LATER:
            retried = await self._to_retry(messages)
            if retried:
                held.again(retried)
                return pause
            if not context.auto_commit:
                return 0.0
        elif not context.auto_commit:
            if outcome is ConsumeOutcome.ROLLBACK:
                held.rollback()
                return pause
            if outcome is ConsumeOutcome.SUCCESS:
                return 0.0
        elif outcome is not ConsumeOutcome.SUCCESS:
            log.warning("%s of %s counts as SUCCESS: auto_commit is on", outcome.value, queue)
        offset = held.commit()
        if offset >= 0:
            # Also for a queue that is being given up: its lock is still ours until the offset is written.
            self._member.offsets.update(queue, offset)
        return 0.0

    async def _to_retry(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Those that come again; the others have failed for the last time and are dead letters now."""
        retried = []
        for message in messages:
            last = message.reconsume_times >= self._retry.max_reconsume
            if last and await self._retry.resend(message):
                continue
            message.reconsume_times += 1
            retried.append(message)
        return retried

    def _pause(self, context: OrderlyContext) -> float:
        seconds = self._config.suspend_time if context.suspend_time is None else context.suspend_time
        return min(max(seconds, MIN_SUSPEND), MAX_SUSPEND)
