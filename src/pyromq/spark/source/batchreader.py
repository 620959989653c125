"""`spark.read.format("rocketmq")`: both ends are fixed when the first action plans the read; later ones repeat it."""

from collections.abc import Iterator, Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.spark.errors import DataLossError, OptionError, RouteError
from pyromq.spark.source.bounds import all_bounds, ending_offsets, starting_offsets
from pyromq.spark.source.cluster import Cluster
from pyromq.spark.source.offsets import Offset, losses, ranges
from pyromq.spark.source.options import DataLoss, SourceOptions
from pyromq.spark.source.partitions import QueuePartition, queue_partitions
from pyromq.spark.task.rangereader import read_ranges
from pyromq.spark.task.rowshape import RowShape
from pyromq.spark.task.worker import settle


class BatchReader(DataSourceReader):
    """A bounded read of queues."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        if options.starting_offsets == "latest":
            raise OptionError("startingOffsets=latest leaves nothing for a batch to read; say earliest, JSON or a time")
        self._options = options
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        with Cluster(self._options) as cluster:
            return queue_partitions(ranges(*self._ends(cluster)), self._options)

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
