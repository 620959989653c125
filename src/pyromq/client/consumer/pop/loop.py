"""Pop consumption: the broker hands messages out for a while, and gets an acknowledgement or gives them to others.

A push consumer works this way for topics that the broker assigns to it in POP mode. There is no offset and no order:
messages that fail are hidden for a delay that grows, and what is never acknowledged comes again by itself.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pyromq.client.clock import sleep, within
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.fetch import FLOW_DELAY, PAUSED_DELAY
from pyromq.client.consumer.hooks import ConsumeHook
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pop.requests import PopFetcher, PopRequest
from pyromq.client.consumer.push.consumption import Consumption, PlainBatch
from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, Verdict
from pyromq.client.consumer.push.workers import Workers
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.clients import PopProcessQueueInfo
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.handles.popped import handle_of
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

ERROR_DELAY = 1.0
GIVE_BACK_DELAY = 1.0

RETRY_STEPS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until a failed message comes again, by how often it failed."""


def retry_delay(reconsume_times: int, delay_level: int) -> int:
    """Seconds; `delay_level` above 0 overrides the count.

    >>> retry_delay(0, 0), retry_delay(2, 0), retry_delay(99, 0), retry_delay(0, 3)
    (10, 60, 7200, 120)
    """
    step = delay_level if delay_level > 0 else reconsume_times
    return RETRY_STEPS[min(step, len(RETRY_STEPS) - 1)]


def last_delay(age: float) -> int | None:
    """For a message that failed too often: the next step above its age, None when it is too old to come again."""
    if age > 2 * RETRY_STEPS[-1]:
        return None
    return next((step for step in RETRY_STEPS if step > age), RETRY_STEPS[-1])


class PoppedQueue:
    """One assignment: a queue, or all queues of a broker."""

    def __init__(self) -> None:
        self.waiting = 0
        """Messages handed out and neither acknowledged nor hidden."""
        self.dropped = False
        self.last_pop_ms = 0
        self.task: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class _Batch(PlainBatch):
    context: ConcurrentContext
    popped: PoppedQueue
    consumption: "PopConsumption"

    def begin(self) -> bool:
        """Not for what the broker gives to others by now."""
        if self.popped.dropped or not self.consumption.in_time(self.messages[0]):
            return False
        self.consumption.before(self)
        return True

    def done(self, verdict: Verdict | None, /) -> None:
        """The listener is back: tell the broker what became of the messages."""
        if verdict is None:
            self.consumption.give_back(self)
            return
        messages, acknowledged = self.messages, self.context.acknowledged
        count = len(messages) if acknowledged is None else max(0, acknowledged)
        done = 0 if verdict.outcome is ConsumeOutcome.LATER else min(count, len(messages))
        self.consumption.after(self, verdict, failed=len(messages) - done)
        self.consumption.answer(self, done)


class PopConsumption(Consumption):
    """The pop loops of one consumer and what becomes of their messages."""

    def __init__(
        self, member: Member[PushConfig], workers: Workers, hooks: list[ConsumeHook], fetcher: PopFetcher
    ) -> None:
        super().__init__(member, workers, hooks)
        self._fetcher = fetcher
        self._subscriptions = member.subscriptions
        self._answers: set[asyncio.Task[None]] = set()
        self.queues: dict[MessageQueue, PoppedQueue] = {}
        self.paused = False

    async def assign(self, topic: str, wanted: Sequence[MessageQueue]) -> bool:
        """Pop exactly these queues of a topic; whether that is a change."""
        known = {queue for queue in self.queues if queue.topic == topic}
        for queue in known - set(wanted):
            await self._drop(queue)
        for queue in sorted(set(wanted) - known):
            popped = self.queues[queue] = PoppedQueue()
            popped.task = asyncio.get_running_loop().create_task(self._run(queue, popped), name=f"pop {queue}")
        return known != set(wanted)

    async def close(self, grace: float) -> None:
        """Let acknowledgements under way finish, and pop nothing more."""
        if self._answers:
            try:
                await within(self._clock, grace, asyncio.gather(*self._answers, return_exceptions=True))
            except TimeoutError:
                log.warning("%d popped batches were not acknowledged in time and come again", len(self._answers))
        for queue in list(self.queues):
            await self._drop(queue)

    def info(self) -> dict[MessageQueue, PopProcessQueueInfo]:
        """For tools."""
        return {
            queue: PopProcessQueueInfo(
                wait_ack_count=popped.waiting, dropped=popped.dropped, last_pop_timestamp=popped.last_pop_ms
            )
            for queue, popped in self.queues.items()
        }

    async def _drop(self, queue: MessageQueue) -> None:
        popped = self.queues.pop(queue)
        popped.dropped = True
        if popped.task is not None:
            popped.task.cancel()
            await asyncio.gather(popped.task, return_exceptions=True)

    async def _run(self, queue: MessageQueue, popped: PoppedQueue) -> None:
        while not popped.dropped:
            popped.last_pop_ms = self._clock.millis()
            delay = self._reason_to_wait(queue, popped)
            if delay is None:
                try:
                    await self._pop(queue, popped)
                    await asyncio.sleep(0)  # the others on this loop get their turn
                    continue
                except PyroMQError as error:
                    log.warning("%s could not be popped: %s", queue, error)
                except Exception:
                    log.exception("popping %s failed", queue)
                delay = ERROR_DELAY
            await sleep(self._clock, delay)

    def _reason_to_wait(self, queue: MessageQueue, popped: PoppedQueue) -> float | None:
        if self.paused or queue.topic not in self._subscriptions.by_topic:
            return PAUSED_DELAY
        return FLOW_DELAY if popped.waiting > self._config.pop_threshold_for_queue else None

    async def _pop(self, queue: MessageQueue, popped: PoppedQueue) -> None:
        first = self._config.consume_from == ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        request = PopRequest(
            queue=queue,
            subscription=self._subscriptions.by_topic[queue.topic],
            max_messages=self._config.pop_batch_size,
            invisible=self._config.pop_invisible_time,
            init_mode=0 if first else 1,
        )
        started = self._clock.monotonic()
        messages = await self._fetcher.pop(request)
        if not messages:
            return
        self._member.stats.pulled(queue.topic, self._clock.monotonic() - started, len(messages))
        popped.waiting += len(messages)
        shown = self._member.user_queue(queue)
        batches = [_Batch(part, ConcurrentContext(queue=shown), queue, popped, self) for part in self._split(messages)]
        self._workers.submit(batches, anywhere=not self._hooks)

    def in_time(self, message: ReceivedMessage) -> bool:
        """Whether it is still hidden from others."""
        return handle_of(message).due > self._clock.millis()

    def answer(self, batch: _Batch, done: int) -> None:
        """Acknowledge the first `done` messages and hide the others, beside everything else."""
        self._spawn(self._answer(batch.popped, batch.messages, done, batch.context.delay_level))

    def give_back(self, batch: _Batch) -> None:
        """The listener did not get them: let others have them soon."""
        self._spawn(self._give_back(batch.popped, batch.messages))

    async def _answer(self, popped: PoppedQueue, batch: list[ReceivedMessage], done: int, delay_level: int) -> None:
        """Acknowledge the first `done` messages and hide the others. What cannot be told comes again by itself."""
        try:
            await self._fetcher.ack_all(batch[:done])
        except PyroMQError as error:
            log.warning("%d messages could not be acknowledged and come again: %s", done, error)
        finally:
            popped.waiting -= done
        for message in batch[done:]:
            try:
                await self._fail(message, delay_level)
            except PyroMQError as error:
                log.warning("%r could not be answered and comes again: %s", message, error)
            finally:
                popped.waiting -= 1

    async def _give_back(self, popped: PoppedQueue, batch: list[ReceivedMessage]) -> None:
        """Others need not wait until the broker takes back by itself what was not begun here."""
        for message in batch:
            try:
                if handle_of(message).due > self._clock.millis() + GIVE_BACK_DELAY * 1000:
                    await self._fetcher.hide(message, GIVE_BACK_DELAY)
            except PyroMQError as error:
                log.info("%r could not be given back and comes again later: %s", message, error)
            finally:
                popped.waiting -= 1

    async def _fail(self, message: ReceivedMessage, delay_level: int) -> None:
        delay: int | None = retry_delay(message.reconsume_times, delay_level)
        if message.reconsume_times >= self._retry.max_reconsume:
            delay = last_delay((self._clock.millis() - message.born_timestamp) / 1000)
        if delay is None:
            log.warning("%r failed too often for too long and is given up", message)
            await self._fetcher.ack(message)
        else:
            await self._fetcher.hide(message, delay)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
