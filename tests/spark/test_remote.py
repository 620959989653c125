"""Spark Connect and Declarative Pipelines find the formats by themselves. # SP-01

They need grpcio, grpcio-status, googleapis-common-protos and pandas: `pip install 'pyspark[connect,pipelines]'`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # has no annotations
import pyspark
import pytest

from tests.processes import standalone
from tests.spark.topics import BOUND, create, fill

TOPIC = "remote"
HOME = Path(pyspark.__file__).parent
DEFINITION = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table(format="parquet")
def orders():
    return (
        spark.readStream.format("rocketmq")
        .options(nameServer={namesrv!r}, topic={topic!r}, startingOffsets="earliest")
        .load()
        .selectExpr("queueId", "CAST(body AS STRING) AS text")
    )
"""


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    for module in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(module, reason="Spark Connect needs it: pip install 'pyspark[connect,pipelines]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, which is not on the path")
    with standalone(tmp_path / "data") as server:
        create(server["namesrv"], TOPIC)
        fill(server["namesrv"], TOPIC, range(100))
        yield server["namesrv"]


def run(*command: str | Path, folder: Path) -> str:
    environ = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environ, timeout=5 * BOUND, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout


def test_connect(namesrv: str, tmp_path: Path) -> None:
    script = Path(__file__).parent / "connected.py"
    told = json.loads(run(sys.executable, script, namesrv, TOPIC, folder=tmp_path).strip().splitlines()[-1])
    assert told == {"client": "pyspark.sql.connect.session", "rows": 100, "distinct": 100}


def test_declarative_pipeline(namesrv: str, tmp_path: Path, long_run: bool) -> None:
    if not long_run:
        pytest.skip("takes a minute; run with --long")
    project = tmp_path / "project"
    (project / "transformations").mkdir(parents=True)
    (project / "spark-pipeline.yml").write_text(
        f"name: orders\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    (project / "transformations" / "orders.py").write_text(DEFINITION.format(namesrv=namesrv, topic=TOPIC))
    conf = ("--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse")
    run(HOME / "bin" / "spark-pipelines", "run", "--remote", "local[2]", *conf, folder=project)
    rows = pq.read_table(tmp_path / "warehouse" / "orders").to_pylist()
    assert sorted(int(row["text"]) for row in rows) == list(range(100))
