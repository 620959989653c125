"""How many tasks a pipeline may have at a time."""

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from pyromq.spark.pipeline.run.session import cores, parallelism


def session(running: int, **settings: str) -> SparkSession:
    conf = {f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}
    context = SimpleNamespace(defaultParallelism=running, getConf=lambda: SimpleNamespace(get=conf.get))
    return cast("SparkSession", SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize(
    ("running", "settings", "expected"),
    [
        (8, {}, 8),
        (2, {"executor_instances": "10", "executor_cores": "4"}, 40),  # executors that are on their way
        (2, {"cores_max": "12"}, 12),
        (64, {"executor_instances": "2", "executor_cores": "4"}, 64),
    ],
)
def test_the_cluster_says(running: int, settings: dict[str, str], expected: int) -> None:
    assert parallelism(session(running, **settings)) == expected


def test_under_connect_this_machine_does() -> None:
    class Remote:
        @property
        def sparkContext(self) -> object:  # noqa: N802 - Spark's name
            raise PySparkAttributeError("there is none")

    assert parallelism(cast("SparkSession", Remote())) == cores()
