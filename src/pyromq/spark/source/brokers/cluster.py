"""What the driver asks of brokers: the bounds of queues, offsets by time and of groups, when messages were stored.

All brokers are asked at the same time, and PyroMQ's are asked about all of their queues at once. A broker that does not
answer is left out where the caller can do without it, and logged once until it is back.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pyromq.client.errors import BrokerError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import (
    PASSING,
    Request,
    commit_offset,
    consumer_offset,
    look_at_queues,
    max_offset,
    min_offset,
    pull_messages,
    search_offset,
    wait_for_queues,
)
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.net.wire import Wire, read_answer
from pyromq.spark.source.brokers import looks
from pyromq.spark.source.brokers.looks import Look, Stored
from pyromq.spark.source.brokers.routes import Routes
from pyromq.spark.source.offsets import Bounds, Positions
from pyromq.spark.source.options import Fallback, SourceOptions

log = logging.getLogger(__name__)

SAMPLE = 32
T = TypeVar("T")


class Cluster(Routes):
    """Routes and offsets as one set of options sees them. For one thread; a context manager."""

    def __init__(
        self,
        options: SourceOptions,
        wire: Wire | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(options, wire, clock=clock, sleep=sleep)
        self._silent: set[str] = set()
        self._unable: set[str] = set()
        """Brokers that know no looks: Apache's."""
        self._looks: tuple[Sequence[MessageQueue], dict[str, Look]] = ((), {})
        self._seen: tuple[dict[str, bytes], Bounds] = ({}, {})
        """What brokers answered to the last looks, and what that means."""

    @property
    def group_fallback(self) -> Fallback:
        return self.options.group_fallback

    def bounds(self, queues: Sequence[MessageQueue]) -> Bounds:
        """First offset and the one after the last, of the queues whose brokers answer.

        The very object of the last look while nothing has changed, if all brokers are PyroMQ's.
        """
        if self._looks[0] is not queues:
            able = self.by_broker(queue for queue in queues if not self.is_static(queue))
            made = {broker: Look.at(asked, self.options.wire_name) for broker, asked in able.items()}
            self._looks, self._seen = (queues, made), ({}, {})
        asked = {broker: look for broker, look in self._looks[1].items() if broker not in self._unable}
        queues_of = {broker: look.queues for broker, look in asked.items()}
        answers = self._look_all(queues_of, {broker: look.body for broker, look in asked.items()})
        if answers != self._seen[0]:
            found: dict[MessageQueue, tuple[int, int]] = {}
            for broker, answer in answers.items():
                found.update(asked[broker].read(answer))
            self._seen = answers, found
        rest = [queue for queue in queues if self.endpoint(queue) in self._unable or self.is_static(queue)]
        return {**self._seen[1], **self.single_bounds(rest)} if rest else self._seen[1]

    def single_bounds(self, queues: Sequence[MessageQueue]) -> Bounds:
        """The same by two requests for each queue, which all brokers understand."""
        low = self._ask(queues, lambda queue: min_offset(self._topic(queue), queue.queue_id))
        high = self._ask(
            [queue for queue in queues if queue in low], lambda queue: max_offset(self._topic(queue), queue.queue_id)
        )
        # Empty queues have been seen to answer -1 for their first offset.
        return {queue: (max(low[queue], 0), max(end, low[queue], 0)) for queue, end in high.items()}

    def stored(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Stored | None]:
        """The first message from each place on, None where there is none, of the queues whose brokers answer."""
        able = self.by_broker(q for q in places if self.endpoint(q) not in self._unable and not self.is_static(q))
        bodies = {
            broker: looks.times({queue: places[queue] for queue in queues}, self.options.wire_name)
            for broker, queues in able.items()
        }
        found: dict[MessageQueue, Stored | None] = {}
        for broker, answer in self._look_all(able, bodies).items():
            for queue, millis in zip(able[broker], looks.read_times(answer), strict=True):
                found[queue] = Stored(places[queue], millis) if millis > 0 else None
        rest = [queue for queue in places if self.endpoint(queue) in self._unable or self.is_static(queue)]
        by_broker = self.by_broker(rest)
        pulls = {broker: [self.pull(each, places[each], 1) for each in queues] for broker, queues in by_broker.items()}
        for broker, answers in self._talk(by_broker, pulls).items():
            for queue, reply in zip(by_broker[broker], answers, strict=True):
                if reply.code not in PASSING:
                    found[queue] = _stored(reply)
        return found

    def wait(self, positions: Mapping[MessageQueue, int], hold: float) -> Command | None:
        """A look that a broker holds until a queue has something at its position; None if it knows no looks."""
        if any(self.endpoint(queue) in self._unable or self.is_static(queue) for queue in positions):
            return None
        return wait_for_queues(looks.waiting(positions, self.options.wire_name), int(hold * 1000))

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
        from pyromq.arrow.recordlayout import walk  # noqa: PLC0415 - few streams need it, and all load this module

        try:
            answer = self.wire.call(self.address(queue), self.pull(queue, offset, SAMPLE), self.timeout)
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

    @property
    def _group(self) -> str:
        return self.options.wire_name(self.options.reading_group)

    def _topic(self, queue: MessageQueue) -> str:
        return self.options.wire_name(queue.topic)

    def _look_all(self, asked: Mapping[str, Sequence[MessageQueue]], bodies: Mapping[str, bytes]) -> dict[str, bytes]:
        """Looks at some queues of several brokers; those that know no looks are remembered until they are away."""
        requests = {broker: look_at_queues(body) for broker, body in bodies.items()}
        found = {}
        for broker, (reply,) in self._talk(asked, {broker: [r.command] for broker, r in requests.items()}).items():
            if requests[broker].is_answer(reply):
                found[broker] = requests[broker].read(reply)
            elif reply.code in PASSING:
                error = BrokerError(reply.code, reply.remark, broker=broker, request=requests[broker].command.name)
                self._fell_silent(broker, asked[broker][0].topic, error)
            else:
                self._unable.add(broker)
        return found

    def _ask(
        self, queues: Sequence[MessageQueue], request: Callable[[MessageQueue], Request[T]]
    ) -> dict[MessageQueue, T]:
        """One question for each queue, those to one broker together."""
        asked = self.by_broker(queues)
        requests = {broker: [request(queue) for queue in own] for broker, own in asked.items()}
        commands = {broker: [each.command for each in own] for broker, own in requests.items()}
        found: dict[MessageQueue, T] = {}
        for broker, replies in self._talk(asked, commands).items():
            try:
                answers = [read_answer(*pair, broker) for pair in zip(requests[broker], replies, strict=True)]
                found.update(zip(asked[broker], answers, strict=True))
            except FAULTS as error:
                self._fell_silent(broker, asked[broker][0].topic, error)
        return found

    def _talk(
        self, asked: Mapping[str, Sequence[MessageQueue]], commands: Mapping[str, Sequence[Command]]
    ) -> dict[str, list[Command]]:
        """The replies of the brokers that reply, to all that is asked about some queues of each."""
        addresses: dict[str, str] = {}
        for broker in commands:
            try:
                addresses[self.address(asked[broker][0])] = broker
            except FAULTS as error:
                self._fell_silent(broker, asked[broker][0].topic, error)
        spoken = {address: commands[broker] for address, broker in addresses.items()}
        found: dict[str, list[Command]] = {}
        for address, replies in self.wire.exchange_all(spoken, self.timeout).items():
            broker = addresses[address]
            if isinstance(replies, Exception):
                self._fell_silent(broker, asked[broker][0].topic, replies)
            else:
                self._silent.discard(broker)
                found[broker] = replies
        return found

    def _fell_silent(self, broker: str, topic: str, error: Exception) -> None:
        if broker not in self._silent:
            self._silent.add(broker)
            log.warning("broker %s does not answer about offsets, its queues wait: %s", broker, error)
        self._unable.discard(broker)
        self.forget(broker)
        self.refresh(topic)


def _stored(reply: Command) -> Stored | None:
    """The message that a pull found; None also for what cannot be read."""
    if reply.code != ResponseCode.SUCCESS or not reply.body:
        return None
    from pyromq.protocol.records.salvage import salvage_records  # noqa: PLC0415 - loads what inflates, for Apache's alone

    try:
        delta = reply.header(PullMessageResponseHeader).offset_delta or 0
        messages = salvage_records(reply.body, inflate=False).messages
    except ProtocolError:
        return None
    return Stored(messages[0].queue_offset + delta, messages[0].store_timestamp) if messages else None
