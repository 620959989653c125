"""Where queues are: topics, routes and the addresses of brokers, as name servers tell them.

Names given and returned are the user's; the namespace is put before them here.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from pyromq.protocol import names
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import cluster_info
from pyromq.protocol.routes import MASTER_ID, any_address, static_endpoints, subscribe_queues
from pyromq.spark.errors import RouteError
from pyromq.spark.net.patience import FAULTS, patiently
from pyromq.spark.net.wire import Wire
from pyromq.spark.source.options import SourceOptions

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
T = TypeVar("T")


class Routes:
    """Topics and brokers as one set of options sees them. For one thread; a context manager."""

    def __init__(
        self,
        options: SourceOptions,
        wire: Wire | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self.wire = wire or Wire(options)
        self._clock = clock
        self._sleep = sleep
        self.timeout = options.pull_timeout_ms / 1000
        self._addresses: dict[str, dict[int, str]] = {}
        self._endpoints: dict[MessageQueue, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    def patiently(self, ask: Callable[[], T]) -> T:
        """Try until it works or the time for offsets is over. Raises what the last attempt raised."""
        options = self.options
        until = self._clock() + options.offset_timeout_ms / 1000
        return patiently(
            ask, retries=options.offset_retries, first=FIRST_PAUSE, until=until, clock=self._clock, sleep=self._sleep
        )

    def topics(self) -> list[str]:
        """The topics to read now, by the user's name. Raises RouteError."""
        options = self.options
        found = options.topic_names or sorted({queue.topic for queue in options.assigned})
        if options.topics_pattern is not None:
            found = options.matching_topics(self.wire.topics(self.timeout))
        if options.include_retry_topic and options.group is not None:
            found = [*found, names.retry_topic(options.group)]
        return found

    def queues(self) -> list[MessageQueue]:
        """All queues to read, sorted; a topic nobody has is passed over. Raises RouteError or BrokerError."""
        found: list[MessageQueue] = []
        for topic in self.topics():
            route = self.wire.route(self.options.wire_name(topic), self.timeout)
            if route is not None:
                self._learn(topic, route)
                found += subscribe_queues(topic, route)
        assigned = self.options.assigned
        if assigned:
            known = set(found)
            found = [queue for queue in assigned if queue in known]
        return sorted(found)

    def _learn(self, topic: str, route: TopicRouteData) -> None:
        for broker in route.broker_datas:
            self._addresses[broker.broker_name] = dict(broker.broker_addrs)
        self._endpoints |= static_endpoints(topic, route)

    def refresh(self, topic: str) -> None:
        """Ask again where a topic lives, best effort: its master may have changed."""
        try:
            route = self.wire.route(self.options.wire_name(topic), self.timeout)
            if route is not None:
                self._learn(topic, route)
        except FAULTS as error:
            log.debug("route of %s not refreshed: %s", topic, error)

    def address(self, queue: MessageQueue, *, or_slave: bool = False) -> str:
        """The master of a queue; on request a slave when there is none. Raises RouteError.

        Offsets are the master's to tell: a slave may be behind, which would look like lost messages.
        """
        broker = self.endpoint(queue)
        if broker not in self._addresses:
            self.refresh(queue.topic)
        table = self._addresses.get(broker) or {}
        address = any_address(table) if or_slave else table.get(MASTER_ID)
        if address is None:
            raise RouteError(f"no name server knows a master of broker {broker} of topic {queue.topic}")
        return address

    def endpoint(self, queue: MessageQueue) -> str:
        """The broker that serves a queue; another than its own name says, where a static topic was moved."""
        return self._endpoints.get(queue, queue.broker_name)

    def is_static(self, queue: MessageQueue) -> bool:
        """Whether its offsets are those of a static topic, which only single requests are mapped to."""
        return queue in self._endpoints

    def by_broker(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """Queues by the broker that serves them."""
        found: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            found.setdefault(self.endpoint(queue), []).append(queue)
        return found

    def forget(self, broker: str) -> None:
        """Its address is not right any more, or it is away."""
        self._addresses.pop(broker, None)

    def living_brokers(self) -> set[str]:
        """Names of the brokers that are registered now. Raises RouteError or BrokerError."""
        return set(self.wire.ask_name_servers(cluster_info(), self.timeout).broker_addr_table)
