"""What costs a question to brokers or a look into folders, and so is asked only now and then while a pipeline runs."""

import time
from collections.abc import Callable

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import SparkError
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.definition.plan import source_options
from pyromq.spark.pipeline.run.progress import Progress, queue_name
from pyromq.spark.pipeline.state.position import waiting_seconds
from pyromq.spark.pipeline.state.tables import TableSize, read_tables
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.offsets import Offset, standing

EVERY = 10.0
SHARE = 20
"""A look may take this part of the time, so large tables and slow brokers are asked less often."""
MAX_QUEUES = 256
"""Queues that are asked for the age of their next message, those furthest behind first."""


class Survey:
    """The answers of the last look, put into progress. For one thread."""

    def __init__(
        self,
        definition: Definition,
        *,
        cluster: Cluster | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._definition = definition
        self._cluster = cluster
        self._clock = clock
        self._wall_clock = wall_clock
        self._next: float | None = None
        self._ages: dict[str, float] = {}
        self._tables: dict[str, TableSize] = {}

    def complete(self, progress: Progress, end: Offset | None) -> None:
        """Fill in ages and tables. What cannot be found out is left out."""
        began = self._clock()
        if self._next is None or began >= self._next:
            self._look(progress, end)
            ended = self._clock()
            self._next = ended + max(EVERY, SHARE * (ended - began))
        progress.tables = dict(self._tables)
        progress.lag_seconds_by_queue = {
            name: self._ages[name] if behind else 0.0
            for name, behind in progress.lag_by_queue.items()
            if not behind or name in self._ages
        }

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.wire.close()
            self._cluster = None

    def _look(self, progress: Progress, end: Offset | None) -> None:
        try:
            self._tables = read_tables(self._definition)
        except (SparkError, OSError):
            self._tables = {}
        if progress.lag is None and end is not None:
            self._measure(progress, end)
        behind: dict[MessageQueue, int] = {}
        for queue in end.positions if end is not None else ():
            count = progress.lag_by_queue.get(queue_name(queue), 0)
            if count:
                behind[queue] = count
        self._ages = {}
        if end is None or not behind:
            return
        asked = sorted(behind, key=lambda queue: -behind[queue])[:MAX_QUEUES]
        try:
            found = waiting_seconds(self._asked, {queue: end.positions[queue] for queue in asked}, self._wall_clock)
        except FAULTS:
            return
        self._ages = {queue_name(queue): seconds for queue, seconds in found.items()}

    def _measure(self, progress: Progress, end: Offset) -> None:
        """Ask the brokers what the source did not tell. A queue without a route may be away or deleted: unknown."""
        try:
            queues = self._asked.queues()
            bounds = self._asked.bounds(queues)
        except FAULTS:
            return
        available = standing(end.positions, bounds, gone=end.gone).available
        progress.lag_by_queue = {queue_name(queue): available.get(queue, 0) for queue in bounds}
        if bounds.keys() >= end.positions.keys() | set(queues):
            progress.lag = sum(available.values())

    @property
    def _asked(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(source_options(self._definition))
        return self._cluster
