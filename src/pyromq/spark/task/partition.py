"""What a task gets to do: ranges of queues. Small, and readable wherever this package is installed."""

from pyspark.sql.datasource import InputPartition

from pyromq.spark.source.offsets import Range


class QueuePartition(InputPartition):
    """The ranges that one task reads, one after another."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"QueuePartition({', '.join(map(str, self.ranges))})"
