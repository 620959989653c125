"""The source of a pipeline: the `rocketmq` stream, with bad bodies diverted and, where nothing stands between, files
written by the task that reads.

It also is what ends a pipeline gently: once asked to stop, it has nothing new to offer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from pyromq.arrow.body import BODY, ERROR
from pyromq.arrow.columns import COLUMNS, PROPERTIES
from pyromq.arrow.rowshape import RowShape
from pyromq.spark.errors import LostRange
from pyromq.spark.pipeline.definition.plan import EXTRA, PROVENANCE, SIZE, Plan, make_sinks, source_options
from pyromq.spark.pipeline.run.deadletter import Diverter
from pyromq.spark.pipeline.run.stages import PARSED
from pyromq.spark.sink.fanout import Fan
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.source.batchreader import BatchReader
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.source.partitions import QueuePartition
from pyromq.spark.source.streamreader import StreamReader
from pyromq.spark.task.rangereader import read_ranges
from pyromq.spark.task.rowplan import row_shape

NAME = "pyromq-pipeline-source"
TASK = "task"
STORED = "storeSize"


class PipelineSource(DataSource):
    """Format of the runner's own; its only option is the plan."""

    @classmethod
    def name(cls) -> str:
        return NAME

    @property
    def _plan(self) -> Plan:
        return Plan.load(self.options["plan"])

    def schema(self) -> StructType | str:
        plan = self._plan
        return (
            f"{TASK} binary, rows bigint, bytes bigint, bad bigint"
            if plan.fast
            else StructType.fromJson(msgspec.json.decode(plan.schema))
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        plan = self._plan
        options, shape = _planned(plan)
        return PipelineStreamReader(options, shape, plan)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the plan knows it
        plan = self._plan
        options, shape = _planned(plan)
        return PipelineBatchReader(options, shape(), plan)


def _planned(plan: Plan) -> tuple[SourceOptions, Callable[[], RowShape]]:
    """Options of the stream, and the shape of its rows with all that is needed on the way to ours."""
    options = source_options(plan.definition, plan.bounds)
    options.max_partitions = options.max_partitions or plan.max_partitions
    return options, partial(_row_shape, options, plan)


def _row_shape(options: SourceOptions, plan: Plan) -> RowShape:
    return row_shape(options, inner_schema(plan), tags=options.wanted_tags, corrupt=options.corrupt_records)


def row_schema(plan: Plan) -> pa.Schema:
    """Of the rows that leave the source."""
    return to_arrow_schema(StructType.fromJson(msgspec.json.decode(plan.schema)), timezone="UTC")


def inner_schema(plan: Plan) -> pa.Schema:
    """Of the rows as they are read."""
    fields = [field for field in row_schema(plan) if field.name not in (EXTRA, SIZE)]
    names = {field.name for field in fields}
    if STORED not in names and _knows_size(plan, row_schema(plan)):
        fields.append(pa.field(STORED, COLUMNS[STORED]))
    wanted = [name for name in PROVENANCE if plan.diverts and name not in names]
    if plan.keeps_extra and "body" not in names:
        wanted.append("body")
    fields += [pa.field(name, COLUMNS[name]) for name in wanted]
    if plan.diverts:
        fields.append(pa.field(BODY, pa.binary()))
    return pa.schema(fields)


def _knows_size(plan: Plan, schema: pa.Schema) -> bool:
    """Whether `storeSize` is the message's own: a field of bodies may have that name."""
    return STORED in plan.columns or STORED.lower() not in {name.lower() for name in schema.names}


class PipelineStreamReader(StreamReader):
    """The stream of a pipeline. What its tasks find gone is left with the state, for the commit."""

    def __init__(self, options: SourceOptions, shape: Callable[[], RowShape], plan: Plan) -> None:
        super().__init__(options, shape)
        self._plan = plan

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if not start.get("fresh") and self._plan.open_state().is_stopping:
            return start
        return super().latestOffset(start, limit)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePartition)  # noqa: S101 - Spark returns what `partitions` made
        lost: list[LostRange] = []
        yield from read(read_ranges(partition, self._options, self._shape, on_loss=lost.append), self._plan)
        if lost:
            attempt = Attempt.current(self._plan.query)
            self._plan.open_state().found_lost(attempt.batch, attempt.partition, lost)


class PipelineBatchReader(BatchReader):
    """The same, bounded."""

    def __init__(self, options: SourceOptions, shape: RowShape, plan: Plan) -> None:
        super().__init__(options, shape)
        self._plan = plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(super().read(partition), self._plan)


def read(batches: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows of a task, or in the fast lane one row that says which files they are in."""
    attempt = Attempt.current(plan.query)
    rows = _rows(batches, plan, attempt)
    if not plan.fast:
        yield from rows
        return
    tally = Tally()
    parts = Fan(make_sinks(plan), attempt).write_all(_good(rows, tally))
    if tally.rows:
        counts = [pa.array([count], pa.int64()) for count in (tally.rows, tally.bytes, tally.bad)]
        task = pa.array([msgspec.msgpack.encode(parts)], pa.binary())
        yield pa.RecordBatch.from_arrays([task, *counts], names=[TASK, "rows", "bytes", "bad"])


def counted(tasks: DataFrame) -> DataFrame:
    """The fast lane's rows, with what its tasks counted for the progress."""
    return tasks.observe(PARSED, *(F.sum(name).alias(name) for name in ("rows", "bytes", "bad"))).select(TASK)


def _rows(batches: Iterator[pa.RecordBatch], plan: Plan, attempt: Attempt) -> Iterator[pa.RecordBatch]:
    schema = row_schema(plan)
    diverter = Diverter(plan, attempt) if plan.diverts else None
    known = {field.name for field in schema}
    made = {EXTRA: lambda batch: _extra(batch, known), SIZE: _size if _knows_size(plan, schema) else _no_size}
    try:
        for batch in batches:
            if diverter is not None:
                diverter.take(batch)
            columns = [made[name](batch) if name in made else batch.column(name) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        if diverter is not None:
            diverter.close()
    finally:
        if diverter is not None:
            diverter.abort()


@dataclass
class Tally:
    """What a task of the fast lane has seen."""

    rows: int = 0
    bytes: int = 0
    bad: int = 0


def _good(batches: Iterator[pa.RecordBatch], tally: Tally) -> Iterator[pa.RecordBatch]:
    """Without bad rows, and without the columns of our own."""
    for batch in batches:
        tally.rows += batch.num_rows
        tally.bytes += pc.sum(batch.column(SIZE)).as_py() or 0
        good = batch
        if ERROR in batch.schema.names:
            good = batch.filter(pc.is_null(batch.column(ERROR)))
            tally.bad += batch.num_rows - good.num_rows
        yield good.select([name for name in batch.schema.names if name not in (ERROR, SIZE)])


def _size(batch: pa.RecordBatch) -> pa.Array:
    return batch.column(STORED)


def _no_size(batch: pa.RecordBatch) -> pa.Array:
    return pa.nulls(batch.num_rows, pa.int32())


def _extra(batch: pa.RecordBatch, known: set[str]) -> pa.Array:
    """The fields of each JSON body that have no column, as texts."""
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    values: list[list[tuple[str, str]] | None] = []
    for body in batch.column("body").to_pylist():
        try:
            fields = decoder.decode(body or b"")
        except msgspec.MsgspecError:
            values.append(None)
            continue
        values.append([(name, _text(raw)) for name, raw in fields.items() if name not in known])
    return pa.array(values, PROPERTIES)


def _text(raw: msgspec.Raw) -> str:
    data = bytes(raw)
    return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode()
