"""`pyromq pipeline` where no Spark and no server is needed."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from pyromq.cli.output import show
from pyromq.cli.pipeline.command import app
from pyromq.cli.pipeline.view import board, duration, letters_view, size
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.spark.pipeline.definition.plan import Plan
from pyromq.spark.pipeline.definition.yamlfile import load
from pyromq.spark.pipeline.run.progress import Progress, Totals
from pyromq.spark.pipeline.state import position
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.pipeline.state.losses import note_losses
from pyromq.spark.pipeline.state.position import QueueLag
from pyromq.spark.pipeline.state.tables import TableSize
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.source.offsets import Offset


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
    assert run("status", file).output.startswith("orders: not running, no batch is done yet")
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
    assert sizes(run("status", file)) == ["parquet-0", "3", "3"]
    done = run("compact", file, "--older-than", "0s")
    assert "3 files became 1; 0 old ones deleted" in done.output
    assert sizes(run("status", file)) == ["parquet-0", "3", "1"]


def sizes(status: Result) -> list[str]:
    """Sink, rows and files of the last line."""
    return status.output.splitlines()[-1].split()[:3]


def test_status_tells_lag_tables_and_losses(file: Path) -> None:
    state = State(str(file.parent / "state/orders"))
    queue = MessageQueue("sales", "broker-a", 0)
    (file.parent / "state/orders/offsets").mkdir(parents=True)
    for batch, offset in enumerate((Offset({queue: 10}), Offset({queue: 40}, skip={queue: 30}))):
        (file.parent / "state/orders/offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset.render())}")
    definition = load(file)
    definition.source["failOnDataLoss"] = "record"
    lost = note_losses(
        Plan(
            definition=definition,
            query="0123456789",
            state=state.place,
            max_partitions=1,
            schema="{}",
            columns=[],
        ),
        1,
    )
    state.report(1, {"parquet-0": 10}, lost=lost)
    made = progress(lag_by_queue={"sales/broker-a/0": 3}, lag_seconds_by_queue={"sales/broker-a/0": 75.0}, lost=20)
    (state.driver / "status.json").write_bytes(msgspec.json.encode(made))

    told = run("status", file).output
    assert "batch 1: 10 messages (1.5 kB) in 100 ms, 3 behind (for 1 min 15 s), 0 bad, 0 repeated, 20 lost" in told
    assert f"20 messages were gone before they were read: {state.driver / '_loss'}" in told
    assert told.splitlines()[-1].split() == ["1", "sales", "broker-a", "0", "10", "30", "20", "expired"]
    facts = json.loads(run("status", file, "--json").output)
    assert (facts["lost"], facts["loss_table"]) == (20, str(state.driver / "_loss"))
    assert [(loss["first"], loss["end"]) for loss in facts["losses"]] == [(10, 30)]
    assert facts["progress"]["lag_seconds_by_queue"] == {"sales/broker-a/0": 75.0}
    assert facts["tables"]["parquet-0"]["files"] == 0

    history = run("history", file).output.splitlines()
    assert history[0].split() == ["batch", "began", "took", "messages", "lost", "rows", "ends", "at"]
    assert history[-1].split()[2:] == ["not", "done", "10", "20", "parquet-0=10", '{"sales":{"broker-a":{"0":40}}}']
    assert [each["lost"] for each in json.loads(run("history", file, "--json").output)] == [0, 20]


def test_status_of_an_earlier_version_can_be_read(file: Path) -> None:
    state = State(str(file.parent / "state/orders"))
    state.driver.mkdir(parents=True)
    facts = msgspec.to_builtins(progress())
    for name in ("bytes", "lag_seconds_by_queue", "tables"):
        del facts[name]
    del facts["totals"]["bytes"]
    (state.driver / "status.json").write_bytes(msgspec.json.encode(facts))
    assert "batch 1: 10 messages" in run("status", file).output


def progress(**more: Any) -> Progress:
    facts: dict[str, Any] = {
        "pipeline": "orders",
        "batch": 1,
        "time": 0.0,
        "messages": 10,
        "bytes": 1500,
        "bad": 0,
        "duplicates": 0,
        "lost": 0,
        "rows": {"parquet-0": 10},
        "duration_ms": 100,
        "lag": 3,
        "lag_by_queue": {},
        "state_rows": 7,
        "state_bytes": 2_000,
        "tables": {"parquet-0": TableSize(path="lake", files=4, rows=40, bytes=8_000)},
        "totals": Totals(messages=20, bytes=3_000_000, lost=20),
    }
    return Progress(**(facts | more))


def test_the_board_has_the_batch_and_the_totals() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(board(progress(lag_seconds_by_queue={"sales/broker-a/0": 7.25})))
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in console.export_text().splitlines() if "│" in row]
    assert rows == [
        ["messages", "10", "20"],
        ["bad", "0", "0"],
        ["repeated", "0", "0"],
        ["lost", "0", "20"],
        ["→ parquet-0", "10", "0"],
        ["read", "1.5 kB", "3.0 MB"],
        ["duration", "100 ms", ""],
        ["state", "7 rows", "2.0 kB"],
        ["parquet-0 has", "4 files", "2.0 kB each"],
    ]


def test_lag_is_told_in_messages_and_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue: dict[str, Any] = {"topic": "sales", "broker": "broker-a"}
    found = [
        QueueLag(**queue, queue=0, position=5, end=40, lag=10, seconds=7300.0, lost=25),
        QueueLag(**queue, queue=1, position=9, end=9, lag=0, seconds=0.0),
        QueueLag(**queue, queue=2, position=0, end=4, lag=4, seconds=None),
    ]
    monkeypatch.setattr(position, "lag", lambda _definition: found)
    lines = run("lag", file).output.splitlines()
    assert lines[0].split() == ["topic", "broker", "queue", "position", "end", "behind", "for", "lost"]
    assert lines[1].split() == ["sales", "broker-a", "0", "5", "40", "10", "2", "h", "1", "min", "25"]
    assert lines[3].split() == ["sales", "broker-a", "2", "0", "4", "4", "-", "0"]
    assert lines[-1].startswith("14 messages behind, the first of them for 2 h 1 min. 25 more are gone: failOnDataLoss")
    assert json.loads(run("lag", file, "--json").output)[0] == queue | {
        "queue": 0,
        "position": 5,
        "end": 40,
        "lag": 10,
        "seconds": 7300.0,
        "lost": 25,
    }
    found[:] = [QueueLag(**queue, queue=0, position=None, end=9, lag=None, seconds=None)]
    assert run("lag", file).output.splitlines()[-1] == "No batch is done yet, so nothing is read."


def test_dead_letters_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"DLQ_TOPIC": "sales", "DLQ_BROKER": "broker-a", "DLQ_QUEUE": "1", "DLQ_OFFSET": "7", "DLQ_ERROR": "[/no]"}
    show(letters_view([ReceivedMessage("dlq", b"[/b] [red]\x1b[2J\n{", facts)]))
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.split(maxsplit=4) == ["sales", "broker-a/1", "7", "[/no]", "[/b] [red]\\x1b[2J {"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7300, "2 h 1 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2 * 10**6, "2.0 MB"), (5 * 10**15, "5000.0 TB")]
)
def test_sizes(count: int, told: str) -> None:
    assert size(count) == told


def test_help_teaches() -> None:
    told = run("--help").output
    for command in ("run", "check", "init", "status", "lag", "history", "replay", "rewind", "compact", "dlq"):
        assert f" {command} " in told
    assert "Example: pyromq pipeline init orders.yaml" in told
    assert "--allow-type-change" in run("run", "--help").output


def test_export(file: Path) -> None:
    done = run("export-sdp", file, file.parent / "project")
    assert done.exit_code == 0
    assert (file.parent / "project" / "spark-pipeline.yml").exists()
    assert run("export-sdp", file, file.parent / "project").exit_code == 1
