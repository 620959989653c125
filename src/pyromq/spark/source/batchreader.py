"""`spark.read.format("rocketmq")`: both ends are fixed when the first action plans the read; later ones repeat it."""

import copy
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyromq.arrow.rowshape import RowShape
from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import DataLossError, OptionError, RouteError, plainly
from pyromq.spark.source.bounds import all_bounds, complete, ending_offsets, starting_offsets
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.filters import Narrowing
from pyromq.spark.source.offsets import Offset, Positions, Range, losses, ranges
from pyromq.spark.source.options import DataLoss, FilterType, SourceOptions
from pyromq.spark.source.partitions import QueuePartition, queue_partitions
from pyromq.spark.task.rangereader import read_ranges
from pyromq.spark.task.worker import settle


class BatchReader(DataSourceReader):
    """A bounded read of queues."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        if options.starting_offsets == "latest":
            raise OptionError("startingOffsets=latest leaves nothing for a batch to read; say earliest, JSON or a time")
        self._options = options
        self._shape = shape

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        with Cluster(self._options) as cluster:
            return queue_partitions(self._ranges(cluster), self._options)

    def _ranges(self, cluster: Cluster) -> list[Range]:
        return ranges(*self._ends(cluster))

    def _ends(self, cluster: Cluster) -> tuple[Offset, Offset]:
        queues = cluster.patiently(cluster.queues)
        if not queues and not self._options.wait_for_topic:
            wanted = self._options.topics_pattern or ", ".join(cluster.topics())
            raise RouteError(f"nobody serves {wanted}: create the topic, or check nameServer")
        bounds = all_bounds(cluster, queues)
        start = Offset(starting_offsets(cluster, queues, bounds, default="earliest"))
        end = ending_offsets(cluster, queues, bounds)
        # Offsets beyond the last message are no loss: there is nothing there yet.
        finish = Offset(
            {queue: min(offset, bounds[queue][1]) for queue, offset in end.items()},
            skip={queue: bounds[queue][0] for queue, offset in start.positions.items() if offset < bounds[queue][0]},
        )
        lost = losses(start, finish)
        if lost and self._options.fail_on_data_loss is DataLoss.FAIL:
            raise DataLossError(lost)
        return start, finish

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        # Without any partition Spark reads one all the same, and calls it None.
        return read_ranges(partition, self._options, self._shape) if isinstance(partition, QueuePartition) else iter(())


class FilteringReader(BatchReader):
    """The same, narrowed by the filters of the query. Only for those who ask for it.

    A reader that has `pushFilters` fails while Spark's setting for it is off; and Spark 4.3 keeps what the last
    optimised query made of a DataFrame for all its uses, those with another filter or none among them.
    """

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        super().__init__(options, shape)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._narrowing = Narrowing.of(filters)
        tags = self._narrowing.tag_expression(self._options.wanted_tags)
        if tags and self._options.filter_type is FilterType.TAG:
            self._options = copy.copy(self._options)
            self._options.sub_expression = tags
        return filters  # of all of them it is only about what they say

    def _ranges(self, cluster: Cluster) -> list[Range]:
        narrowing = self._narrowing
        found = [narrowing.clipped(each) for each in super()._ranges(cluster) if narrowing.lets(each)]
        if narrowing.tags == frozenset():
            found = []
        starts, ends = (self._by_time(cluster, found, time) for time in (narrowing.since, narrowing.until))
        for index, each in enumerate(found):
            start, end = starts.get(_queue(each), each.start), ends.get(_queue(each), each.end)
            found[index] = each._replace(start=max(each.start, start), end=min(each.end, end))
        return found

    def _by_time(self, cluster: Cluster, wanted: Sequence[Range], time: int | None) -> Positions:
        """The first offsets stored at or after a time."""
        if time is None:
            return {}
        queues = [_queue(each) for each in wanted]
        return complete(cluster, queues, lambda: cluster.by_time(dict.fromkeys(queues, max(time, 0))))


def _queue(wanted: Range) -> MessageQueue:
    return MessageQueue(*wanted[:3])
