"""Name servers, brokers, clock and waiter made of tables, for tests of the driver's side of a stream."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pyromq.protocol.message import MessageQueue
from pyromq.spark.options import read_options
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.brokers.longpoll import LongPoll
from pyromq.spark.source.brokers.looks import Stored
from pyromq.spark.source.offsets import Offset
from pyromq.spark.source.options import Fallback, SourceOptions
from pyromq.spark.source.tracker import Tracker

R = TypeVar("R")
Q0, Q1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


class Tables:
    """Stands for the brokers, the clock and the waiter: `wait` and `sleep` let time pass, then `meanwhile` happens."""

    def __init__(self, **options: str) -> None:
        named = {} if options.keys() & {"topics", "topicsPattern"} else {"topic": "t"}
        self.options = read_options(SourceOptions, {"nameServer": "n:1"} | named | options, {})
        self.now = 1000.0
        self.known = {Q0: (0, 0), Q1: (0, 0)}
        self.route = [Q0, Q1]
        self.group: dict[MessageQueue, int] = {}
        self.living = {"a"}
        self.times: dict[MessageQueue, int] = {}
        self.fault: Exception | None = None
        self.messages: dict[tuple[MessageQueue, int], int] = {}
        """When messages were stored, if not at 1,000,000 plus their offset."""
        self.asked: list[MessageQueue] = []
        """Queues that the store time of a message was asked of."""
        self.mute: set[MessageQueue] = set()
        """Queues of which nobody tells store times."""
        self.waits = 0
        self.looks = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.tracker = Tracker(
            self.options, cast("Cluster", self), cast("LongPoll", self), clock=self.clock, sleep=self.pass_time
        )

    def clock(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def wait(self, _positions: Mapping[MessageQueue, int], timeout: float) -> None:
        self.waits += 1
        self.pass_time(timeout)

    def patiently(self, ask: Callable[[], R]) -> R:
        return ask()

    def topics(self) -> list[str]:
        return ["t"]

    def queues(self) -> list[MessageQueue]:
        if self.fault:
            raise self.fault
        named = self.options.topic_names or self.options.matching_topics({queue.topic for queue in self.route})
        return sorted(queue for queue in self.route if queue.topic in named)

    def bounds(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        self.looks += 1
        return {} if self.fault else {queue: self.known[queue] for queue in queues if queue in self.known}

    def by_time(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: self.times[queue] for queue in times}

    @property
    def group_fallback(self) -> Fallback:
        return self.options.group_fallback

    def of_group(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.group.get(queue, -1) for queue in queues}

    def commit(self, positions: Mapping[MessageQueue, int]) -> list[MessageQueue]:
        if self.fault:
            raise self.fault
        self.group |= positions
        return list(positions)

    def living_brokers(self) -> set[str]:
        return self.living

    def sample(self, _queue: MessageQueue, _offset: int) -> tuple[int, int]:
        return 10, 10_000

    def stored(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Stored | None]:
        self.asked += places
        return {
            queue: Stored(offset, self.messages.get((queue, offset), 1_000_000 + offset))
            if low <= offset < high
            else None
            for queue, offset in places.items()
            if queue not in self.mute and queue in self.known
            for low, high in [self.known[queue]]
        }

    def first(self) -> dict[str, Any]:
        """The end of batch 0."""
        return self.tracker.latest(self.tracker.initial())


def positions(offset: dict[str, Any]) -> dict[MessageQueue, int]:
    return Offset.parse(offset).positions
