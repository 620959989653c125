"""The small protocol of all sinks, and who a writing task is.

A sink is a plain value: made on the driver, sent to the tasks, made again for the commit. In a task `open` gives a
`SinkTask` that takes Arrow batches; what its `close` returns travels back, and `commit` on the driver makes the whole
batch visible. A batch may be written and committed again after a crash, with the same number: `commit` must see that.
"""

from collections.abc import Sequence
from typing import Protocol, Self

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError


class Attempt(msgspec.Struct, frozen=True):
    """One try to write one partition of one batch of a query."""

    query: str
    """Stays the same for a checkpoint, whatever happens to the process."""
    batch: int
    partition: int
    number: int = 0
    task: int = 0
    """Ascends over all attempts of one run of a query."""

    @classmethod
    def current(cls, query: str | None = None) -> Self:
        """The one this task makes. Outside a stream the query must be named, and everything is one batch."""
        from pyspark import TaskContext  # noqa: PLC0415 - sinks are usable without Spark

        context = TaskContext.get()
        if context is None:
            raise SinkError("rows are written inside Spark's tasks, and this is none")
        # PySpark answers None for a property that is not set, whatever its annotation says.
        batch: str | None = context.getLocalProperty("streaming.sql.batchId")
        query = query or context.getLocalProperty("sql.streaming.queryId")
        return cls(
            query or "", int(batch or 0), context.partitionId(), context.attemptNumber(), context.taskAttemptId()
        )


class SinkTask(Protocol):
    """One attempt's writing."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises SinkError."""

    def close(self) -> bytes:
        """Make sure that everything is where `commit` finds it; returns what `commit` needs to know."""

    def abort(self) -> None:
        """Take back what can be taken back; never raises."""


class Sink(Protocol):
    """Where rows go."""

    @property
    def name(self) -> str:
        """Distinguishes the sinks of one pipeline, in its metrics and its state."""

    def prepare(self, query: str) -> None:
        """On the driver, before the tasks of each batch: fetch what they need to know."""

    def open(self, attempt: Attempt, schema: pa.Schema) -> SinkTask:
        """In a task: start writing."""

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        """On the driver, once all tasks of a batch are done: make it visible; returns its rows."""


class Written(msgspec.Struct, kw_only=True):
    """What a task says at the end; sinks add their own."""

    rows: int

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return msgspec.json.decode(data, type=cls)
