"""`pyromq pipeline` as a process: signals finish the batch under way, nothing outlives it, failures are one line."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.sink.table.manifest import Manifests
from tests.integration.client.clusters import standalone_beside
from tests.spark.test_pipeline import order, produce
from tests.spark.topics import eventually

BOUND = 600.0
PIPELINE = """
name: {topic}
source: {{nameServer: "{namesrv}", topic: {topic}, maxRows: 50}}
parse: {{schema: id bigint, on_error: drop}}
transform: [{{python: "slow:slowly"}}]
sinks: [{{parquet: {{path: lake}}}}]
trigger: every 100ms
checkpoint: state
spark: {{spark.driver.memory: 768m, spark.master: "local[2]"}}
"""
SLOW = """
import pathlib, time
from pyspark.sql import functions as F

def wait(number):
    pathlib.Path(__file__).with_name("begun").touch()
    time.sleep(0.1)
    return number

def slowly(rows):
    return rows.withColumn("id", F.udf(wait, "bigint")("id"))
"""


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("signals")) as server:
        yield server.namesrv_address


@contextlib.contextmanager
def in_a_batch(namesrv: str, topic: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A pipeline that is in the middle of its first batch, in a process group of its own."""
    produce(namesrv, topic, [order(number) for number in range(200)])
    (folder / "pipeline.yaml").write_text(PIPELINE.format(namesrv=namesrv, topic=topic))
    (folder / "slow.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "pyromq", "pipeline", "run", str(folder / "pipeline.yaml"), "--grace", "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
        start_new_session=True,
    )
    try:
        end = time.monotonic() + BOUND
        while not (folder / "begun").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, "no batch began"
            time.sleep(0.05)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# SP-14
def test_signals_to_the_group_end_it_after_the_batch(namesrv: str, tmp_path: Path) -> None:
    with in_a_batch(namesrv, "stopped", tmp_path) as process:
        for number in (signal.SIGTERM, signal.SIGINT):  # as a process manager, and as a terminal does it
            os.killpg(process.pid, number)
        said, _ = process.communicate(timeout=BOUND)
    assert process.returncode == 0, said
    assert said.splitlines()[-1] == "50 messages in 1 batches: 50 rows to parquet-0.", said
    assert len(said.splitlines()) == 2, said  # one batch, and the sum
    checkpoint = SparkCheckpoint(tmp_path / "state")
    assert (checkpoint.last_planned(), checkpoint.last_committed()) == (0, 0)
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in Manifests(tmp_path / "lake").paths()) == 50


def test_nothing_outlives_a_runner_that_is_killed(namesrv: str, tmp_path: Path) -> None:
    with in_a_batch(namesrv, "killed", tmp_path) as process:
        children = descendants(process.pid)
        assert any("java" in name for name in children.values())
        process.kill()
        eventually("their end", lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_spark_that_is_killed_is_one_line(namesrv: str, tmp_path: Path, long_run: bool) -> None:
    if not long_run:
        pytest.skip("only with --long")
    with in_a_batch(namesrv, "crashed", tmp_path) as process:
        (java,) = (pid for pid, name in descendants(process.pid).items() if name == "java")
        os.kill(java, signal.SIGKILL)
        said, _ = process.communicate(timeout=BOUND)
    assert process.returncode == 1, said
    assert said.startswith("pyromq: pipeline crashed stopped: Spark's process ended"), said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "transform", "wanted"),
    [
        ("check", "SELECT nobody FROM input", "pyromq: transform[0]: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        (
            "run",
            "SELECT raise_error('no such shop') AS id FROM input",
            "pyromq: pipeline failing stopped: [STREAM_FAILED]",
        ),
    ],
)
def test_a_failure_is_one_line(namesrv: str, tmp_path: Path, command: str, transform: str, wanted: str) -> None:
    produce(namesrv, "failing", [order(1)])
    text = PIPELINE.format(namesrv=namesrv, topic="failing").replace(
        '{python: "slow:slowly"}', f'{{sql: "{transform}"}}'
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pyromq", "pipeline", command, str(tmp_path / "pipeline.yaml")],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(wanted), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    if command == "run":
        assert "no such shop" in done.stderr


def descendants(pid: int) -> dict[int, str]:
    """Process ids to names; of this machine's, since Spark's have groups and sessions of their own."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            parents.setdefault(int(rest.split()[1]), []).append(int(stat.parent.name))
            names[int(stat.parent.name)] = name
    found, waiting = {}, [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found[child] = names[child]
            waiting.append(child)
    return found
