"""What a pipeline tells and keeps about its output: types, sizes of tables, losses, ages of queues, metrics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from prometheus_client import generate_latest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import ConnectError
from pyromq.spark.errors import LostRange, SinkError
from pyromq.spark.pipeline.definition.plan import Plan
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run import survey
from pyromq.spark.pipeline.run.metrics import Metrics
from pyromq.spark.pipeline.run.outputs import TypeChangeError, check_types, keep_outputs
from pyromq.spark.pipeline.run.progress import Progress, Totals
from pyromq.spark.pipeline.run.survey import Survey
from pyromq.spark.pipeline.state.folder import State, StateError
from pyromq.spark.pipeline.state.losses import loss_table, note_losses, read_losses
from pyromq.spark.pipeline.state.tables import TableSize, parquet_size, read_tables
from pyromq.spark.sink.sink import Attempt, Sink
from pyromq.spark.sink.table.delta.sink import DeltaSink
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.offsets import Offset

QUEUE = MessageQueue("orders", "broker-a", 0)
TEXT = """\
name: orders
source: {nameServer: "127.0.0.1:9876", topic: orders, failOnDataLoss: POLICY}
sinks:
  - parquet: {path: "FOLDER/lake", name: lake}
  - delta: {path: "FOLDER/delta", name: delta}
  - iceberg: {table: shop.orders, warehouse: "FOLDER/warehouse", name: iceberg}
  - topic: {topic: out, name: topic}
checkpoint: "FOLDER/state"
"""


def text(folder: Path, policy: str = "record") -> str:
    return TEXT.replace("FOLDER", str(folder)).replace("POLICY", policy)


def columns(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


# SP-14
def test_a_type_changes_only_on_request_and_at_a_new_place(tmp_path: Path) -> None:
    state, before = State(str(tmp_path / "state")), loads(text(tmp_path))
    first = columns(id=LongType(), amount=DoubleType())
    write(tmp_path)
    keep_outputs(state, check_types(state, before, first, allow_change=False))
    check_types(state, before, columns(id=LongType(), shop=StringType()), allow_change=False)  # one came, one went
    changed = columns(id=StringType())
    for allow in (False, True):
        with pytest.raises(TypeChangeError, match=r"lake: id was bigint and is string now.*new place"):
            check_types(state, before, changed, allow_change=allow)
    moved = loads(text(tmp_path).replace("/lake", "/lake2").replace("/delta", "/delta2").replace("shop.", "shop2."))
    half = loads(text(tmp_path).replace("/lake", "/lake2"))
    with pytest.raises(TypeChangeError, match=r"^sink delta: .*new place; sink iceberg: .*new place"):
        check_types(state, half, changed, allow_change=False)  # what a flag does not help with comes first
    with pytest.raises(TypeChangeError, match=r"^sink lake: .*sink topic: .*--allow-type-change if that is meant"):
        check_types(state, moved, changed, allow_change=False)
    keep_outputs(state, check_types(state, moved, changed, allow_change=True))
    check_types(state, moved, changed, allow_change=False)


def test_the_same_place_under_another_name_is_no_new_place(tmp_path: Path) -> None:
    state, before = State(str(tmp_path / "state")), loads(text(tmp_path))
    write(tmp_path)
    keep_outputs(state, check_types(state, before, columns(id=LongType()), allow_change=False))
    moved = text(tmp_path).replace("/lake", "/lake2").replace("/delta", "/./delta/").replace("shop.", "shop2.")
    with pytest.raises(TypeChangeError, match="delta: id was bigint"):
        check_types(state, loads(moved), columns(id=StringType()), allow_change=True)


def test_a_place_without_rows_can_get_other_types(tmp_path: Path) -> None:
    state, definition = State(str(tmp_path / "state")), loads(text(tmp_path))
    keep_outputs(state, check_types(state, definition, columns(id=LongType()), allow_change=False))
    with pytest.raises(TypeChangeError, match="--allow-type-change if that is meant"):
        check_types(state, definition, columns(id=StringType()), allow_change=False)
    check_types(state, definition, columns(id=StringType()), allow_change=True)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"lake": {"place": 1}}', b"\xff\x00"])
def test_damaged_types_are_named_and_a_way_on(tmp_path: Path, damage: bytes) -> None:
    state = State(str(tmp_path / "state"))
    state.driver.mkdir(parents=True)
    (state.driver / "outputs.json").write_bytes(damage)
    with pytest.raises(StateError, match=r"outputs.json is damaged: .*without it the next start"):
        check_types(state, loads(text(tmp_path)), columns(id=LongType()), allow_change=True)


def write(tmp_path: Path) -> None:
    """Two batches of ten rows into each table."""
    sinks: list[Sink] = [
        ParquetSink(name="lake", path=str(tmp_path / "lake")),
        DeltaSink(name="delta", path=str(tmp_path / "delta")),
        IcebergSink(name="iceberg", table="shop.orders", warehouse=str(tmp_path / "warehouse")),
    ]
    rows = pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())})
    for sink in sinks:
        for batch in range(2):
            task = sink.open(Attempt("query", batch, 0), rows.schema)
            task.write(rows)
            sink.commit("query", batch, [task.close()])


def test_tables_of_every_kind_are_measured(tmp_path: Path) -> None:
    definition = loads(text(tmp_path))
    assert {name: size.files for name, size in read_tables(definition).items()} == {"lake": 0, "delta": 0, "iceberg": 0}
    write(tmp_path)
    for size in read_tables(definition).values():
        assert (size.files, size.rows) == (2, 20)
        assert size.mean_bytes == size.bytes // 2 > 0


@pytest.mark.parametrize(
    ("name", "damaged"), [("lake", "lake/_manifests/*.json"), ("delta", "delta/_delta_log/*.json")]
)
def test_a_damaged_table_is_named(tmp_path: Path, name: str, damaged: str) -> None:
    write(tmp_path)
    for path in tmp_path.glob(damaged):
        path.write_text("{")
    with pytest.raises(SinkError, match=f"{tmp_path}/{name}"):
        read_tables(loads(text(tmp_path)))


def log(folder: Path, batch: int, offset: Offset) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset.render())}")


def plan(folder: Path, policy: str) -> Plan:
    return Plan(
        definition=loads(text(folder, policy)),
        query="0123456789",
        state=str(folder / "state"),
        max_partitions=1,
        schema="{}",
        columns=[],
    )


# SP-09
def test_losses_are_noted_once_in_a_table(tmp_path: Path) -> None:
    state = State(str(tmp_path / "state"))
    other = MessageQueue("orders", "broker-a", 1)
    log(tmp_path / "state", 0, Offset({QUEUE: 10, other: 5}, init={QUEUE: 0, other: 0}))
    log(tmp_path / "state", 1, Offset({QUEUE: 40, other: 5}, skip={QUEUE: 30}))
    log(tmp_path / "state", 2, Offset({QUEUE: 41, other: 5}, gone={other: 9}))
    recording = plan(tmp_path, "record")
    assert [note_losses(recording, batch) for batch in (0, 1, 2)] == [0, 20, 4]
    assert note_losses(recording, 1) == 20  # the batch runs again after a crash
    assert parquet_size(loss_table(state)).rows == 2
    assert [(row.batch, row.queue, row.first, row.end, row.messages, row.reason) for row in read_losses(state)] == [
        (1, 0, 10, 30, 20, "expired"),
        (2, 1, 5, 9, 4, "deleted"),
    ]


# SP-09
def test_what_goes_while_a_batch_reads_is_noted_with_it(tmp_path: Path) -> None:
    state = State(str(tmp_path / "state"))
    log(tmp_path / "state", 0, Offset({QUEUE: 10}))
    log(tmp_path / "state", 1, Offset({QUEUE: 40}, skip={QUEUE: 12}))
    while_reading = [LostRange("orders", "broker-a", 0, start, start + 4, "expired") for start in (16, 12)]
    for _ in range(2):  # the batch runs again, and so do its tasks
        state.found_lost(1, 0, while_reading)
        state.found_lost(1, 3, [LostRange("orders", "broker-a", 0, 30, 31, "deleted")])
        state.found_lost(11, 0, while_reading)  # of another batch
        assert note_losses(plan(tmp_path, "record"), 1) == 2 + 8 + 1
    assert sorted((row.first, row.end) for row in read_losses(state)) == [(10, 12), (12, 20), (30, 31)]
    assert state.lost_in(1) == []  # noted for good
    assert state.lost_in(11) == while_reading
    next((state.driver / "lost").iterdir()).write_text("[{")
    with pytest.raises(StateError, match="damaged"):
        state.lost_in(11)


@pytest.mark.parametrize(("policy", "count"), [("false", 21), ("true", 0)])
def test_without_the_policy_losses_are_counted_at_most(tmp_path: Path, policy: str, count: int) -> None:
    state = State(str(tmp_path / "state"))
    log(tmp_path / "state", 0, Offset({QUEUE: 10}))
    log(tmp_path / "state", 1, Offset({QUEUE: 40}, skip={QUEUE: 30}))
    if policy == "false":
        state.found_lost(1, 0, [LostRange("orders", "broker-a", 0, 30, 31, "expired")])
    assert note_losses(plan(tmp_path, policy), 1) == count
    assert not loss_table(state).list()
    assert read_losses(state) == []


def test_a_batch_whose_beginning_is_not_in_the_log_any_more(tmp_path: Path) -> None:
    log(tmp_path / "state", 7, Offset({QUEUE: 40}, skip={QUEUE: 30}))
    assert note_losses(plan(tmp_path, "record"), 7) == 0  # nobody can tell
    log(tmp_path / "state", 8, Offset({QUEUE: 60}, skip={QUEUE: 50}))
    assert note_losses(plan(tmp_path, "record"), 8) == 10


def progress(lag: dict[str, int]) -> Progress:
    return Progress(
        pipeline="orders",
        batch=1,
        time=0.0,
        messages=10,
        bytes=1000,
        bad=0,
        duplicates=0,
        lost=0,
        rows={"lake": 10},
        duration_ms=100,
        lag=sum(lag.values()),
        lag_by_queue=lag,
        state_rows=0,
        state_bytes=0,
        totals=Totals(),
    )


def test_ages_and_tables_are_looked_up_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[MessageQueue, int]] = []
    now = 0.0

    def seconds(_cluster: object, positions: Mapping[MessageQueue, int], _clock: object) -> dict[MessageQueue, float]:
        asked.append(dict(positions))
        if len(asked) == 2:
            raise ConnectError("away")
        return dict.fromkeys(positions, 7.0)

    monkeypatch.setattr(survey, "waiting_seconds", seconds)
    definition = loads(text(tmp_path))
    looking = Survey(definition, cluster=cast("Cluster", object()), clock=lambda: now)
    end = Offset({QUEUE: 40, MessageQueue("orders", "broker-a", 1): 8})
    lag = {"orders/broker-a/0": 3, "orders/broker-a/1": 0}

    made = progress(lag)
    looking.complete(made, end)
    assert made.lag_seconds_by_queue == {"orders/broker-a/0": 7.0, "orders/broker-a/1": 0.0}
    assert set(made.tables) == {"lake", "delta", "iceberg"}
    assert asked == [{QUEUE: 40}]
    looking.complete(progress(lag), end)
    assert len(asked) == 1  # not again so soon

    now = survey.EVERY
    made = progress(lag)
    looking.complete(made, end)
    assert made.lag_seconds_by_queue == {"orders/broker-a/1": 0.0}  # what nobody could tell is left out
    now = 2 * survey.EVERY
    made = progress(dict.fromkeys(lag, 0))
    looking.complete(made, end)
    assert made.lag_seconds_by_queue == {"orders/broker-a/0": 0.0, "orders/broker-a/1": 0.0}
    assert len(asked) == 2  # nothing waits, so nobody is asked


class Ends:
    """Stands for a cluster that serves these queues, of which those with bounds answer."""

    def __init__(self, *queues: MessageQueue, **ends: int) -> None:
        self._queues, self._ends = queues, ends

    def queues(self) -> list[MessageQueue]:
        return list(self._queues)

    def bounds(self, queues: list[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        return {queue: (0, self._ends[queue.broker_name]) for queue in queues if queue.broker_name in self._ends}


def test_lag_that_spark_does_not_tell_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "waiting_seconds", lambda _cluster, positions, _clock: dict.fromkeys(positions, 7.0))
    other = MessageQueue("orders", "b", 0)

    def completed(cluster: Ends) -> Progress:
        made = progress({})
        made.lag = None
        Survey(loads(text(tmp_path)), cluster=cast("Cluster", cluster)).complete(made, Offset({QUEUE: 40, other: 8}))
        return made

    made = completed(Ends(QUEUE, other, **{"broker-a": 43, "b": 8}))
    assert (made.lag, made.lag_by_queue) == (3, {"orders/broker-a/0": 3, "orders/b/0": 0})
    assert made.lag_seconds_by_queue == {"orders/broker-a/0": 7.0, "orders/b/0": 0.0}
    made = completed(Ends(QUEUE, other, **{"broker-a": 43}))  # the other broker does not answer
    assert (made.lag, made.lag_by_queue) == (None, {"orders/broker-a/0": 3})
    assert completed(Ends()).lag is None  # nobody knows a route
    made = completed(Ends(QUEUE, **{"broker-a": 43}))  # a route that names one broker only: is the other away, or gone?
    assert made.lag is None


def test_a_slow_look_is_taken_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    now = 0.0

    def slowly(_definition: object) -> dict[str, TableSize]:
        nonlocal now
        looks.append(now)
        now += 3.0
        raise SinkError("busy")

    monkeypatch.setattr(survey, "read_tables", slowly)
    looking = Survey(loads(text(tmp_path)), clock=lambda: now)
    while now < 200:
        made = progress({})
        looking.complete(made, None)
        assert made.tables == {}  # what cannot be read ends no run
        now += 1
    assert looks == [0, 63, 126, 189]


def test_metrics_have_what_progress_tells(tmp_path: Path) -> None:
    metrics = Metrics("orders")
    made = progress({"orders/broker-a/0": 3})
    made.lag_seconds_by_queue = {"orders/broker-a/0": 7.5}
    made.tables = {"lake": parquet_size(tmp_path)}
    made.tables["lake"].files, made.tables["lake"].mean_bytes = 4, 2048
    metrics.observe(made)
    metrics.observe(made)
    metrics.restarted()
    told = generate_latest(metrics.registry).decode()
    for line in (
        'pyromq_pipeline_messages_total{pipeline="orders"} 20.0',
        'pyromq_pipeline_read_bytes_total{pipeline="orders"} 2000.0',
        'pyromq_pipeline_rows_total{pipeline="orders",sink="lake"} 20.0',
        'pyromq_pipeline_lag_messages{pipeline="orders",queue="orders/broker-a/0"} 3.0',
        'pyromq_pipeline_lag_seconds{pipeline="orders",queue="orders/broker-a/0"} 7.5',
        'pyromq_pipeline_table_files{pipeline="orders",sink="lake"} 4.0',
        'pyromq_pipeline_table_file_bytes{pipeline="orders",sink="lake"} 2048.0',
        'pyromq_pipeline_restarts_total{pipeline="orders"} 1.0',
        'pyromq_pipeline_lost_messages_total{pipeline="orders"} 0.0',
    ):
        assert line in told.splitlines()
    metrics.observe(progress({"orders/broker-a/1": 2}))  # the first queue is gone, and nobody knows ages and tables
    told = generate_latest(metrics.registry).decode()
    assert 'pyromq_pipeline_lag_messages{pipeline="orders",queue="orders/broker-a/1"} 2.0' in told.splitlines()
    for stale in ("broker-a/0", "lag_seconds{", "table_files{", "table_file_bytes{"):
        assert stale not in told
