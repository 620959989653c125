"""The source of a pipeline: the `rocketmq` stream, with bad bodies diverted and, where nothing stands between, files
written by the task that reads.

It also is what ends a pipeline gently: once asked to stop, it has nothing new to offer.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from pyromq.spark.batch import BatchReader
from pyromq.spark.body import BODY, ERROR
from pyromq.spark.columns import COLUMNS, PROPERTIES
from pyromq.spark.pipeline.deadletter import Diverter
from pyromq.spark.pipeline.plan import EXTRA, PROVENANCE, Plan, make_sinks, source_options
from pyromq.spark.pipeline.state import State
from pyromq.spark.rows import Shape
from pyromq.spark.sink.base import Attempt
from pyromq.spark.sink.fanout import Fan
from pyromq.spark.sourceoptions import SourceOptions
from pyromq.spark.stream import StreamReader

NAME = "pyromq-pipeline-source"
TASK = "task"


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
        return f"{TASK} binary" if plan.fast else StructType.fromJson(msgspec.json.decode(plan.schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        plan = self._plan
        return PipelineStreamReader(*_planned(plan), plan)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the plan knows it
        plan = self._plan
        return PipelineBatchReader(*_planned(plan), plan)


def _planned(plan: Plan) -> tuple[SourceOptions, Shape]:
    """Options of the stream, and the shape of its rows with all that is needed on the way to ours."""
    options = source_options(plan.definition, plan.bounds)
    options.max_partitions = options.max_partitions or plan.max_partitions
    return options, Shape.plan(options, inner_schema(plan), tags=options.wanted_tags)


def row_schema(plan: Plan) -> pa.Schema:
    """Of the rows that leave the source."""
    return to_arrow_schema(StructType.fromJson(msgspec.json.decode(plan.schema)), timezone="UTC")


def inner_schema(plan: Plan) -> pa.Schema:
    """Of the rows as they are read."""
    fields = [field for field in row_schema(plan) if field.name != EXTRA]
    names = {field.name for field in fields}
    wanted = [name for name in PROVENANCE if plan.diverts and name not in names]
    if plan.keeps_extra and "body" not in names:
        wanted.append("body")
    fields += [pa.field(name, COLUMNS[name][1]) for name in wanted]
    if plan.diverts:
        fields.append(pa.field(BODY, pa.binary()))
    return pa.schema(fields)


class PipelineStreamReader(StreamReader):
    """The stream of a pipeline."""

    def __init__(self, options: SourceOptions, shape: Shape, plan: Plan) -> None:
        super().__init__(options, shape)
        self._plan = plan

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if not start.get("fresh") and State(self._plan.state).is_stopping:
            return start
        return super().latestOffset(start, limit)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(super().read(partition), self._plan)


class PipelineBatchReader(BatchReader):
    """The same, bounded."""

    def __init__(self, options: SourceOptions, shape: Shape, plan: Plan) -> None:
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
    parts = Fan(make_sinks(plan), attempt).write_all(_good(rows))
    if parts:
        yield pa.RecordBatch.from_pydict({TASK: pa.array([msgspec.msgpack.encode(parts)], pa.binary())})


def _rows(batches: Iterator[pa.RecordBatch], plan: Plan, attempt: Attempt) -> Iterator[pa.RecordBatch]:
    schema = row_schema(plan)
    diverter = Diverter(plan, attempt) if plan.diverts else None
    known = {field.name for field in schema}
    try:
        for batch in batches:
            if diverter is not None:
                diverter.take(batch)
            columns = [_extra(batch, known) if field.name == EXTRA else batch.column(field.name) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        if diverter is not None:
            diverter.close()
    finally:
        if diverter is not None:
            diverter.abort()


def _good(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Without bad rows, and without the column that says so."""
    for batch in batches:
        if ERROR not in batch.schema.names:
            yield batch
            continue
        good = batch.filter(pa.compute.is_null(batch.column(ERROR)))
        yield good.select([name for name in batch.schema.names if name != ERROR])


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
