"""The Spark data source: stream, batch, sink, commit-log reader; and pipelines, of which `Pipeline` is the way in."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyromq.spark.listener import ProgressListener, QueryProgress
    from pyromq.spark.pipeline.builder import Pipeline
    from pyromq.spark.pipeline.run.replay import replay
    from pyromq.spark.sink.table.readers import table_files

__all__ = ["Pipeline", "ProgressListener", "QueryProgress", "register", "replay", "table_files"]


def register(spark: "SparkSession", *, fork: bool = False) -> None:
    """Tell a session about both formats. Needed where Spark cannot find them by itself: PyroMQ came as `--py-files`
    alone, or the session was started with a Python that does not have it.

    On a local master Spark then runs this Python for them, with Spark's modules from the installed package, so that
    streams start sooner; `fork` starts them sooner still, from a process that has all modules loaded and ends with this
    one. Neither is done where `PYSPARK_PYTHON` names another Python. With `--py-files` it is enough for batches; the
    driver side of a stream also needs PyroMQ on the driver's PYTHONPATH.

    >>> register(SparkSession.builder.getOrCreate())
    """
    from pyromq.spark.launch.registration import register_formats  # noqa: PLC0415 - see below
    from pyromq.spark.source.formats import RocketMQLogSource, RocketMQSource  # noqa: PLC0415 - needs pyspark

    register_formats(spark, RocketMQSource, RocketMQLogSource, fork=fork)


def __getattr__(name: str) -> object:
    # Spark imports this package in every session, whether it is used or not.
    if name == "Pipeline":
        from pyromq.spark.pipeline.builder import Pipeline  # noqa: PLC0415 - see above

        return Pipeline
    if name == "replay":
        from pyromq.spark.pipeline.run.replay import replay  # noqa: PLC0415 - see above

        return replay
    if name in ("ProgressListener", "QueryProgress"):
        from pyromq.spark import listener  # noqa: PLC0415 - see above

        return getattr(listener, name)
    if name == "table_files":
        from pyromq.spark.sink.table.readers import table_files  # noqa: PLC0415 - see above

        return table_files
    raise AttributeError(f"module 'pyromq.spark' has no attribute {name!r}")
