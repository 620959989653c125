"""What both kinds of consumption do around a listener call: topics restored, hooks, start times, statistics."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyromq.client.clock import Clock
from pyromq.client.config import AccessChannel
from pyromq.client.consumer.hooks import ConsumeHook, ConsumeHookContext, return_type, status_name
from pyromq.client.consumer.offsets import OffsetStore
from pyromq.client.consumer.push.listener import (
    ConcurrentContext,
    ConsumeContext,
    ConsumeOutcome,
    Listener,
    OrderlyContext,
    Verdict,
    read_outcome,
)
from pyromq.client.consumer.retry import Retry, restore_topic
from pyromq.client.consumer.stats import ConsumerStats
from pyromq.client.hooks import run_hooks
from pyromq.client.pool import BoundedPool
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property

_RESULTS = {
    ConsumeOutcome.SUCCESS: ConsumeResult.CR_SUCCESS,
    ConsumeOutcome.LATER: ConsumeResult.CR_LATER,
    ConsumeOutcome.COMMIT: ConsumeResult.CR_COMMIT,
    ConsumeOutcome.ROLLBACK: ConsumeResult.CR_ROLLBACK,
}


@dataclass(kw_only=True)
class Consuming:
    """What consumption needs of its consumer. `group` is the name on the wire, `timeout` that of one listener call."""

    group: str
    namespace: str | None
    clustering: bool
    timeout: float
    local_retry_delay: float
    access_channel: AccessChannel
    clock: Clock
    offsets: OffsetStore
    retry: Retry
    stats: ConsumerStats
    hooks: list[ConsumeHook] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hooked: dict[int, ConsumeHookContext] = {}

    def user_queue(self, queue: MessageQueue) -> MessageQueue:
        """The queue with its topic as users know it."""
        if not self.namespace:
            return queue
        return MessageQueue(namespaces.unwrap(queue.topic, self.namespace), queue.broker_name, queue.queue_id)

    def before(self, queue: MessageQueue, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
        """Just before the listener is called."""
        now = str(self.clock.millis())
        for message in messages:
            restore_topic(message, self.group, self.namespace)
            message.properties[Property.CONSUME_START_TIME] = now
        if not self.hooks:
            return
        hooked = ConsumeHookContext(
            group=self.group,
            messages=list(messages),
            queue=self.user_queue(queue),
            namespace=self.namespace,
            access_channel=self.access_channel,
        )
        self._hooked[id(context)] = hooked
        run_hooks(self.hooks, lambda hook: hook.before(hooked), "consume")

    def after(
        self,
        queue: MessageQueue,
        messages: Sequence[ReceivedMessage],
        context: ConsumeContext,
        verdict: Verdict,
        *,
        failed: int,
    ) -> None:
        """When the listener is back."""
        self.stats.consumed(queue.topic, verdict.seconds, len(messages) - failed, failed)
        hooked = self._hooked.pop(id(context), None)
        if hooked is None:
            return
        hooked.status = status_name(verdict.outcome, orderly=isinstance(context, OrderlyContext))
        hooked.success = verdict.outcome in (ConsumeOutcome.SUCCESS, ConsumeOutcome.COMMIT)
        hooked.return_type = return_type(verdict, self.timeout)
        run_hooks(self.hooks, lambda hook: hook.after(hooked), "consume")


async def consume_directly(
    listener: Listener, consuming: Consuming, message: ReceivedMessage, pool: BoundedPool
) -> ConsumeDirectlyResult:
    """Hand one message to the listener, past the queue of those that wait, and tell what it did."""
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    context: ConsumeContext = OrderlyContext(queue=queue) if listener.orderly else ConcurrentContext(queue=queue)
    consuming.before(queue, [message], context)
    started = consuming.clock.monotonic()
    outcome = ConsumeOutcome.LATER
    error: Exception | None = None
    try:
        if listener.is_async:
            returned = await listener.await_call([message], context)
        else:
            returned = await asyncio.wrap_future(pool.submit(lambda: listener.call([message], context)))
        outcome = read_outcome(returned)
    except Exception as raised:  # noqa: BLE001 - it is what the caller wants to know
        error = raised
    seconds = consuming.clock.monotonic() - started
    verdict = Verdict(outcome, error, seconds)
    consuming.after(queue, [message], context, verdict, failed=int(outcome is ConsumeOutcome.LATER))
    return ConsumeDirectlyResult(
        order=listener.orderly,
        auto_commit=context.auto_commit if isinstance(context, OrderlyContext) else True,
        consume_result=ConsumeResult.CR_THROW_EXCEPTION if error is not None else _RESULTS[outcome],
        remark=None if error is None else f"{type(error).__name__}: {error}",
        spent_time_mills=round(seconds * 1000),
    )
