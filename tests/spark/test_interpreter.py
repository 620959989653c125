"""Which Python Spark runs, and with which options Java, when a script is run as `.venv/bin/python job.py`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import standalone
from tests.spark.topics import BOUND, create, fill

TOPIC = "interpreted"
SESSION = """
spark = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1").config(
    "spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false").getOrCreate()
"""
COUNT = "print(spark.read.format('rocketmq').options(nameServer={namesrv!r}, topic={topic!r}).load().count())"
IMPORTED = f"import pyromq\nfrom pyspark.sql import SparkSession\n{SESSION}\n{COUNT}"
REGISTERED = (
    f"from pyspark.sql import SparkSession\n{SESSION}\nfrom pyromq.spark import register\nregister(spark)\n{COUNT}"
)
OPTIONS = """
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run.session import start_session

made = loads("name: kept\\nsource: {nameServer: 127.0.0.1:9876, topic: t}\\n"
    "sinks: [parquet: {path: out}]\\ncheckpoint: state")
spark = start_session(made, 1)
system = spark.sparkContext._jvm.java.lang.System
print(system.getProperty("from.defaults"), system.getProperty("log4j2.configurationFile").rsplit("/")[-1])
"""


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, which is not on the path")
    with standalone(tmp_path_factory.mktemp("interpreter") / "data") as server:
        create(server["namesrv"], TOPIC)
        fill(server["namesrv"], TOPIC, range(40))
        yield server["namesrv"]


def run(code: str, folder: Path, **environ: str) -> str:
    """The last line that a job prints, run by this Python in a shell whose `python3` knows nothing of PyroMQ."""
    if sys.prefix == sys.base_prefix:
        pytest.skip("needs another Python than the one that has PyroMQ")
    others = folder / "bin"
    others.mkdir()
    (others / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    told = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")
    inherited = {name: value for name, value in os.environ.items() if name not in told}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=inherited | {"PATH": f"{others}{os.pathsep}{os.environ['PATH']}"} | environ,
        timeout=3 * BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("code", [IMPORTED, REGISTERED], ids=["imported", "registered"])
def test_spark_runs_the_python_of_a_script_that_imports_pyromq(code: str, namesrv: str, tmp_path: Path) -> None:
    assert run(code.format(namesrv=namesrv, topic=TOPIC), tmp_path) == "40"


def test_a_pipeline_keeps_the_java_options_of_spark_defaults(tmp_path: Path) -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, which is not on the path")
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dfrom.defaults=kept\n")
    assert run(OPTIONS, tmp_path, SPARK_CONF_DIR=str(conf)) == "kept log4j2.properties"
