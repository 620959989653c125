"""Concurrent consumption: batches of a queue go to the workers side by side, failed messages go back to the broker.

The offset moves up to the smallest message that is not done. A queue that is given up begins nothing more, and waits a
while for what runs; a result that arrives later counts for nothing: the next owner gets those messages again.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pyromq.client.clock import Clock, within
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, Verdict
from pyromq.client.consumer.push.listenercall import Consuming
from pyromq.client.consumer.push.workers import Workers
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)

EXPIRED_PER_ROUND = 16
EXPIRED_LEVEL = 3
RELEASE_WAIT = 0.5
MAX_DIGITS = 18


@dataclass(slots=True, eq=False)
class _Batch:
    """Messages of one queue on their way through the listener. One for each call, so nothing more is made than this."""

    messages: list[ReceivedMessage]
    context: ConcurrentContext
    queue: MessageQueue
    held: ProcessQueue
    consumption: "ConcurrentConsumption"
    begun: bool = False

    def begin(self) -> bool:
        self.begun = self.consumption.begin(self)
        return self.begun

    def done(self, verdict: Verdict | None, /) -> None:
        if verdict is not None:
            self.consumption.finish(self, verdict)
        elif self.begun:
            self.held.ended()


class ConcurrentConsumption:
    """The way of messages from the process queues through a concurrent listener."""

    orderly = False

    def __init__(
        self, consuming: Consuming, workers: Workers, batch_size: int, clock: Clock, *, handover: float
    ) -> None:
        self._handover = handover
        self._consuming = consuming
        self._workers = workers
        self._batch_size = batch_size
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[Any] = set()
        self._closed = False

    def dispatch(self, queue: MessageQueue, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Hand pulled messages over."""
        size = self._batch_size
        for start in range(0, len(messages), size):
            batch = list(messages[start : start + size])
            context = ConcurrentContext(queue=self._consuming.user_queue(queue))
            self._workers.submit(_Batch(batch, context, queue, held, self))

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Whether the queue can be given up now: nothing of it is being consumed, or it had its time."""
        if not held.dropped:
            held.leave(self._handover)
            try:
                await within(self._clock, RELEASE_WAIT, held.quiet())
            except TimeoutError:
                if not held.overdue:
                    return False
                log.warning("%d calls for %s took too long: their messages come again", held.running, queue)
            held.dropped = True
        return True

    async def settled(self, seconds: float) -> None:
        """Wait until nothing runs and nothing is being sent back, or the time is over."""

        async def all_done() -> None:
            while self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)

        try:
            await within(self._clock, seconds, all_done())
        except TimeoutError:
            log.warning("%d failed batches were not sent back in time", len(self._tasks))

    def stop(self) -> None:
        """Start nothing more."""
        self._closed = True
        self._workers.stop()

    async def close(self, grace: float) -> None:
        """Let what runs finish, within the grace, and its failed messages be sent back."""
        self.stop()
        started = self._clock.monotonic()
        await self._workers.close(grace)
        await self.settled(max(0.0, grace - (self._clock.monotonic() - started)))
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def expire(self, queues: dict[MessageQueue, ProcessQueue]) -> None:
        """Send back what listeners have held for too long, from the oldest on, so that the offset can move."""
        for queue, held in queues.items():
            for _ in range(EXPIRED_PER_ROUND):
                message = held.first
                if held.dropped or message is None or not self._overdue(message):
                    break
                if not await self._consuming.retry.send_back(message, EXPIRED_LEVEL):
                    break
                log.warning("%r was with its listener for too long and was sent back", message)
                if held.first is not message:
                    break
                self._settle(queue, held, [message])

    def begin(self, batch: _Batch) -> bool:
        """Just before the listener gets a batch; False when it must not any more."""
        held = batch.held
        if held.dropped or held.leaving:
            return False
        held.running += 1
        self._consuming.before(batch.queue, batch.messages, batch.context)
        return True

    def finish(self, batch: _Batch, verdict: Verdict) -> None:
        """The listener is back: move the offset, or send back what failed."""
        failed = self._failed(batch, verdict)
        self._consuming.after(batch.queue, batch.messages, batch.context, verdict, failed=len(failed))
        if failed and self._consuming.clustering and not batch.held.dropped:
            self._spawn(self._send_back(batch, failed))
            return
        if batch.held.dropped:
            log.info("result for %d messages of %s ignored: the queue was given up", len(batch.messages), batch.queue)
        elif not failed:
            self._settle(batch.queue, batch.held, batch.messages)
        else:
            log.warning("%d messages of %s failed and are passed over (broadcasting)", len(failed), batch.queue)
            self._settle(batch.queue, batch.held, batch.messages)
        batch.held.ended()

    # -- inside

    def _overdue(self, message: ReceivedMessage) -> bool:
        began = message.properties.get(Property.CONSUME_START_TIME)
        if began is None or not (began.isascii() and began.isdigit()) or len(began) > MAX_DIGITS:
            return False
        return self._clock.millis() - int(began) > self._consuming.timeout * 1000

    def _failed(self, batch: _Batch, verdict: Verdict) -> list[ReceivedMessage]:
        if verdict.outcome is ConsumeOutcome.LATER:
            return batch.messages
        acknowledged = batch.context.acknowledged
        return [] if acknowledged is None else batch.messages[max(0, acknowledged) :]

    async def _send_back(self, batch: _Batch, failed: Sequence[ReceivedMessage]) -> None:
        again: list[ReceivedMessage] = []
        try:
            for message in failed:
                if message.queue_offset not in batch.held:
                    continue
                if not await self._consuming.retry.send_back(message, batch.context.delay_level):
                    message.reconsume_times += 1
                    again.append(message)
            self._settle(batch.queue, batch.held, [message for message in batch.messages if message not in again])
        finally:
            batch.held.ended()
        if again and not self._closed:
            self._later(batch, again)

    def _later(self, batch: _Batch, messages: list[ReceivedMessage]) -> None:
        def resume() -> None:
            self._timers.discard(timer)
            if not batch.held.dropped:
                self.dispatch(batch.queue, batch.held, messages)

        timer = self._clock.call_later(self._consuming.local_retry_delay, resume)
        self._timers.add(timer)

    def _settle(self, queue: MessageQueue, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        offset = held.remove(messages)
        if offset >= 0 and not held.dropped:
            self._consuming.offsets.update(queue, offset, increase_only=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("failed messages could not be dealt with", exc_info=task.exception())
