"""One pass over the rows for any number of sinks: each Arrow batch of a task goes to all, and they commit in turn.

Commits are idempotent, so a batch that was cut short anywhere may be written and committed again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

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

    def write(self, batch: "pa.RecordBatch") -> None:
        """Give rows to every sink; they are opened by the first."""
        if not batch.num_rows:
            return
        if not self._tasks:
            for sink in self._sinks:
                self._tasks.append(sink.open(self._attempt, batch.schema))
        for task in self._tasks:
            task.write(batch)

    def close(self) -> list[bytes]:
        return [task.close() for task in self._tasks]

    def abort(self) -> None:
        for task in self._tasks:
            task.abort()

    def write_all(self, batches: Iterator["pa.RecordBatch"]) -> list[bytes]:
        """All rows of the task; whatever goes wrong, nothing is left open."""
        try:
            for batch in batches:
                self.write(batch)
            return self.close()
        except BaseException:
            self.abort()
            raise


def commit_all(sinks: Sequence[Sink], query: str, batch: int, messages: Sequence[Any]) -> dict[str, int]:
    """Commit a batch at every sink; returns the rows of each."""
    parts = [task for message in messages if isinstance(message, TaskMessage) for task in message.tasks if task]
    return {sink.name: sink.commit(query, batch, [each[place] for each in parts]) for place, sink in enumerate(sinks)}


class FanOutStreamWriter(DataSourceStreamArrowWriter):
    """For streams. Leaving the driver for the tasks (being pickled) is when sinks prepare a batch: Spark makes a
    writer for the plan and another for the commit, and only the first travels. It may do so more than once."""

    def __init__(self, sinks: Sequence[Sink], query: str, report: Report | None = None) -> None:
        self._sinks = list(sinks)
        self._query = query
        self._report = report

    def __getstate__(self) -> dict[str, Any]:
        for sink in self._sinks:
            sink.prepare(self._query)
        return dict(self.__dict__)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskMessage:
        return TaskMessage([Fan(self._sinks, Attempt.current(self._query)).write_all(iterator)])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        rows = commit_all(self._sinks, self._query, batchId, messages)
        if self._report is not None:
            self._report(batchId, rows)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is visible, and the next run of the batch finds what was done."""


class FanOutBatchWriter(DataSourceArrowWriter):
    """For a bounded job: everything is one batch, of a query of its own unless a stream writes it."""

    def __init__(self, sinks: Sequence[Sink], query: str, report: Report | None = None, *, batch: int = 0) -> None:
        self._sinks = list(sinks)
        self._query = query
        self._report = report
        self._batch = batch

    def __getstate__(self) -> dict[str, Any]:
        for sink in self._sinks:
            sink.prepare(self._query)
        return dict(self.__dict__)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskMessage:
        return TaskMessage([Fan(self._sinks, Attempt.current(self._query)).write_all(iterator)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        rows = commit_all(self._sinks, self._query, self._batch, messages)
        if self._report is not None:
            self._report(self._batch, rows)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is visible; what was staged is swept away later."""
