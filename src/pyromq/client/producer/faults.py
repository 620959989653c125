"""Broker avoidance: how long a broker that was slow or failed is passed over, and the queue that is taken meanwhile.

Pure bookkeeping over an injected clock; probing unreachable brokers is `detector.py`. Records are kept per broker name
and simply expire; a record is only removed when its broker has vanished from all routes.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyromq.client.clock import Clock
from pyromq.client.errors import BrokerError, ClientError
from pyromq.client.instance.routes import PublishInfo
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError


@dataclass(frozen=True, slots=True)
class AvoidanceTable:
    """Steps: a latency of at least `latency_ms[i]` means avoiding the broker for `avoid_ms[i]`, the last that fits."""

    latency_ms: tuple[int, ...]
    avoid_ms: tuple[int, ...]
    isolation_ms: int
    """Pseudo-latency booked for a failed round."""

    def __post_init__(self) -> None:
        if len(self.latency_ms) != len(self.avoid_ms) or not self.latency_ms:
            raise ValueError("latency and avoidance steps must be two lists of the same length, at least one step")
        if list(self.latency_ms) != sorted(self.latency_ms):
            raise ValueError("latency steps must ascend")

    def avoidance(self, latency_ms: float) -> int:
        """How many milliseconds a broker with this latency is avoided."""
        for step in range(len(self.latency_ms) - 1, -1, -1):
            if latency_ms >= self.latency_ms[step]:
                return self.avoid_ms[step]
        return 0


CURRENT_TABLE = AvoidanceTable(
    (50, 100, 550, 1800, 3000, 5000, 15000), (0, 0, 2000, 5000, 6000, 10000, 30000), isolation_ms=10_000
)
"""Apache's steps since 5.1.4."""

CLASSIC_TABLE = AvoidanceTable(
    (50, 100, 550, 1000, 2000, 3000, 15000), (0, 0, 30000, 60000, 120000, 180000, 600000), isolation_ms=30_000
)
"""The steps of every release up to 5.1.3, as a preset."""


@dataclass(slots=True)
class FaultRecord:
    """What is known about one broker. Times are milliseconds of the table's clock."""

    latency_ms: float
    available_at: float = 0.0
    check_at: float = 0.0
    reachable: bool = True


class FaultTable:
    """Records per broker name, bounded by the number of brokers a cluster can have in its routes."""

    def __init__(self, table: AvoidanceTable, now_ms: Callable[[], float]) -> None:
        self.table = table
        self._now_ms = now_ms
        self._records: dict[str, FaultRecord] = {}

    def update(self, broker: str, latency_ms: float, *, isolate: bool, reachable: bool) -> None:
        """Book the outcome of one round: its latency, or the fixed pseudo-latency when the round failed."""
        avoid = self.table.avoidance(self.table.isolation_ms if isolate else latency_ms)
        record = self._records.get(broker)
        if record is None:
            record = self._records[broker] = FaultRecord(latency_ms)
        record.latency_ms = latency_ms
        record.reachable = reachable
        if avoid > 0:
            # Only ever later: a quick answer between two failures must not end the avoidance early.
            record.available_at = max(record.available_at, self._now_ms() + avoid)

    def available(self, broker: str) -> bool:
        """No record, or its time is over."""
        record = self._records.get(broker)
        return record is None or self._now_ms() >= record.available_at

    def reachable(self, broker: str) -> bool:
        """Unknown brokers count as reachable; only failures say otherwise."""
        record = self._records.get(broker)
        return record is None or record.reachable

    def forget(self, broker: str) -> None:
        self._records.pop(broker, None)

    def get(self, broker: str) -> FaultRecord | None:
        return self._records.get(broker)

    def due(self, interval_ms: float) -> Iterator[tuple[str, FaultRecord]]:
        """Records whose next check has come; each one handed out is due again after `interval_ms`."""
        now = self._now_ms()
        for broker, record in list(self._records.items()):
            if now >= record.check_at:
                record.check_at = now + interval_ms
                yield broker, record


def choose_queue(info: PublishInfo, last_broker: str | None, faults: FaultTable | None) -> MessageQueue:
    """The next queue. With a fault table: one whose broker is available, else one whose broker is reachable.

    The broker of the previous round is only taken again when there is no other.
    """
    if faults is None:
        if last_broker is None:
            return info.next_queue()
        return _probe(info, last_broker, None) or info.next_queue()
    if last_broker is not None:
        info.index.reset()
    return (
        _probe(info, last_broker, faults.available) or _probe(info, last_broker, faults.reachable) or info.next_queue()
    )


def _probe(info: PublishInfo, last_broker: str | None, accept: Callable[[str], bool] | None) -> MessageQueue | None:
    """The first of at most as many probes as there are queues that is not on `last_broker` and is accepted."""
    for _ in range(len(info.queues)):
        queue = info.next_queue()
        if queue.broker_name != last_broker and (accept is None or accept(queue.broker_name)):
            return queue
    return None


class Books:
    """What the attempts of one producer say about their brokers, entered into its table where one is kept.

    `began` is when the attempt did.
    """

    def __init__(self, faults: FaultTable | None, clock: Clock, *, detector: bool) -> None:
        self._faults = faults
        self._clock = clock
        self._detector = detector

    def success(self, queue: MessageQueue, began: float) -> None:
        """The broker answered as it should."""
        if self._faults is not None:
            self.enter(queue, began, isolate=False, reachable=True)

    def failure(self, queue: MessageQueue, began: float, error: BaseException) -> None:
        """A transport fault or an answer isolates the broker; what this client found out itself does not."""
        if isinstance(error, RemotingError):
            self.enter(queue, began, isolate=True, reachable=not self._detector)
        elif isinstance(error, BrokerError):
            self.enter(queue, began, isolate=True, reachable=False)
        elif isinstance(error, (ClientError, asyncio.CancelledError)):
            self.enter(queue, began, isolate=False, reachable=True)

    def enter(self, queue: MessageQueue, began: float, *, isolate: bool, reachable: bool) -> None:
        if self._faults is not None:
            latency_ms = (self._clock.monotonic() - began) * 1000
            self._faults.update(queue.broker_name, latency_ms, isolate=isolate, reachable=reachable)
