"""Found by Spark, which imports every top-level module whose name begins so, and registers its `DefaultSource`."""

from pyromq.spark.source.formats import RocketMQLogSource as DefaultSource

__all__ = ["DefaultSource"]
