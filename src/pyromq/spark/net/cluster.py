"""What the driver asks of name servers and brokers: queues, their bounds, offsets by time and of groups.

Names given and returned are the user's; the namespace is put before them here. A broker that does not answer is left
out where the caller can go on without it, and logged once until it is back.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pyromq.client.errors import BrokerError
from pyromq.protocol import names, namespace
from pyromq.protocol.bodies.route import ClusterInfo, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import (
    STREAM,
    SUBSCRIPTION,
    SUSPEND,
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetHeader,
    GetMinOffsetResponseHeader,
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetByTimestampHeader,
    SearchOffsetByTimestampResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.routes import MASTER_ID, static_endpoints, subscribe_queues
from pyromq.remoting.errors import RemotingError
from pyromq.spark.errors import RouteError
from pyromq.spark.net.wire import Wire, succeeded
from pyromq.spark.source.offsets import Positions
from pyromq.spark.source.options import Fallback, SourceOptions
from pyromq.spark.task.recordlayout import walk

log = logging.getLogger(__name__)

SAMPLE = 32
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
PASSING = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY}
)
"""Refusals after which asking again can help."""
FAULTS = (RemotingError, ProtocolError, RouteError)
R = TypeVar("R")


def pauses() -> Iterable[float]:
    """Seconds to wait before each further attempt."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)


class Cluster:
    """Routes and offsets as one set of options sees them. For one thread."""

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

    @property
    def group_fallback(self) -> Fallback:
        return self.options.group_fallback

    def patiently(self, ask: Callable[[], R]) -> R:
        """Try until it works or the time for offsets is over. Raises what the last attempt raised."""
        deadline = self._clock() + self.options.offset_timeout_ms / 1000
        for attempt, pause in enumerate(pauses()):
            try:
                return ask()
            except (*FAULTS, BrokerError) as error:
                lasting = isinstance(error, BrokerError) and error.code not in PASSING
                if lasting or (attempt >= self.options.offset_retries and self._clock() + pause > deadline):
                    raise
            self._sleep(pause)
        raise AssertionError("unreachable")

    def topics(self) -> list[str]:
        """The topics to read now, by the user's name. Raises RouteError."""
        options = self.options
        found = options.topic_names or sorted({queue.topic for queue in options.assigned})
        if options.topics_pattern is not None:
            pattern = re.compile(options.topics_pattern)
            prefix = f"{options.namespace}%" if options.namespace else ""
            found = [
                bare
                for topic in self.wire.topics(self._timeout)
                if topic.startswith(prefix)
                and not (names.is_system_topic(topic) or names.is_retry_topic(topic) or names.is_dlq_topic(topic))
                and pattern.fullmatch(bare := topic.removeprefix(prefix))
            ]
        if options.include_retry_topic and options.group is not None:
            found = [*found, names.retry_topic(options.group)]
        return found

    def queues(self) -> list[MessageQueue]:
        """All queues to read, sorted; a topic nobody has is passed over. Raises RouteError or BrokerError."""
        found: list[MessageQueue] = []
        for topic in self.topics():
            route = self.wire.route(self.wrapped(topic), self._timeout)
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
            route = self.wire.route(self.wrapped(topic), self._timeout)
            if route is not None:
                self._learn(topic, route)
        except (*FAULTS, BrokerError) as error:
            log.debug("route of %s not refreshed: %s", topic, error)

    def address(self, queue: MessageQueue, *, or_slave: bool = False) -> str:
        """The master of a queue; on request a slave when there is none. Raises RouteError.

        Offsets are the master's to tell: a slave may be behind, which would look like lost messages.
        """
        broker = self._endpoints.get(queue, queue.broker_name)
        if broker not in self._addresses:
            self.refresh(queue.topic)
        table = self._addresses.get(broker) or {}
        address = table.get(MASTER_ID) or (table[min(table)] if or_slave and table else None)
        if address is None:
            raise RouteError(f"no name server knows a master of broker {broker} of topic {queue.topic}")
        return address

    def wrapped(self, name: str) -> str:
        """A topic or group as the wire knows it."""
        return namespace.wrap(self.options.namespace or "", name)

    def bounds(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        """First offset and the one after the last, of the queues whose brokers answer."""
        low = self._offsets(
            queues,
            RequestCode.GET_MIN_OFFSET,
            lambda queue: GetMinOffsetHeader(topic=self.wrapped(queue.topic), queue_id=queue.queue_id),
            lambda answer: answer.header(GetMinOffsetResponseHeader).offset,
        )
        high = self._offsets(
            [queue for queue in queues if queue in low],
            RequestCode.GET_MAX_OFFSET,
            lambda queue: GetMaxOffsetHeader(topic=self.wrapped(queue.topic), queue_id=queue.queue_id),
            lambda answer: answer.header(GetMaxOffsetResponseHeader).offset,
        )
        # Empty queues have been seen to answer -1 for their first offset.
        return {queue: (max(low[queue], 0), max(end, low[queue], 0)) for queue, end in high.items()}

    def by_time(self, times: Mapping[MessageQueue, int]) -> Positions:
        """The first offset stored at or after a time, of the queues whose brokers answer."""
        return self._offsets(
            list(times),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            lambda queue: SearchOffsetByTimestampHeader(
                topic=self.wrapped(queue.topic),
                queue_id=queue.queue_id,
                timestamp=times[queue],
                boundary_type="lower",
            ),
            lambda answer: answer.header(SearchOffsetByTimestampResponseHeader).offset,
        )

    def of_group(self, queues: Sequence[MessageQueue]) -> Positions:
        """What the group has committed, -1 where nothing, of the queues whose brokers answer."""
        return self._offsets(
            queues,
            RequestCode.QUERY_CONSUMER_OFFSET,
            lambda queue: QueryConsumerOffsetHeader(
                consumer_group=self.wrapped(self.options.reading_group),
                topic=self.wrapped(queue.topic),
                queue_id=queue.queue_id,
                set_zero_if_not_found=False,
            ),
            lambda answer: (
                -1
                if answer.code == ResponseCode.QUERY_NOT_FOUND
                else answer.header(QueryConsumerOffsetResponseHeader).offset
            ),
            also=(ResponseCode.QUERY_NOT_FOUND,),
        )

    def commit(self, positions: Mapping[MessageQueue, int]) -> Positions:
        """Commit offsets of the group, best effort; returns what was taken."""
        return self._offsets(
            list(positions),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            lambda queue: UpdateConsumerOffsetHeader(
                consumer_group=self.wrapped(self.options.reading_group),
                topic=self.wrapped(queue.topic),
                queue_id=queue.queue_id,
                commit_offset=positions[queue],
            ),
            lambda _answer: 0,
        )

    def sample(self, queue: MessageQueue, offset: int) -> tuple[int, int]:
        """How many messages a broker sends from an offset on, and their bytes; nothing when it does not answer."""
        command = Command.request(RequestCode.PULL_MESSAGE, self.pull_header(queue, offset, SAMPLE))
        try:
            answer = self.wire.call(self.address(queue), command, self._timeout)
            return len(walk(memoryview(answer.body))), len(answer.body)
        except (*FAULTS, BrokerError) as error:
            log.debug("no sample of %s: %s", queue, error)
            return 0, 0

    def pull_header(
        self, queue: MessageQueue, offset: int, count: int, *, hold: float = 0.0, max_bytes: int | None = None
    ) -> PullMessageHeader:
        """A pull of everything from an offset on; the broker may hold it for some seconds when there is nothing."""
        return PullMessageHeader(
            consumer_group=self.wrapped(self.options.reading_group),
            topic=self.wrapped(queue.topic),
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            max_msg_bytes=max_bytes,
            request_type=None if max_bytes is None else STREAM,
            sys_flag=SUBSCRIPTION | (SUSPEND if hold else 0),
            commit_offset=0,
            suspend_timeout_millis=int(hold * 1000),
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )

    def living_brokers(self) -> set[str]:
        """Names of the brokers that are registered now. Raises RouteError or BrokerError."""
        command = Command.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = succeeded(self.wire.ask_name_servers(command, self._timeout), "cluster info")
        return set(ClusterInfo.decode(answer.body).broker_addr_table)

    def _offsets(
        self,
        queues: Sequence[MessageQueue],
        code: RequestCode,
        header: Callable[[MessageQueue], Header],
        read: Callable[[Command], int],
        *,
        also: Sequence[int] = (),
    ) -> dict[MessageQueue, int]:
        """One question for each queue, those to one broker together."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(self._endpoints.get(queue, queue.broker_name), []).append(queue)
        found: dict[MessageQueue, int] = {}
        for broker, asked in by_broker.items():
            try:
                commands = [Command.request(code, header(queue)) for queue in asked]
                answers = self.wire.exchange(self.address(asked[0]), commands, self._timeout)
                for queue, answer in zip(asked, answers, strict=True):
                    found[queue] = read(succeeded(answer, code.name, broker=broker, also=also))
            except (*FAULTS, BrokerError) as error:
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
