"""The Spark data source: stream, batch, sink, commit-log reader."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Tell a session about both formats. Needed only where PyroMQ came as `--py-files`: Spark does not look there.

    >>> register(SparkSession.builder.getOrCreate())
    """
    from pyromq.spark.source import RocketMQLogSource, RocketMQSource  # noqa: PLC0415 - needs pyspark

    for source in (RocketMQSource, RocketMQLogSource):
        spark.dataSource.register(source)
