"""The push consumer for threads. Every method is that of the asyncio one, with a wait around it."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from pyromq.client.blocking.consumer import BlockingConsumer
from pyromq.client.consumer.config import PushConfig
from pyromq.client.consumer.damage import DamageHook
from pyromq.client.consumer.hooks import ConsumeHook, FilterHook
from pyromq.client.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from pyromq.client.consumer.push.listener import ListenerFunction
from pyromq.client.consumer.push.ownership import QueueListener
from pyromq.client.consumer.retry import BROKER_DECIDES
from pyromq.protocol.message import MessageQueue, ReceivedMessage

F = TypeVar("F", bound=ListenerFunction)


class PushConsumer(BlockingConsumer[AsyncPushConsumer]):
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
        self, group: str, *, namesrv: str | None = None, config: PushConfig | None = None, **options: Any
    ) -> None:
        super().__init__(AsyncPushConsumer(group, namesrv=namesrv, config=config, **options))

    @property
    def config(self) -> PushConfig:
        return self._consumer.config

    @property
    def consume_hooks(self) -> list[ConsumeHook]:
        """Append hooks before `start`."""
        return self._consumer.consume_hooks

    def cached(self) -> dict[str, tuple[int, int]]:
        """Messages that are held and not consumed yet, and their bytes, by topic."""
        return self._consumer.cached()

    @property
    def damage_hooks(self) -> list[DamageHook]:
        """Append hooks before `start`."""
        return self._consumer.damage_hooks

    @property
    def filter_hooks(self) -> list[FilterHook]:
        """Append hooks before `start`."""
        return self._consumer.filter_hooks

    @property
    def queue_listeners(self) -> list[QueueListener]:
        """Append functions before `start`; they run on the background loop and must not block."""
        return self._consumer.queue_listeners

    @overload
    def listen(self, function: F, *, orderly: bool = ..., batch: bool = ...) -> F: ...

    @overload
    def listen(self, *, orderly: bool = ..., batch: bool = ...) -> Callable[[F], F]: ...

    def listen(self, function: F | None = None, *, orderly: bool = False, batch: bool = False) -> F | Callable[[F], F]:
        """Set the listener; also a decorator, with or without arguments.

        It gets a message, or with `batch` a list of up to `consume_batch_size`, and if it takes a second parameter the
        context. `orderly` keeps the order of each queue: one call at a time, and a failed message holds up those
        behind it. Returning None or True means consumed; False, or raising, means later.
        """
        decorate: Callable[[F], F] = self._consumer.listen(orderly=orderly, batch=batch)
        return decorate if function is None else decorate(function)

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
        self._on_loop(lambda: self._consumer.subscribe(topic, tags, sql=sql, filter_class=filter_class))

    def unsubscribe(self, topic: str) -> None:
        """Receive a topic no more."""
        self._on_loop(lambda: self._consumer.unsubscribe(topic))

    def suspend(self) -> None:
        """Pull nothing more and keep the queues; what was pulled is still consumed."""
        self._on_loop(self._consumer.suspend)

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._on_loop(self._consumer.resume)

    @property
    def consume_threads(self) -> int:
        """Listener calls at a time."""
        return self._on_loop(lambda: self._consumer.consume_threads)

    def set_consume_threads(self, count: int) -> None:
        """Change how many listener calls run at a time, from 1 to 1000."""
        self._on_loop(lambda: self._consumer.set_consume_threads(count))

    def send_back(self, message: ReceivedMessage, delay_level: int = BROKER_DECIDES) -> None:
        """Have a message delivered again later; -1 sends it to the dead letters. Raises ClientError."""
        self._run(lambda: self._consumer.send_back(message, delay_level))

    def assignment(self) -> set[MessageQueue]:
        """The queues of subscribed topics that this consumer has now."""
        return self._on_loop(self._consumer.assignment)

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRouteError."""
        return self._run(lambda: self._consumer.fetch_queues(topic))
