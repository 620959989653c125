"""Keeping routes fresh: asking the name servers, comparing, telling producers and consumers in a fixed order.

One update at a time, whoever asks; several callers that want the same topic share one answer. A topic that a consumer
wants and nobody knows is asked for again, soon and then ever more rarely; one whose brokers cannot be reached, at once.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Protocol

from pyromq.client.clock import Clock, sleep, within
from pyromq.client.errors import BrokerError, ClientError, NameServerAnswer, NoRouteError, ServiceStateError
from pyromq.client.instance.members import ConsumerMember, ProducerMember
from pyromq.client.instance.routes import clamp_queues, publish_info, route_changed
from pyromq.client.instance.topology import Topology
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.names import DEFAULT_TOPIC, is_retry_topic
from pyromq.protocol.requests import topic_route
from pyromq.protocol.routes import subscribe_queues
from pyromq.remoting.connect.nameservers import NameServers
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

LOCK_LIMIT = 3.0
FIRST_RETRY, LAST_RETRY = 0.2, 3.0
"""Seconds until a missing route is asked for again: at first, and at most."""
DOUBT_INTERVAL = 3.0
MAX_DOUBTS = 10_000


class NameServerError(NoRouteError):
    """No name server answered at all; `answers` says what happened with each."""


@dataclass(frozen=True, slots=True)
class RouteRefresh:
    """Whether something changed, and what the name servers said."""

    changed: bool
    answers: tuple[NameServerAnswer, ...] = ()


class Host(Protocol):
    """What route updates need of the client instance."""

    clock: Clock
    topology: Topology
    name_servers: NameServers
    producers: dict[str, ProducerMember]
    consumers: dict[str, ConsumerMember]

    async def call_name_server(self, command: Command) -> Command: ...


class RouteUpdates:
    """The one place that changes the topology."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = asyncio.Lock()
        self._running: dict[tuple[str, str | None], asyncio.Task[RouteRefresh]] = {}
        self._missing: dict[str, asyncio.Task[None]] = {}
        self._doubted: dict[str, float] = {}

    async def refresh(self, topic: str, *, default_topic: str | None = None, queues: int = 4) -> RouteRefresh:
        """Ask for the topic, or borrow the route of `default_topic` for it with at most `queues` queues per broker.

        A topic that does not exist is no error here. Raises NameServerError when nobody could be asked.
        """
        task = self._start(topic, default_topic, queues)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ServiceStateError(f"the client was closed while it asked for topic {topic!r}") from None
            raise

    def doubt(self, topic: str) -> None:
        """A broker could not be reached where the route has it: ask again now, unless that was a moment ago."""
        now = self._host.clock.monotonic()
        if now - self._doubted.get(topic, float("-inf")) >= DOUBT_INTERVAL:
            if len(self._doubted) >= MAX_DOUBTS:
                self._doubted.clear()
            self._doubted[topic] = now
            _ = self._start(topic)

    async def refresh_all(self) -> None:
        """Every topic of every producer and consumer, one after the other."""
        host = self._host
        topics = {topic for producer in host.producers.values() for topic in producer.published_topics()}
        topics |= {topic for consumer in host.consumers.values() for topic in consumer.subscribed_topics()}
        for topic in sorted(topics):
            try:
                await self.refresh(topic)
            except ClientError as error:
                log.warning("route of topic %s not refreshed: %s", topic, error)

    async def drop_offline(self) -> list[str]:
        """Forget brokers that no route mentions any more; returns their addresses."""
        if not await self._acquire("drop brokers that left"):
            return []
        try:
            return self._host.topology.drop_offline()
        finally:
            self._lock.release()

    async def fetch(self, topic: str) -> tuple[TopicRouteData | None, tuple[NameServerAnswer, ...]]:
        """What the name servers say about a topic; None when they do not know it. Changes nothing.

        Raises BrokerError for other refusals and NameServerError.
        """
        host = self._host
        request = topic_route(topic)
        try:
            response = await host.call_name_server(request.command)
        except RemotingError as error:
            raise NameServerError(topic, self._answers()) from error
        if request.is_answer(response):
            return request.read(response), self._answers()
        refused = request.command.name
        raise BrokerError(response.code, response.remark, broker=host.name_servers.current, request=refused)

    def _answers(self) -> tuple[NameServerAnswer, ...]:
        return tuple(NameServerAnswer(address, said) for address, said in self._host.name_servers.answers.items())

    async def stop(self) -> None:
        """Cancel what runs."""
        tasks: list[asyncio.Task[Any]] = [*self._missing.values(), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, topic: str, default_topic: str | None = None, queues: int = 4) -> "asyncio.Task[RouteRefresh]":
        key = (topic, default_topic)
        task = self._running.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._refresh(topic, default_topic, queues))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return task

    async def _seek(self, topic: str) -> None:
        """Ask for a topic that is missing until it is there or no consumer wants it any more."""
        delay = FIRST_RETRY
        while self._missed(topic):
            await sleep(self._host.clock, delay)
            delay = min(2 * delay, LAST_RETRY)
            if self._missed(topic):
                try:
                    await self.refresh(topic)
                except ClientError as error:
                    log.info("topic %s still has no route: %s", topic, error)

    def _missed(self, topic: str) -> bool:
        return any(consumer.needs_route(topic) for consumer in self._host.consumers.values())

    async def _refresh(self, topic: str, default_topic: str | None, queues: int) -> RouteRefresh:
        if not await self._acquire(f"refresh the route of {topic}"):
            return RouteRefresh(False)
        try:
            route, answers = await self.fetch(default_topic or topic)
            if route is None:
                if not is_retry_topic(topic) and (default_topic or topic) != DEFAULT_TOPIC:
                    log.info("no route for topic %s: %s", default_topic or topic, "; ".join(map(str, answers)))
                return RouteRefresh(False, answers)
            if default_topic is not None:
                route = clamp_queues(route, queues)
            changed = route_changed(self._host.topology.routes.get(topic), route) or self._wanted(topic)
            if changed:
                self._apply(topic, route)
            return RouteRefresh(changed, answers)
        except BrokerError as error:
            log.warning("route of topic %s refused: %s", topic, error)
            return RouteRefresh(False, self._answers())
        except ProtocolError as error:
            log.warning("route of topic %s cannot be read: %s", topic, error)
            return RouteRefresh(False, self._answers())
        finally:
            self._lock.release()
            if topic not in self._missing and self._missed(topic):
                self._missing[topic] = asyncio.get_running_loop().create_task(self._seek(topic))
                self._missing[topic].add_done_callback(lambda _: self._missing.pop(topic, None))

    def _wanted(self, topic: str) -> bool:
        host = self._host
        return any(member.needs_route(topic) for member in host.producers.values()) or self._missed(topic)

    def _apply(self, topic: str, route: TopicRouteData) -> None:
        """Addresses first: whoever is told of a queue must be able to reach its broker."""
        host = self._host
        host.topology.learn_brokers(route)
        host.topology.learn_endpoints(topic, route)
        for producer in host.producers.values():
            producer.route_changed(topic, publish_info(topic, route))
        for consumer in host.consumers.values():
            if topic in consumer.subscribed_topics():
                consumer.route_changed(topic, subscribe_queues(topic, route))
        host.topology.remember(topic, route)
        log.info("route of topic %s updated: %d brokers", topic, len(route.broker_datas))

    async def _acquire(self, purpose: str) -> bool:
        if not self._lock.locked():
            await self._lock.acquire()
            return True
        try:
            await within(self._host.clock, LOCK_LIMIT, self._lock.acquire())
        except TimeoutError:
            log.warning("could not %s: another update has run for %s s", purpose, LOCK_LIMIT)
            return False
        return True

    def _finished(self, key: tuple[str, str | None], task: "asyncio.Task[RouteRefresh]") -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # marks it as seen: every caller may have gone away
