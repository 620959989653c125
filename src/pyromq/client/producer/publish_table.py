"""Which queues a producer can send to: its cache of publish infos, the way it is filled, and how callers choose."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError, NoRouteError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.routes import PublishInfo
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import Message, MessageQueue
from pyromq.selectors import Selector

Payload = Message | Sequence[Message]


class Choice(NamedTuple):
    """How the caller chose the queue: not at all, by naming it, or through a selector and its argument."""

    queue: MessageQueue | None = None
    selector: Selector | None = None
    arg: Any = None

    @property
    def is_default(self) -> bool:
        return self.queue is None and self.selector is None


DEFAULT_CHOICE = Choice()


def choice_of(queue: MessageQueue | None, selector: Selector | None, arg: Any) -> Choice:
    """Most callers do not choose."""
    return DEFAULT_CHOICE if queue is None and selector is None else Choice(queue, selector, arg)


MAX_TOPICS = 10_000
"""Topics that one producer keeps routes for; beyond it the one it has known longest is asked for again."""


class PublishTable:
    """Topics (by their name on the wire) and where they can be written."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig) -> None:
        self._instance = instance
        self._config = config
        self._infos: dict[str, PublishInfo] = {}
        self.asking = 0
        """Sends that wait for a route."""

    def topics(self) -> Collection[str]:
        return list(self._infos)

    def any_topic(self) -> str | None:
        """A topic that has queues, for probes."""
        return next((topic for topic, info in self._infos.items() if info.usable), None)

    def needs_route(self, topic: str) -> bool:
        info = self._infos.get(topic)
        return info is not None and not info.usable

    def route_changed(self, topic: str, info: PublishInfo) -> None:
        self._infos[topic] = info

    def known(self, topic: str) -> PublishInfo | None:
        """What is cached, if it can be used."""
        info = self._infos.get(topic)
        return info if info is not None and info.queues else None

    async def find(self, topic: str) -> PublishInfo:
        """The topic's queues: cached, else from the name servers, else borrowed from the default topic.

        Borrowing creates nothing; the broker that gets the first message creates the topic. Raises NoRouteError.
        """
        info = self.known(topic)
        if info is not None:
            return info
        self.asking += 1
        try:
            return await self._ask(topic)
        finally:
            self.asking -= 1

    async def _ask(self, topic: str) -> PublishInfo:
        self._infos.setdefault(topic, PublishInfo())
        if len(self._infos) > MAX_TOPICS:
            del self._infos[next(iter(self._infos))]
        answers = (await self._instance.routes.refresh(topic)).answers
        info = self._infos[topic]
        if not info.has_route and not info.usable:
            refresh = await self._instance.routes.refresh(
                topic, default_topic=self._config.create_topic_key, queues=self._config.default_topic_queues
            )
            answers = answers or refresh.answers
            info = self._infos[topic]
        if not info.usable:
            if info.has_route:
                raise NoRouteError(topic, answers, lacks="queue that can be written on a broker with a master")
            hint = f"create the topic, or let brokers create it (default topic {self._config.create_topic_key!r})"
            raise NoRouteError(topic, answers, hint=hint)
        return info

    async def warm(self, topics: Collection[str]) -> list[NoRouteError]:
        """Look up several topics; returns what was missing."""
        outcomes = await asyncio.gather(*(self.find(topic) for topic in topics), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NoRouteError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, NoRouteError)]

    def to_wire(self, queue: MessageQueue, message: Message, topic: str, *, check: bool = True) -> MessageQueue:
        """A queue of the user's under the topic's name on the wire. Raises ClientError for one of another topic."""
        if check and queue.topic != message.topic:
            raise ClientError(f"the message is for topic {message.topic!r}, but the queue is one of {queue.topic!r}")
        return queue if queue.topic == topic else MessageQueue(topic, queue.broker_name, queue.queue_id)

    def select(self, info: PublishInfo, topic: str, message: Message, selector: Selector, arg: object) -> MessageQueue:
        """Let a selector choose among a copy of the queues, without namespaces. Raises ClientError."""
        shown = [self.to_user(queue) for queue in info.queues]
        try:
            chosen = selector(shown, message, arg)
        except Exception as error:
            raise ClientError(f"the queue selector failed: {error!r}") from error
        if chosen is None:
            raise ClientError(f"the queue selector found none among {len(shown)} queues of topic {message.topic!r}")
        return MessageQueue(topic, chosen.broker_name, chosen.queue_id)

    def to_user(self, queue: MessageQueue) -> MessageQueue:
        """A queue without the namespace."""
        if not self._config.namespace:
            return queue
        topic = namespaces.unwrap(queue.topic, self._config.namespace)
        return MessageQueue(topic, queue.broker_name, queue.queue_id)
