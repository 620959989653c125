"""What both kinds of consumption do around a listener call: topics restored, hooks, start times, statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyromq.client.clock import Clock
from pyromq.client.config import AccessChannel
from pyromq.client.consumer.hooks import ConsumeHook, ConsumeHookContext, return_type, status_name
from pyromq.client.consumer.offsets import OffsetStore
from pyromq.client.consumer.push.listener import ConsumeContext, ConsumeOutcome, OrderlyContext, Verdict
from pyromq.client.consumer.push.retry import Retry, restore_topic
from pyromq.client.consumer.stats import ConsumerStats
from pyromq.client.hooks import run_hooks
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property


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
