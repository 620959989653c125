"""One Spark session for all tests here: starting it takes seconds, so they share it."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores. Skips without Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, which is not on the path")
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = configured(SparkSession.builder.master("local[2]"), folder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def configured(builder: SparkSession.Builder, folder: Path) -> SparkSession.Builder:
    """Small, quiet, and with everything it writes in the folder."""
    settings = {
        "spark.app.name": "pyromq-tests",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - a socket's path must be short
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.local.dir": str(folder / "local"),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
