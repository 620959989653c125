"""What all kinds of consumption do around a listener call: topics restored, hooks, start times, statistics."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import ConsumeHook, ConsumeHookContext, ReturnType
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.push.listener import (
    ConcurrentContext,
    ConsumeContext,
    ConsumeOutcome,
    OrderlyContext,
    Verdict,
    read_outcome,
)
from pyromq.client.consumer.push.workers import Workers
from pyromq.client.consumer.retry import restore_topic
from pyromq.client.hooks import run_hooks
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.properties import Property

_RESULTS = {
    ConsumeOutcome.SUCCESS: ConsumeResult.CR_SUCCESS,
    ConsumeOutcome.LATER: ConsumeResult.CR_LATER,
    ConsumeOutcome.COMMIT: ConsumeResult.CR_COMMIT,
    ConsumeOutcome.ROLLBACK: ConsumeResult.CR_ROLLBACK,
}


class Batch(Protocol):
    """Messages of one queue on their way through the listener: one for each call of it."""

    messages: list[ReceivedMessage]
    hooked: ConsumeHookContext | None

    @property
    def context(self) -> ConsumeContext: ...

    @property
    def queue(self) -> MessageQueue: ...


@dataclass(slots=True, eq=False)
class PlainBatch:
    """One that is nothing more."""

    messages: list[ReceivedMessage]
    context: ConsumeContext
    queue: MessageQueue
    hooked: ConsumeHookContext | None = field(default=None, init=False)


class Consumption:
    """Base of concurrent, ordered and pop consumption."""

    def __init__(self, member: Member[PushConfig], workers: Workers, hooks: list[ConsumeHook]) -> None:
        self._member = member
        self._config = member.config
        self._clock = member.clock
        self._retry = member.retry
        self._workers = workers
        self._listener = workers.listener
        self._hooks = hooks
        self._batch_size = member.config.consume_batch_size if workers.listener.batch else 1
        self._closed = False

    def stop(self) -> None:
        """Start nothing more."""
        self._closed = True
        self._workers.stop()

    def before(self, batch: Batch) -> None:
        """Just before the listener is called."""
        member = self._member
        group, namespace = member.group, member.namespace
        now = str(self._clock.millis())
        for message in batch.messages:
            if namespace or message.topic.startswith(RETRY_PREFIX):
                restore_topic(message, group, namespace)
            message.properties[Property.CONSUME_START_TIME] = now
        if not self._hooks:
            return
        hooked = batch.hooked = ConsumeHookContext(
            group=member.group,
            messages=list(batch.messages),
            queue=member.user_queue(batch.queue),
            namespace=member.namespace,
            access_channel=self._config.access_channel,
        )
        run_hooks(self._hooks, lambda hook: hook.before(hooked), "consume")

    def after(self, batch: Batch, verdict: Verdict, *, failed: int) -> None:
        """When the listener is back."""
        self._member.stats.consumed(batch.queue.topic, verdict.seconds, len(batch.messages) - failed, failed)
        hooked = batch.hooked
        if hooked is None:
            return
        hooked.status = status_name(verdict.outcome, orderly=isinstance(batch.context, OrderlyContext))
        hooked.success = verdict.outcome in (ConsumeOutcome.SUCCESS, ConsumeOutcome.COMMIT)
        hooked.return_type = return_type(verdict, self._config.consume_timeout)
        run_hooks(self._hooks, lambda hook: hook.after(hooked), "consume")

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """Hand one message to the listener, past the queue of those that wait, and tell what it did."""
        listener = self._listener
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        context: ConsumeContext = OrderlyContext(queue=queue) if listener.orderly else ConcurrentContext(queue=queue)
        batch = PlainBatch([message], context, queue)
        self.before(batch)
        started = self._clock.monotonic()
        outcome = ConsumeOutcome.LATER
        error: Exception | None = None
        try:
            if listener.is_async:
                returned = await listener.call(batch)
            else:
                pool = self._member.instance.callbacks
                returned = await asyncio.wrap_future(pool.submit(lambda: listener.call(batch)))
            outcome = read_outcome(returned)
        except Exception as raised:  # noqa: BLE001 - it is what the caller wants to know
            error = raised
        seconds = self._clock.monotonic() - started
        self.after(batch, Verdict(outcome, error, seconds), failed=int(outcome is ConsumeOutcome.LATER))
        return ConsumeDirectlyResult(
            order=listener.orderly,
            auto_commit=context.auto_commit if isinstance(context, OrderlyContext) else True,
            consume_result=ConsumeResult.CR_THROW_EXCEPTION if error is not None else _RESULTS[outcome],
            remark=None if error is None else f"{type(error).__name__}: {error}",
            spent_time_mills=round(seconds * 1000),
        )

    def _split(self, messages: Sequence[ReceivedMessage]) -> list[list[ReceivedMessage]]:
        """As many as one call of the listener gets."""
        size = self._batch_size
        if size == 1:
            return [[message] for message in messages]
        return [list(messages[start : start + size]) for start in range(0, len(messages), size)]


def return_type(verdict: Verdict, timeout: float) -> ReturnType:
    """As RocketMQ names it: raising beats the time-out, the time-out beats the outcome."""
    if verdict.error is not None:
        return ReturnType.EXCEPTION
    if verdict.seconds >= timeout:
        return ReturnType.TIME_OUT
    return ReturnType.FAILED if verdict.outcome is ConsumeOutcome.LATER else ReturnType.SUCCESS


def status_name(outcome: ConsumeOutcome, *, orderly: bool) -> str:
    """The name that hooks of other clients know."""
    if orderly:
        return "SUSPEND_CURRENT_QUEUE_A_MOMENT" if outcome is ConsumeOutcome.LATER else outcome.value
    return "RECONSUME_LATER" if outcome is ConsumeOutcome.LATER else "CONSUME_SUCCESS"
