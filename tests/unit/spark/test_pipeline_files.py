"""What a pipeline keeps on disk, and what is read out of Spark's words: checkpoint, state, faults, plans, exports."""

import ast
import json
from pathlib import Path

import pytest

from pyromq.protocol.message import MessageQueue
from pyromq.spark.pipeline.definition.definition import DefinitionError
from pyromq.spark.pipeline.definition.sdp import export
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run.faults import explain, is_transient
from pyromq.spark.pipeline.run.progress import Totals, read_progress
from pyromq.spark.pipeline.run.stages import read_tree
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import BatchReport, State, StateError
from pyromq.spark.source.offsets import Offset, Range, losses, ranges
from tests.unit.spark.test_pipeline_definition import GOOD

QUEUE = MessageQueue("orders", "broker-a", 0)


def log(folder: Path, batch: int, offset: int, *, done: bool = True) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    shape = json.dumps({"v": 1, "q": {"orders": {"broker-a": {"0": offset}}}})
    (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":1700000000000,"conf":{{}}}}\n{shape}')
    (folder / "offsets" / f".{batch}.crc").write_bytes(b"")
    if done:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


# SP-14
def test_a_rewind_is_a_batch_that_reads_nothing(tmp_path: Path) -> None:
    log(tmp_path, 0, 100)
    log(tmp_path, 1, 200)
    checkpoint = SparkCheckpoint(tmp_path)
    assert checkpoint.position() == Offset({QUEUE: 200})
    assert checkpoint.rewind(Offset({QUEUE: 50})) == 2
    position = checkpoint.position()
    assert position is not None
    assert position.positions == {QUEUE: 50}
    assert (tmp_path / "offsets" / "2").read_text().splitlines()[:2] == (
        (tmp_path / "offsets" / "1").read_text().splitlines()[:2]
    )
    assert (tmp_path / "commits" / "2").read_text() == (tmp_path / "commits" / "1").read_text()
    assert [entry.batch for entry in checkpoint.history(2)] == [1, 2]


# SP-14
def test_a_jump_over_messages_is_neither_reading_nor_losing_them(tmp_path: Path) -> None:
    log(tmp_path, 0, 100)
    checkpoint = SparkCheckpoint(tmp_path)
    checkpoint.rewind(Offset({QUEUE: 500}))
    start, end = checkpoint.bounds(1)
    assert start is not None
    assert (ranges(start, end), losses(start, end)) == ([], [])
    assert checkpoint.bounds(0) == (None, Offset({QUEUE: 100}))  # what came before is not in the log any more
    log(tmp_path, 2, 510)
    start, end = checkpoint.bounds(2)
    assert start is not None
    assert ranges(start, end) == [Range("orders", "broker-a", 0, 500, 510)]


# SP-14
def test_a_rewind_is_refused_where_it_would_do_harm(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="nothing to rewind"):
        SparkCheckpoint(tmp_path).rewind(Offset({}))
    log(tmp_path, 0, 100)
    log(tmp_path, 1, 200, done=False)
    with pytest.raises(StateError, match="batch 1 was begun and is not done"):
        SparkCheckpoint(tmp_path).rewind(Offset({}))
    log(tmp_path, 1, 200)
    (tmp_path / "state" / "0").mkdir(parents=True)
    (tmp_path / "state" / "0" / "1.delta").touch()
    with pytest.raises(StateError, match="keeps state"):
        SparkCheckpoint(tmp_path).rewind(Offset({}))


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v2\n{}\n{}", "v1\n{\n{}", 'v1\n{}\n{"q": 1}'])
def test_a_damaged_log_is_named(tmp_path: Path, text: str) -> None:
    log(tmp_path, 0, 100)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(StateError, match="offsets/0"):
        SparkCheckpoint(tmp_path).position()


# SP-14
def test_one_runner_at_a_time(tmp_path: Path) -> None:
    state = State(str(tmp_path))
    with (
        state.locked(),
        pytest.raises(StateError, match=r"in use by another process \(pid \d+\)"),
        State(str(tmp_path)).locked(),
    ):
        pass
    with state.locked():
        pass


def test_an_identity_lasts_and_belongs_to_one_pipeline(tmp_path: Path) -> None:
    state = State(str(tmp_path))
    first = state.identity("orders", max_partitions=2, shuffle_partitions=2)
    assert state.identity("orders", max_partitions=16, shuffle_partitions=16) == first
    with pytest.raises(StateError, match="belongs to pipeline 'orders'"):
        state.identity("sales", max_partitions=2, shuffle_partitions=2)
    (state.driver / "identity.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        state.identity("orders", max_partitions=2, shuffle_partitions=2)


TRACE = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown
Traceback (most recent call last):
  File "worker.py", line 1, in main
pyromq.remoting.errors.ConnectError: 127.0.0.1:1 cannot be reached: refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{last}
"""


@pytest.mark.parametrize(
    ("last", "transient"),
    [
        ("pyromq.spark.sink.sender.SendFailedError: gone", True),
        ("pyromq.spark.errors.RouteError: no broker", True),
        ("pyromq.spark.errors.DataLossError: messages are gone", False),
        ("pyromq.spark.errors.RowError: row 3 has no body", False),
        ("ValueError: what", True),  # the last of ours before it passes
    ],
)
def test_what_passes_by_itself(last: str, transient: bool) -> None:
    assert is_transient(TRACE.format(last=last)) is transient


def test_failures_are_explained_in_a_line() -> None:
    text = TRACE.format(last="pyromq.spark.errors.RowError: row 3 has no body")
    assert explain(text) == "RowError: row 3 has no body"
    assert explain("[UNRESOLVED_COLUMN] no column\nat org.apache...") == "[UNRESOLVED_COLUMN] no column"
    assert is_transient("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
    assert not is_transient("[DIVIDE_BY_ZERO] Division by zero")


AGGREGATE = """\
~Aggregate [value#1L], [value#1L, count(1) AS n#2L]
+- ~SubqueryAlias input
   +- View (`input`, [timestamp#0, value#1L])
      +- ~StreamingRelationV2 PipelineSource, pyromq-pipeline-source, [timestamp#0, value#1L], name=<Unassigned>
"""
JOIN = """\
~Project [value#1L AS Joined#3]
+- ~Join Inner, (value#1L = value#5L)
   :- ~SubqueryAlias a
   :  +- ~StreamingRelationV2 PipelineSource, [timestamp#0, value#1L], name=<Unassigned>
   +- ~SubqueryAlias b
      +- ~StreamingRelationV2 PipelineSource, [timestamp#4, value#5L], name=<Unassigned>
"""


def test_plans_are_read() -> None:
    assert read_tree(AGGREGATE) == (1, True, True)
    assert read_tree(JOIN) == (2, True, True)
    assert read_tree("~Project [1 AS Join#1]\n+- ~StreamingRelationV2 x") == (1, False, False)


def test_progress_counts_messages_lag_and_rows() -> None:
    event = {
        "batchId": 3,
        "durationMs": {"triggerExecution": 120, "addBatch": 100},
        "sources": [
            {
                "startOffset": {"v": 1, "q": {"orders": {"broker-a": {"0": 10, "1": 5}}}},
                "endOffset": {"v": 1, "q": {"orders": {"broker-a": {"0": 20, "1": 8}}}},
                "latestOffset": '{"v": 1, "q": {"orders": {"broker-a": {"0": 24, "1": 8}}}}',
            }
        ],
        "observedMetrics": {"parsed": {"rows": 13, "bytes": 1300, "bad": 2}, "kept": {"rows": 8}},
        "stateOperators": [{"numRowsTotal": 8, "memoryUsedBytes": 100}],
    }
    totals = Totals()
    report = BatchReport(batch=3, rows={"lake": 8, "dlq": 2}, time=1.0)
    made = read_progress("orders", event, report, totals)
    assert (made.messages, made.bytes, made.bad, made.duplicates, made.lag, made.state_rows) == (13, 1300, 2, 3, 4, 8)
    assert made.lag_by_queue == {"orders/broker-a/0": 4, "orders/broker-a/1": 0}
    read_progress("orders", event, report, totals)
    assert (totals.batches, totals.messages, totals.bytes) == (2, 26, 2600)
    assert totals.rows == {"lake": 16, "dlq": 4}


@pytest.mark.parametrize("observed", [None, {}, {"parsed": None, "kept": None}, {"parsed": {"bytes": None}}])
def test_progress_of_a_batch_that_observed_nothing(observed: object) -> None:
    event = {"batchId": 3, "sources": [], "observedMetrics": observed}
    made = read_progress("orders", event, None, Totals())
    assert (made.messages, made.bytes, made.bad, made.duplicates, made.rows) == (0, 0, 0, 0, {})


def place(**queues: int) -> str:
    """Offsets of broker-a and broker-b, as `a0=5`."""
    found: dict[str, dict[str, int]] = {}
    for name, offset in queues.items():
        found.setdefault(f"broker-{name[0]}", {})[name[1:]] = offset
    return json.dumps({"v": 1, "q": {"orders": found}})


def test_lag_that_nobody_told_is_unknown() -> None:
    event = {"batchId": 3, "sources": [{"startOffset": place(a0=10), "endOffset": place(a0=20, b0=5)}]}
    made = read_progress("orders", event, None, Totals())  # Spark asks nobody about a batch that it repeats
    assert (made.messages, made.lag, made.lag_by_queue) == (10, None, {})

    event["sources"][0]["latestOffset"] = place(a0=20)  # type: ignore[index]  # a list
    made = read_progress("orders", event, None, Totals())  # broker-b is away since before the start
    assert (made.lag, made.lag_by_queue) == (None, {"orders/broker-a/0": 0})

    deleted = {**json.loads(place(a0=23)), "gone": {"orders": {"broker-b": {"0": 5}}}}
    event["sources"][0]["latestOffset"] = json.dumps(deleted)  # type: ignore[index]
    assert read_progress("orders", event, None, Totals()).lag == 3


# SP-09
def test_progress_tells_what_was_lost_before_and_during_the_batch() -> None:
    event = {
        "batchId": 3,
        "sources": [
            {
                "startOffset": '{"v": 1, "q": {"orders": {"broker-a": {"0": 10}}}}',
                "endOffset": (
                    '{"v": 1, "q": {"orders": {"broker-a": {"0": 30}}}, "skip": {"orders": {"broker-a": {"0": 15}}}}'
                ),
            }
        ],
    }
    totals = Totals()
    assert read_progress("orders", event, None, totals).lost == 5
    report = BatchReport(batch=3, rows={}, time=1.0, lost=12)  # seven more were gone when their turn came
    assert read_progress("orders", event, report, totals).lost == 12
    assert totals.lost == 17


def test_an_export_is_a_project(tmp_path: Path) -> None:
    files = export(loads(GOOD), tmp_path / "project")
    assert [path.name for path in files] == ["spark-pipeline.yml", "pipeline.py", "README.md"]
    code = files[1].read_text()
    ast.parse(code)
    assert "FROM STREAM orders_input WHERE amount > 0" in code
    assert "dead letters" in files[2].read_text()
    with pytest.raises(DefinitionError, match="not empty"):
        export(loads(GOOD), tmp_path / "project")
