"""The Spark session of a runner: defaults that make small batches quick, and a word about Java before Spark fails."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyromq.spark.errors import SparkError
from pyromq.spark.launch.jvm import start_context
from pyromq.spark.launch.registration import prepare
from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.definition.plan import text
from pyromq.spark.storage.place import Scalar, known_options, scheme_of

OLDEST_JAVA = 17
LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
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


def parallelism(session: SparkSession) -> int:
    """Tasks that run at a time: what the cluster has now, or is to have. Under Connect, the processors of this machine.

    Executors may still be on their way, and the number is fixed with the first start.
    """
    try:
        context = session.sparkContext
        conf = context.getConf()
        promised = int(conf.get("spark.executor.instances", "0")) * int(conf.get("spark.executor.cores", "1"))
        most = conf.get("spark.cores.max")
        return max(int(context.defaultParallelism), promised, int(most) if most else 0)
    except (PySparkException, ValueError):
        return cores()


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
    }
    scheme = scheme_of(definition.checkpoint)
    if scheme is None:
        wanted["spark.sql.streaming.checkpointFileManagerClass"] = LOCAL_CHECKPOINTS
    if scheme == "s3":
        wanted |= s3a_settings(known_options("s3", definition.storage))
    given = {key: text(value) for key, value in definition.spark.items()}
    if given.get("spark.master", wanted["spark.master"]).startswith("local"):
        wanted |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if given.get("spark.speculation", "false") == "true":
        raise SessionError("spark.speculation repeats tasks that still run, which sinks cannot tell from new rows")
    return wanted | given


@contextmanager
def quiet_java(environ: MutableMapping[str, str]) -> Iterator[None]:
    """A Java machine that is started meanwhile logs little. Not by `spark.driver.extraJavaOptions`: that is the user's,
    wherever it stands, and comes after these options, so it wins.
    """
    before = environ.get(JAVA_OPTIONS)
    environ[JAVA_OPTIONS] = " ".join(filter(None, (f"-Dlog4j2.configurationFile={QUIET.as_uri()}", before)))
    try:
        yield
    finally:
        environ.pop(JAVA_OPTIONS)
        if before is not None:
            environ[JAVA_OPTIONS] = before


def s3a_settings(options: Mapping[str, Scalar]) -> dict[str, str]:
    """Hadoop's words for what is known about S3, so that a definition says it once."""
    known = {
        "endpoint_url": "spark.hadoop.fs.s3a.endpoint",
        "key": "spark.hadoop.fs.s3a.access.key",
        "secret": "spark.hadoop.fs.s3a.secret.key",
        "token": "spark.hadoop.fs.s3a.session.token",
    }
    made = {known[name]: text(value) for name, value in options.items() if name in known}
    if "endpoint_url" in options:  # most that are not Amazon's have one address for all buckets
        made["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return made


def start_session(definition: Definition, shuffle_partitions: int) -> SparkSession:
    """A session for the pipeline, or the one that spark-submit made. Raises SessionError."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    wanted = settings(definition, shuffle_partitions)
    prepare(wanted["spark.master"])
    # The master that spark-submit names goes before the default, but not before the definition.
    if "spark.master" not in definition.spark and "PYSPARK_GATEWAY_PORT" in os.environ:
        del wanted["spark.master"]
    with quiet_java(os.environ):
        start_context(wanted)
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")  # Spark takes a session without a program file for a shell and says more
    return session
