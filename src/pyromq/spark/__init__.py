"""The Spark data source: stream, batch, sink, commit-log reader; and pipelines, of which `Pipeline` is the way in."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyromq.spark.pipeline.builder import Pipeline
    from pyromq.spark.pipeline.run.replay import replay

__all__ = ["Pipeline", "register", "replay"]


def register(spark: "SparkSession") -> None:
    """Tell a session about both formats. Needed only where PyroMQ came as `--py-files` alone: Spark looks elsewhere.

    Enough for batches; the driver side of a stream also needs PyroMQ on the driver's PYTHONPATH.

    >>> register(SparkSession.builder.getOrCreate())
    """
    from pyromq.spark.source.formats import RocketMQLogSource, RocketMQSource  # noqa: PLC0415 - needs pyspark

    for source in (RocketMQSource, RocketMQLogSource):
        spark.dataSource.register(source)


def __getattr__(name: str) -> object:
    # Spark imports this package in every session, whether it is used or not.
    if name == "Pipeline":
        from pyromq.spark.pipeline.builder import Pipeline  # noqa: PLC0415 - see above

        return Pipeline
    if name == "replay":
        from pyromq.spark.pipeline.run.replay import replay  # noqa: PLC0415 - see above

        return replay
    raise AttributeError(f"module 'pyromq.spark' has no attribute {name!r}")
