"""One pass over the rows for any number of sinks: each Arrow batch of a task goes to all, and they commit in turn.

Commits are idempotent, so a batch that was cut short anywhere may be written and committed again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyromq.spark.errors import plainly
from pyromq.spark.sink.sink import Attempt, Sink, SinkTask

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

Report = Callable[[int, dict[str, int]], None]
"""Told on the driver once all sinks have committed: the batch, and the rows that each sink got."""


@dataclass
class TaskMessage(WriterCommitMessage):
    """For each task that had rows: what its sinks want their commits to know, in the order of the sinks."""

    tasks: list[list[bytes]]


class Fan:
    """The sinks of one task."""

    def __init__(self, sinks: Sequence[Sink], attempt: Attempt) -> None:
        self._sinks = sinks
        self._attempt = attempt
        self._tasks: list[SinkTask] = []

    def write_all(self, batches: Iterator["pa.RecordBatch"]) -> list[bytes]:
        """Give all rows of the task to every sink; whatever goes wrong, nothing is left open."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._write(batch)
            return [task.close() for task in self._tasks]
        except BaseException:
            for task in self._tasks:
                task.abort()
            raise

    def _write(self, batch: "pa.RecordBatch") -> None:
        if not self._tasks:  # the first rows tell the schema
            for sink in self._sinks:
                self._tasks.append(sink.open(self._attempt, batch.schema))
        for task in self._tasks:
            task.write(batch)


class _FanOut:
    """What both writers do. Leaving the driver for the tasks (being pickled) is when sinks prepare a batch: Spark makes
    a writer for the plan and another for the commit, and only the first travels. It may do so more than once."""

    def __init__(self, sinks: Sequence[Sink], query: str, report: Report | None = None) -> None:
        self._sinks = list(sinks)
        self._query = query
        self._report = report

    def __getstate__(self) -> dict[str, Any]:
        for sink in self._sinks:
            sink.prepare(self._query)
        return dict(self.__dict__)

    @plainly
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskMessage:
        return TaskMessage([Fan(self._sinks, Attempt.current(self._query)).write_all(iterator)])

    @plainly
    def commit_all(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit a batch at every sink."""
        tasks = [task for message in messages if isinstance(message, TaskMessage) for task in message.tasks if task]
        rows = {
            sink.name: sink.commit(self._query, batch, [task[place] for task in tasks])
            for place, sink in enumerate(self._sinks)
        }
        if self._report is not None:
            self._report(batch, rows)


class FanOutStreamWriter(_FanOut, DataSourceStreamArrowWriter):
    """For streams."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.commit_all(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is visible, and the next run of the batch finds what was done."""


class FanOutBatchWriter(_FanOut, DataSourceArrowWriter):
    """For a bounded job: everything is one batch, of a query of its own unless a stream writes it."""

    def __init__(self, sinks: Sequence[Sink], query: str, report: Report | None = None, *, batch: int = 0) -> None:
        super().__init__(sinks, query, report)
        self._batch = batch

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_all(messages, self._batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is visible; what was staged is swept away later."""
