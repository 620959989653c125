"""The task's side of both sources: ranges in, record batches out."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.offsets import Range
from pyromq.spark.partition import QueuePartition
from pyromq.spark.planning import plan
from pyromq.spark.pull import Puller, cached_cluster
from pyromq.spark.rows import Shape
from pyromq.spark.sourceoptions import SourceOptions


def partitions(ranges: Sequence[Range], options: SourceOptions) -> list[QueuePartition]:
    """The tasks of a batch."""
    return [
        QueuePartition(group)
        for group in plan(
            ranges,
            max_partitions=options.max_partitions or os.cpu_count() or 1,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
    ]


def read(partition: QueuePartition, options: SourceOptions, shape: Shape) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Raises ReadError, DataLossError or BadRecordError."""
    yield from Puller(options, cached_cluster(options)).batches(partition.ranges, shape)
