"""The sink of a pipeline as Spark knows it: all of its sinks behind one writer."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceWriter
from pyspark.sql.types import StructType

from pyromq.spark.pipeline.definition.plan import Plan, make_sinks
from pyromq.spark.pipeline.run.rowsource import TASK
from pyromq.spark.pipeline.state.losses import note_losses
from pyromq.spark.sink.fanout import FanOutBatchWriter, FanOutStreamWriter, TaskMessage

NAME = "pyromq-pipeline-sink"


class PipelineSink(DataSource):
    """Format of the runner's own; its options are the plan and, for a batch that a stream hands over, its number."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamArrowWriter:
        plan = Plan.load(self.options["plan"])
        kind = FastStreamWriter if plan.fast else FanOutStreamWriter
        return kind(make_sinks(plan), plan.query, Reporting(plan))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002 - Spark's signature
        plan = Plan.load(self.options["plan"])
        batch = int(self.options.get("batch", "0"))
        streams = "batch" in self.options
        return FanOutBatchWriter(make_sinks(plan), plan.query, Reporting(plan, streams=streams), batch=batch)


@dataclass
class Reporting:
    """Notes, once all sinks have committed a batch, what they got and what the source has lost."""

    plan: Plan
    streams: bool = True
    """Whether the batch is one of Spark's checkpoint."""

    def __call__(self, batch: int, rows: dict[str, int]) -> None:
        lost = note_losses(self.plan, batch) if self.streams else 0
        self.plan.open_state().report(batch, rows, lost=lost)


class FastStreamWriter(FanOutStreamWriter):
    """The rows are written already; what comes here says where."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(
            [
                msgspec.msgpack.decode(task, type=list[bytes])
                for batch in iterator
                for task in batch.column(TASK).to_pylist()
            ]
        )
