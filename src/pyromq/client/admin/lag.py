"""How far a group is behind, as a table. Pure.

What nobody could tell is None and not 0: a queue of which no offset is stored, a broker that did not answer. A total
over something unknown is unknown; `known_total` is its lower bound.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.stats import OffsetWrapper
from pyromq.protocol.message import MessageQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLag:
    """One queue: where its end is, and where the group is."""

    queue: MessageQueue
    broker_offset: int | None = None
    consumer_offset: int | None = None
    pull_offset: int | None = None
    last_consumed_ms: int | None = None
    client_id: str | None = None
    """The consumer that holds the queue, where that was asked for."""

    @property
    def lag(self) -> int | None:
        """Messages that wait."""
        if self.broker_offset is None or self.consumer_offset is None:
            return None
        return max(0, self.broker_offset - self.consumer_offset)

    @property
    def inflight(self) -> int | None:
        """Messages that consumers got and have not finished."""
        if self.pull_offset is None or self.consumer_offset is None:
            return None
        return max(0, self.pull_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """All queues of a group, in order; `failed` tells which brokers could not be asked, and why."""

    group: str
    queues: tuple[QueueLag, ...]
    consume_tps: float = 0.0
    failed: Mapping[str, ClientError] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """Messages that wait in all queues; None while one of them is unknown."""
        return None if self.failed else _sum(row.lag for row in self.queues)

    @property
    def known_total(self) -> int:
        """At least so many messages wait."""
        return sum(row.lag or 0 for row in self.queues)

    @property
    def inflight(self) -> int | None:
        """Messages that consumers got and have not finished; None while one queue is unknown."""
        return None if self.failed else _sum(row.inflight for row in self.queues)

    def topics(self) -> dict[str, int | None]:
        """The total of each topic."""
        names = sorted({row.queue.topic for row in self.queues})
        return {name: _sum(row.lag for row in self.queues if row.queue.topic == name) for name in names}


def queue_lag(
    queue: MessageQueue, seen: OffsetWrapper, *, stored: bool = True, client_id: str | None = None
) -> QueueLag:
    """A row out of a broker's figures, which say 0 for an offset that is not stored: `stored` tells them apart."""
    consumer = seen.consumer_offset if stored else None
    # Releases before 5.0 do not report the pull offset.
    pulled = seen.pull_offset if seen.pull_offset > 0 or consumer == 0 else None
    return QueueLag(
        queue=queue,
        broker_offset=seen.broker_offset,
        consumer_offset=consumer,
        pull_offset=pulled,
        last_consumed_ms=seen.last_timestamp if consumer and seen.last_timestamp > 0 else None,
        client_id=client_id,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
