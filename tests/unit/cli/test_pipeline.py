"""`pyromq pipeline` where no Spark and no server is needed."""

import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from typer.testing import CliRunner, Result

from pyromq.cli.pipeline import app
from pyromq.spark.pipeline.state import State
from pyromq.spark.sink.base import Attempt
from pyromq.spark.sink.parquet import ParquetSink


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    assert run("init", path, "--topic", "sales").exit_code == 0
    return path


def test_a_new_file_is_well_defined(file: Path) -> None:
    assert "topic: sales-dlq" in file.read_text()
    done = run("check", file, "--no-plan")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, f"{file}: pipeline orders is well defined.")
    assert run("init", file).exit_code == 1


def test_mistakes_are_said_in_a_line(file: Path) -> None:
    file.write_text(file.read_text().replace("dedup:", "dedupe:"))
    done = run("check", file, "--no-plan")
    assert done.exit_code == 1
    assert done.output.strip() == "pyromq: orders.yaml:15: dedupe: there is no such field; did you mean dedup?"


def test_status_of_what_never_ran_and_of_what_runs(file: Path) -> None:
    assert run("status", file).output.startswith("orders: not running, batch -1 done never")
    with State(str(file.parent / "state/orders")).locked():
        assert json.loads(run("status", file, "--json").output)["running"] is True
    assert run("history", file, "--json").output.strip() == "[]"


def test_rewind_of_what_never_ran_is_refused(file: Path) -> None:
    file.write_text(file.read_text().replace("127.0.0.1:9876", "127.0.0.1:1"))
    done = run("rewind", file, "--to", "earliest")
    assert done.exit_code == 1
    assert "pyromq: " in done.output


def test_compaction(file: Path) -> None:
    sink = ParquetSink(name="parquet-0", path=str(file.parent / "lake/orders"), partition_by=["day"])
    for batch in range(3):
        rows = pa.RecordBatch.from_pydict({"id": [str(batch)], "day": ["2026-01-01"]})
        task = sink.open(Attempt("q", batch, 0), rows.schema)
        task.write(rows)
        sink.commit("q", batch, [task.close()])
    assert "rows in 3 files" in run("status", file).output
    done = run("compact", file, "--older-than", "0s")
    assert "3 files became 1; 0 old ones deleted" in done.output


def test_export(file: Path) -> None:
    done = run("export-sdp", file, file.parent / "project")
    assert done.exit_code == 0
    assert (file.parent / "project" / "spark-pipeline.yml").exists()
    assert run("export-sdp", file, file.parent / "project").exit_code == 1
