"""Concurrent consumption: batches of a queue go to the workers side by side, failed messages go back to the broker.

The offset moves up to the smallest message that is not done. A queue that is given up begins nothing more, and waits a
while for what runs; a result that arrives later counts for nothing: the next owner gets those messages again.
"""

import asyncio
import logging
from collections.abc import Sequence

from pyromq.client.clock import Timer, within
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import ConsumeHook
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.consumer.push.consumption import Batch, Consumption
from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, Verdict
from pyromq.client.consumer.push.workers import Workers
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)

EXPIRED_PER_ROUND = 16
EXPIRED_LEVEL = 3
RELEASE_WAIT = 0.5
MAX_DIGITS = 18


class _Lane:
    """Messages of a queue that were pulled together, and those of them that were consumed since the last look."""

    __slots__ = ("calls", "consumed", "consumption", "held", "queue", "seconds")

    def __init__(self, queue: MessageQueue, held: ProcessQueue, consumption: "ConcurrentConsumption") -> None:
        self.queue = queue
        self.held = held
        self.consumption = consumption
        self.consumed: list[ReceivedMessage] = []
        self.calls = 0
        self.seconds = 0.0


class _Batch(Batch):
    """One for each call, so nothing more is made than this, and a context only for a listener that looks at it."""

    __slots__ = ("_context", "begun", "lane")

    def __init__(self, messages: list[ReceivedMessage], lane: _Lane) -> None:
        self.messages = messages
        self.lane = lane
        self.hooked = None
        self.begun = False
        self._context: ConcurrentContext | None = None

    @property
    def queue(self) -> MessageQueue:
        return self.lane.queue

    @property
    def held(self) -> ProcessQueue:
        return self.lane.held

    @property
    def context(self) -> ConcurrentContext:
        if self._context is None:
            self._context = ConcurrentContext(queue=self.lane.consumption.shown(self.lane.queue))
        return self._context

    def begin(self) -> bool:
        """Just before the listener gets it; False when it must not any more."""
        held = self.lane.held
        if held.dropped or held.leaving:
            return False
        held.begun += 1
        self.begun = True
        self.lane.consumption.before(self)
        return True

    def done(self, verdict: Verdict | None, /) -> None:
        """The listener is back: move the offset, or send back what failed."""
        held, consumption = self.lane.held, self.lane.consumption
        if verdict is None:
            if self.begun:
                held.ended()
            return
        acknowledged = None if self._context is None else self._context.acknowledged
        if verdict.outcome is not ConsumeOutcome.LATER and acknowledged is None and self.hooked is None:
            consumption.consumed(self.lane, self.messages, verdict.seconds)
            return
        failed: list[ReceivedMessage] = []
        if verdict.outcome is ConsumeOutcome.LATER:
            failed = self.messages
        elif acknowledged is not None:
            failed = self.messages[max(0, acknowledged) :]
        consumption.after(self, verdict, failed=len(failed))
        if held.dropped:
            log.info("result for %d messages of %s ignored: the queue was given up", len(self.messages), self.queue)
        elif failed and consumption.send_back(self, failed):
            return
        else:
            consumption.settle(self.queue, held, self.messages)
        held.ended()


class ConcurrentConsumption(Consumption):
    """The way of messages from the process queues through a concurrent listener."""

    orderly = False

    def __init__(self, member: Member[PushConfig], workers: Workers, hooks: list[ConsumeHook]) -> None:
        super().__init__(member, workers, hooks)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[Timer] = set()
        self._lanes: list[_Lane] = []
        """Those with consumed messages that are not settled yet."""

    def dispatch(self, queue: MessageQueue, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Hand pulled messages over."""
        lane = _Lane(queue, held, self)
        self._workers.submit([_Batch(part, lane) for part in self._split(messages)], anywhere=not self._hooks)

    def shown(self, queue: MessageQueue) -> MessageQueue:
        """As users know it."""
        return self._member.user_queue(queue)

    def consumed(self, lane: _Lane, messages: list[ReceivedMessage], seconds: float) -> None:
        """A call went well: settle it with all others of this turn of the event loop."""
        if not lane.calls:
            if not self._lanes:
                asyncio.get_running_loop().call_soon(self._settle_lanes)
            self._lanes.append(lane)
        lane.consumed += messages
        lane.calls += 1
        lane.seconds += seconds

    def _settle_lanes(self) -> None:
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            messages, calls, seconds = lane.consumed, lane.calls, lane.seconds
            lane.consumed, lane.calls, lane.seconds = [], 0, 0.0
            self._member.stats.consumed(lane.queue.topic, seconds, len(messages), 0, calls)
            if lane.held.dropped:
                log.info("result for %d messages of %s ignored: the queue was given up", len(messages), lane.queue)
            else:
                self.settle(lane.queue, lane.held, messages)
            lane.held.ended(calls)

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Whether the queue can be given up now: nothing of it is being consumed, or it had its time."""
        if not held.dropped:
            with self._workers.taking:  # so that no thread is just about to begin one
                held.leave(self._config.handover_timeout)
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
        self._settle_lanes()

        async def all_done() -> None:
            while self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)

        try:
            await within(self._clock, seconds, all_done())
        except TimeoutError:
            log.warning("%d failed batches were not sent back in time", len(self._tasks))

    async def close(self, grace: float) -> None:
        """Let what runs finish, within the grace, and its failed messages be sent back."""
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
        self._settle_lanes()
        for queue, held in queues.items():
            for _ in range(EXPIRED_PER_ROUND):
                message = held.first
                if held.dropped or message is None or not self._overdue(message):
                    break
                if not await self._retry.send_back(message, EXPIRED_LEVEL):
                    break
                log.warning("%r was with its listener for too long and was sent back", message)
                if held.first is not message:
                    break
                self.settle(queue, held, [message])

    def send_back(self, batch: _Batch, failed: Sequence[ReceivedMessage]) -> bool:
        """Begin to have messages delivered again; False in broadcasting, where nobody takes them back."""
        if not self._member.clustering:
            log.warning("%d messages of %s failed and are passed over (broadcasting)", len(failed), batch.queue)
            return False
        task = asyncio.get_running_loop().create_task(self._send_back(batch, failed))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return True

    def settle(self, queue: MessageQueue, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """They are dealt with: the offset moves up to the smallest that is not."""
        offset = held.remove(messages)
        if offset >= 0 and not held.dropped:
            self._member.offsets.update(queue, offset, increase_only=True)

    def _overdue(self, message: ReceivedMessage) -> bool:
        began = message.properties.get(Property.CONSUME_START_TIME)
        if began is None or not (began.isascii() and began.isdigit()) or len(began) > MAX_DIGITS:
            return False
        return self._clock.millis() - int(began) > self._config.consume_timeout * 1000

    async def _send_back(self, batch: _Batch, failed: Sequence[ReceivedMessage]) -> None:
        again: list[ReceivedMessage] = []
        try:
            for message in failed:
                if message.queue_offset not in batch.held:
                    continue
                if not await self._retry.send_back(message, batch.context.delay_level):
                    message.reconsume_times += 1
                    again.append(message)
            self.settle(batch.queue, batch.held, [message for message in batch.messages if message not in again])
        finally:
            batch.held.ended()
        if again and not self._closed:
            self._later(batch, again)

    def _later(self, batch: _Batch, messages: list[ReceivedMessage]) -> None:
        def resume() -> None:
            self._timers.discard(timer)
            if not batch.held.dropped:
                self.dispatch(batch.queue, batch.held, messages)

        timer = self._clock.call_later(self._config.local_retry_delay, resume)
        self._timers.add(timer)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("failed messages could not be dealt with", exc_info=task.exception())
