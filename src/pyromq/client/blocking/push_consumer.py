"""The push consumer for threads. Every method is that of the asyncio one, with a wait around it."""

from typing import Unpack

from pyromq.client.blocking.client import on_loop
from pyromq.client.blocking.consumer import BlockingConsumer
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.hooks import ConsumeHook, QueueListener
from pyromq.client.consumer.options import PushOptions
from pyromq.client.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from pyromq.client.consumer.push.listener import Listener, Listens


class PushConsumer(BlockingConsumer[AsyncPushConsumer], Listens):
    """Receives messages of its group's subscriptions and hands them to a listener, on threads of its own.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", tags="paid || shipped")

        @consumer.listen
        def handle(message):
            ...

        with consumer:
            input("Enter ends it")

    Options are the fields of `PushConfig`, given by name or as `config`. After a fork, make a new one in the child.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PushConfig | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        super().__init__(AsyncPushConsumer(group, namesrv=namesrv, config=config, **options))

    @property
    def config(self) -> PushConfig:
        return self._client.config

    @property
    def consume_hooks(self) -> list[ConsumeHook]:
        """Append hooks before `start`."""
        return self._client.consume_hooks

    def cached(self) -> dict[str, tuple[int, int]]:
        """Messages that are held and not consumed yet, and their bytes, by topic."""
        return self._client.cached()

    @property
    def queue_listeners(self) -> list[QueueListener]:
        """Append functions before `start`; they run on the background loop and must not block."""
        return self._client.queue_listeners

    def _take_listener(self, listener: Listener) -> None:
        self._client._take_listener(listener)

    subscribe = on_loop(AsyncPushConsumer.subscribe)
    unsubscribe = on_loop(AsyncPushConsumer.unsubscribe)
    suspend = on_loop(AsyncPushConsumer.suspend)
    resume = on_loop(AsyncPushConsumer.resume)
    set_consume_threads = on_loop(AsyncPushConsumer.set_consume_threads)
    assignment = on_loop(AsyncPushConsumer.assignment)

    @property
    def consume_threads(self) -> int:
        """Listener calls at a time."""
        return self._on_loop(lambda: self._client.consume_threads)
