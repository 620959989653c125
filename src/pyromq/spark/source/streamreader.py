"""`spark.readStream.format("rocketmq")`: Spark's calls, passed on to the tracker (driver) and the puller (tasks).

The driver side is a new process for each query, which only tells offsets: what tasks need is imported by them alone.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyromq.spark.errors import plainly
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.brokers.longpoll import LongPoll
from pyromq.spark.source.offsets import Offset, ranges
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.source.partitions import QueuePartition, queue_partitions
from pyromq.spark.source.tracker import Tracker
from pyromq.spark.task.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

    from pyromq.arrow.rowshape import RowShape

NO_LIMIT = 2**31 - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over queues. Made in several processes; connections exist only where they are used."""

    def __init__(self, options: SourceOptions, shape: "Callable[[], RowShape]") -> None:
        self._options = options
        self._plan_shape = shape
        self._tracker: Tracker | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get the shape as it was planned, and what is wrong with it is found before they start.
        return {**self.__dict__, "_shape": self._shape}

    @cached_property
    def _shape(self) -> "RowShape":
        return self._plan_shape()

    @property
    def _tracking(self) -> Tracker:
        if self._tracker is None:
            cluster = Cluster(self._options)
            self._tracker = Tracker(self._options, cluster, LongPoll(cluster))
        return self._tracker

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._tracking.initial()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._tracking.latest(
            start,
            max_rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            max_bytes=limit.max_bytes if isinstance(limit, ReadMaxBytes) else None,
            everything=isinstance(limit, ReadAllAvailable),
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        # An adaptive size is a limit too; "all" is what Spark says when nothing may limit a batch.
        return ReadAllAvailable() if options.target_batch_ms is None else ReadMaxRows(NO_LIMIT)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._tracking.report()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._tracking.freeze()

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return queue_partitions(ranges(Offset.parse(start), Offset.parse(end)), self._options)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from pyromq.spark.task.rangereader import read_ranges  # noqa: PLC0415 - see above

        assert isinstance(partition, QueuePartition)  # noqa: S101 - Spark returns what `partitions` made
        settle()
        return read_ranges(partition, self._options, self._shape)

    def commit(self, end: dict[str, Any]) -> None:
        self._tracking.commit(end)

    def stop(self) -> None:
        """Close connections. Spark kills the process instead, so nothing depends on it."""
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None
