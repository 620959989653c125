"""The Spark session of a runner: defaults that make small batches quick, and a word about Java before Spark fails."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyromq.spark.errors import SparkError
from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.definition.plan import text

OLDEST_JAVA = 17
LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
QUIET = Path(__file__).with_name("log4j2.properties")


class SessionError(SparkError):
    """Spark cannot be started."""


def check_java() -> None:
    """Raises SessionError when there is no Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise SessionError(f"Spark needs Java {OLDEST_JAVA} or newer: none is on the path, and JAVA_HOME is not set")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's Java
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"{java} cannot be run: {error}") from error
    match = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if match is None or int(match[1]) < OLDEST_JAVA:
        found = match[1] if match else "no version"
        raise SessionError(f"Spark needs Java {OLDEST_JAVA} or newer; {java} is {found}")


def cores() -> int:
    """Processors of this machine."""
    return os.cpu_count() or 1


def settings(definition: Definition, shuffle_partitions: int) -> dict[str, str]:
    """The runner's defaults under what the definition says."""
    wanted = {
        "spark.app.name": f"pyromq-{definition.name}",
        "spark.master": "local[*]",
        "spark.python.unix.domain.socket.enabled": "true" if sys.platform != "win32" else "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
    }
    if "://" not in definition.checkpoint or definition.checkpoint.startswith("file:"):
        wanted["spark.sql.streaming.checkpointFileManagerClass"] = LOCAL_CHECKPOINTS
    given = {key: text(value) for key, value in definition.spark.items()}
    if given.get("spark.master", wanted["spark.master"]).startswith("local"):
        wanted |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if given.get("spark.speculation", "false") == "true":
        raise SessionError("spark.speculation repeats tasks that still run, which sinks cannot tell from new rows")
    return wanted | given


def start_session(definition: Definition, shuffle_partitions: int) -> SparkSession:
    """A session for the pipeline, or the one that spark-submit made. Raises SessionError."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in settings(definition, shuffle_partitions).items():
        # The master that spark-submit names goes before the default, but not before the definition.
        if key == "spark.master" and "spark.master" not in definition.spark and "PYSPARK_GATEWAY_PORT" in os.environ:
            continue
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")  # Spark takes a session without a program file for a shell and says more
    return session
