"""The push consumer, for asyncio. `pyromq.PushConsumer` is the same one for threads.

It pulls all the time and hands messages to a listener. Here is what users call; `member.py` does the work.
"""

from typing import Unpack

from pyromq.client.clock import Clock
from pyromq.client.consumer.base import Consumer
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import ConsumeHook, QueueListener
from pyromq.client.consumer.options import PushOptions
from pyromq.client.consumer.push.listener import Listener, Listens
from pyromq.client.consumer.push.member import PushMember
from pyromq.client.consumer.subscription import FilterClass, class_subscription, tag_subscription
from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport
from pyromq.client.state import ServiceState
from pyromq.client.trace.consumption import start_consume_trace
from pyromq.client.trace.dispatcher import TraceDispatcher
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import retry_topic


class PushConsumer(Consumer[PushConfig], Listens):
    """Receives messages of its group's subscriptions and hands them to a listener.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", tags="paid || shipped")

        @consumer.listen
        async def handle(message):
            ...

        async with consumer:
            await stop_signal.wait()

    A coroutine function is awaited on the event loop, a plain function runs on a pool of `consume_thread_max` threads.
    Options are the fields of `PushConfig`, given by name or as `config`.
    """

    _member: PushMember

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PushConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        base = PushConfig.told(config, namesrv, options)
        super().__init__(group, base, clock, transport)
        self._listener: Listener | None = None
        self._trace: TraceDispatcher | None = None

    @property
    def consume_hooks(self) -> list[ConsumeHook]:
        """Run around every call of the listener; append before `start`."""
        return self._hooks.consume

    @property
    def queue_listeners(self) -> list[QueueListener]:
        """Told when the queues of a topic are shared out anew; append before `start`. They must not block."""
        return self._hooks.queues

    def subscribe(
        self,
        topic: str,
        tags: str | None = None,
        *,
        sql: str | None = None,
        filter_class: tuple[str, str] | None = None,
    ) -> None:
        """Receive a topic: all of it, only some tags (`"a || b"`), or what an SQL92 condition on properties matches.

        `filter_class` is the name and the Python source of a class with `match(self, msg, context) -> bool`; it is
        uploaded to the filter servers of the brokers, which must allow that (`clientUploadFilterClassEnable`), and only
        messages for which it says True are sent here.

        All members of a group must subscribe to the same. May be called again to change it, also while running.
        """
        if filter_class is None:
            self._subscribe(topic, tags, sql)
        elif tags is not None or sql is not None:
            raise ClientError(f"topic {topic!r} is subscribed by filter_class, by tags or by sql, by one of them only")
        elif not self.config.client_rebalance:
            raise ClientError("a filter class needs pulls, and with client_rebalance=False the broker may choose pops")
        else:
            self._check_topic(topic)
            uploaded = FilterClass(*filter_class)
            self._subscriptions.add(class_subscription(self._wire(topic), uploaded, self._now_ms()), uploaded)
        self._announce(topic)

    def suspend(self) -> None:
        """Pull nothing more and keep the queues; what was pulled is still consumed."""
        self._check_running()
        self._member.pause(paused=True)

    def resume(self) -> None:
        """Pull again after `suspend`."""
        self._check_running()
        self._member.pause(paused=False)
        self._member.wake_rebalance()

    @property
    def consume_threads(self) -> int:
        """Listener calls at a time."""
        return self._member.workers.limit if self.state is ServiceState.RUNNING else self.config.consume_thread_max

    def set_consume_threads(self, count: int) -> None:
        """Change how many listener calls run at a time, from 1 to 1000."""
        self._check_running()
        if not 1 <= count <= 1000:
            raise ClientError(f"{count} listener calls at a time are outside 1..1000")
        self._member.workers.limit = count

    def assignment(self) -> set[MessageQueue]:
        """The queues of subscribed topics that this consumer has now."""
        if self.state is not ServiceState.RUNNING:
            return set()
        own = retry_topic(self._wire_group)
        return {
            self._member.user_queue(queue)
            for queue, held in self._member.queues.items()
            if not (held.dropped or held.leaving) and queue.topic != own
        }

    def cached(self) -> dict[str, tuple[int, int]]:
        """Messages that are held and not consumed yet, and their bytes, by topic. Any thread may ask."""
        if self.state is not ServiceState.RUNNING:
            return {}
        found: dict[str, tuple[int, int]] = {}
        for queue, held in list(self._member.queues.items()):
            topic = self._member.user_queue(queue).topic
            count, size = found.get(topic, (0, 0))
            found[topic] = (count + len(held), size + held.size)
        return found

    def _check_before_start(self) -> None:
        if self._listener is None:
            raise ClientError(f"consumer {self.group!r} has no listener; set one with consumer.listen(function)")
        if self.config.clustering:
            self._subscriptions.add(tag_subscription(retry_topic(self._wire_group), None, self._now_ms()))

    def _take_listener(self, listener: Listener) -> None:
        if self.state is not ServiceState.CREATE_JUST:
            raise ClientError(f"the listener of consumer {self.group!r} must be set before it is started")
        self._listener = listener

    def _join(self, instance: ClientInstance) -> PushMember:
        assert self._listener is not None  # noqa: S101 - checked before
        return PushMember(instance, self._wire_group, self.config, self._subscriptions, self._listener, self._hooks)

    async def _begin(self) -> None:
        if self.config.enable_trace:
            await self._start_trace()
        await super()._begin()

    async def _start_trace(self) -> None:
        started = await start_consume_trace(
            self.group, self.config, self._instance, clock=self._clock, transport=self._transport
        )
        if started is not None:
            tracer, self._trace = started
            self.consume_hooks.append(tracer)

    async def _stop(self, grace: float) -> None:
        await super()._stop(grace)
        if self._trace is not None:
            await self._trace.close()
