"""The table `_loss`: messages that were gone before the pipeline read them, under `failOnDataLoss: record`.

A batch that passes over messages says so in Spark's offset log; what goes while it reads, its tasks leave with the
state. The note is made when its sinks commit, and again with the batch after a crash; it is in the table once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import LostRange
from pyromq.spark.pipeline.definition.plan import Plan, source_options
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.source.offsets import Offset, losses
from pyromq.spark.source.options import DataLoss
from pyromq.spark.storage.store import Store

NAME = "_loss"
SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("messages", pa.int64()),
        ("reason", pa.string()),
    ]
)
"""A row for each range [first, end) of a queue; `reason` is that of `LostRange`."""


class Loss(msgspec.Struct, kw_only=True):
    """A row of the table."""

    batch: int
    time: datetime
    topic: str
    broker: str
    queue: int
    first: int
    end: int
    messages: int
    reason: str


def loss_table(state: State) -> Store:
    """Where the table is."""
    return state.store.within(NAME)


def note_losses(plan: Plan, batch: int) -> int:
    """Put what a batch passes over into the table if that is the policy; returns how many messages.

    Raises StateError, SinkError or OSError.
    """
    policy = source_options(plan.definition).fail_on_data_loss
    if policy is DataLoss.FAIL:
        return 0
    state = plan.open_state()
    begin, end = SparkCheckpoint(state.checkpoint).bounds(batch)
    lost = losses(begin or Offset(end.init), end) + _joined(state.lost_in(batch))
    if lost and policy is DataLoss.RECORD:
        _record(plan, state, batch, lost)
    state.forget_lost(batch)
    return sum(each.messages for each in lost)


def _joined(lost: Sequence[LostRange]) -> list[LostRange]:
    """Tasks ask for a stretch at a time; what lies end to end is one range."""
    made: list[LostRange] = []
    for each in sorted(lost):
        if made and made[-1][:3] == each[:3] and (made[-1].end, made[-1].reason) == (each.start, each.reason):
            each = made.pop()._replace(end=each.end)  # noqa: PLW2901 - the two of them
        made.append(each)
    return made


def _record(plan: Plan, state: State, batch: int, lost: Sequence[LostRange]) -> None:
    common = {"batch": batch, "time": datetime.now(UTC)}
    rows = [common | each._asdict() | {"first": each.start, "messages": each.messages} for each in lost]
    sink = ParquetSink(name=NAME, path=loss_table(state).url, storage=plan.definition.storage)
    task = sink.open(Attempt(plan.query, batch, 0), SCHEMA)
    task.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
    sink.commit(plan.query, batch, [task.close()])


def read_losses(state: State) -> list[Loss]:
    """All rows of the table, in the order of batches. Raises SinkError or OSError."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load, seldom needed

    table = loss_table(state)
    rows: list[dict[str, Any]] = []
    for name in Manifests(table).names():
        with table.input(name) as source:
            rows += pq.ParquetFile(source).read().to_pylist()
    return sorted(msgspec.convert(rows, list[Loss]), key=lambda loss: (loss.batch, loss.topic, loss.broker, loss.queue))
