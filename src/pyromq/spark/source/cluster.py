"""What the driver asks of name servers and brokers: queues, their bounds, offsets by time and of groups.

Names given and returned are the user's; the namespace is put before them here. A broker that does not answer is left
out where the caller can do without it, and logged once until it is back.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeVar

from pyromq.protocol import names
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.command import Command
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import (
    Request,
    cluster_info,
    commit_offset,
    consumer_offset,
    max_offset,
    min_offset,
    pull_messages,
    search_offset,
)
from pyromq.protocol.routes import MASTER_ID, any_address, static_endpoints, subscribe_queues
from pyromq.spark.errors import RouteError
from pyromq.spark.net.patience import FAULTS, patiently
from pyromq.spark.net.wire import Wire
from pyromq.spark.source.offsets import Positions
from pyromq.spark.source.options import Fallback, SourceOptions
from pyromq.spark.task.recordlayout import walk

log = logging.getLogger(__name__)

SAMPLE = 32
FIRST_PAUSE = 0.05
T = TypeVar("T")


class Cluster:
    """Routes and offsets as one set of options sees them. For one thread; a context manager."""

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
        self._timeout = options.pull_timeout_ms / 1000
        self._addresses: dict[str, dict[int, str]] = {}
        self._endpoints: dict[MessageQueue, str] = {}
        self._silent: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    @property
    def group_fallback(self) -> Fallback:
        return self.options.group_fallback

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
            found = options.matching_topics(self.wire.topics(self._timeout))
        if options.include_retry_topic and options.group is not None:
            found = [*found, names.retry_topic(options.group)]
        return found

    def queues(self) -> list[MessageQueue]:
        """All queues to read, sorted; a topic nobody has is passed over. Raises RouteError or BrokerError."""
        found: list[MessageQueue] = []
        for topic in self.topics():
            route = self.wire.route(self.options.wire_name(topic), self._timeout)
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
            route = self.wire.route(self.options.wire_name(topic), self._timeout)
            if route is not None:
                self._learn(topic, route)
        except FAULTS as error:
            log.debug("route of %s not refreshed: %s", topic, error)

    def address(self, queue: MessageQueue, *, or_slave: bool = False) -> str:
        """The master of a queue; on request a slave when there is none. Raises RouteError.

        Offsets are the master's to tell: a slave may be behind, which would look like lost messages.
        """
        broker = self._endpoints.get(queue, queue.broker_name)
        if broker not in self._addresses:
            self.refresh(queue.topic)
        table = self._addresses.get(broker) or {}
        address = any_address(table) if or_slave else table.get(MASTER_ID)
        if address is None:
            raise RouteError(f"no name server knows a master of broker {broker} of topic {queue.topic}")
        return address

    def bounds(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        """First offset and the one after the last, of the queues whose brokers answer."""
        low = self._ask(queues, lambda queue: min_offset(self._topic(queue), queue.queue_id))
        high = self._ask(
            [queue for queue in queues if queue in low], lambda queue: max_offset(self._topic(queue), queue.queue_id)
        )
        # Empty queues have been seen to answer -1 for their first offset.
        return {queue: (max(low[queue], 0), max(end, low[queue], 0)) for queue, end in high.items()}

    def by_time(self, times: Mapping[MessageQueue, int]) -> Positions:
        """The first offset stored at or after a time, of the queues whose brokers answer."""
        return self._ask(
            list(times),
            lambda queue: search_offset(self._topic(queue), queue.queue_id, times[queue], boundary="lower"),
        )

    def of_group(self, queues: Sequence[MessageQueue]) -> Positions:
        """What the group has committed, -1 where nothing, of the queues whose brokers answer."""
        found = self._ask(
            queues,
            lambda queue: consumer_offset(self._group, self._topic(queue), queue.queue_id, zero_if_absent=False),
        )
        return {queue: -1 if offset is None else offset for queue, offset in found.items()}

    def commit(self, positions: Mapping[MessageQueue, int]) -> list[MessageQueue]:
        """Commit offsets of the group, best effort; returns the queues where they were taken."""
        taken = self._ask(
            list(positions),
            lambda queue: commit_offset(self._group, self._topic(queue), queue.queue_id, positions[queue]),
        )
        return list(taken)

    def sample(self, queue: MessageQueue, offset: int) -> tuple[int, int]:
        """How many messages a broker sends from an offset on, and their bytes; nothing when it does not answer."""
        try:
            answer = self.wire.call(self.address(queue), self.pull(queue, offset, SAMPLE), self._timeout)
            return len(walk(memoryview(answer.body))), len(answer.body)
        except FAULTS as error:
            log.debug("no sample of %s: %s", queue, error)
            return 0, 0

    def pull(self, queue: MessageQueue, offset: int, count: int, *, hold: float = 0.0) -> Command:
        """A pull of everything from an offset on; the broker may hold it for some seconds when there is nothing."""
        hold_ms = int(hold * 1000)
        return pull_messages(self._group, self._topic(queue), queue.queue_id, offset, count, hold_ms=hold_ms)

    def filtered_pull(self, queue: MessageQueue, offset: int, count: int, max_bytes: int) -> Command:
        """A pull of what the options want, as much at a time as the broker can send."""
        return pull_messages(
            self._group,
            self._topic(queue),
            queue.queue_id,
            offset,
            count,
            max_bytes=max_bytes,
            stream=True,
            subscription=self.options.sub_expression,
            expression_type=str(self.options.filter_type),
        )

    def living_brokers(self) -> set[str]:
        """Names of the brokers that are registered now. Raises RouteError or BrokerError."""
        return set(self.wire.ask_name_servers(cluster_info(), self._timeout).broker_addr_table)

    @property
    def _group(self) -> str:
        return self.options.wire_name(self.options.reading_group)

    def _topic(self, queue: MessageQueue) -> str:
        return self.options.wire_name(queue.topic)

    def _ask(
        self, queues: Sequence[MessageQueue], request: Callable[[MessageQueue], Request[T]]
    ) -> dict[MessageQueue, T]:
        """One question for each queue, those to one broker together."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(self._endpoints.get(queue, queue.broker_name), []).append(queue)
        found: dict[MessageQueue, T] = {}
        for broker, asked in by_broker.items():
            try:
                requests = [request(queue) for queue in asked]
                answers = self.wire.ask(self.address(asked[0]), requests, self._timeout, broker=broker)
                found.update(zip(asked, answers, strict=True))
            except FAULTS as error:
                self._fell_silent(broker, asked[0].topic, error)
            else:
                self._silent.discard(broker)
        return found

    def _fell_silent(self, broker: str, topic: str, error: Exception) -> None:
        if broker not in self._silent:
            self._silent.add(broker)
            log.warning("broker %s does not answer about offsets, its queues wait: %s", broker, error)
        self._addresses.pop(broker, None)
        self.refresh(topic)
