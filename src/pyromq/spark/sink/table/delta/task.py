"""What a task writes for a Delta table: files as the table wants them, with statistics, that no commit names yet."""

from collections.abc import Sequence
from typing import Self

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake.exceptions import DeltaError

from pyromq.spark.errors import RowError, SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.conversion import Conversion, shown
from pyromq.spark.sink.table.delta.layout import Layout, in_one_line
from pyromq.spark.sink.table.delta.statistics import describe, nan_columns
from pyromq.spark.sink.table.delta.storage import Storage
from pyromq.spark.sink.table.task import TableFiles, TableTask


class DeltaFiles(TableFiles, kw_only=True):
    """What one task wrote, or all of a batch, and for a table of which layouts."""

    layouts: list[Layout | None]
    added: list[str]
    """Columns that the table lacked."""
    statistics: dict[str, str]
    """By file."""

    @classmethod
    def of_batch(cls, messages: Sequence[bytes]) -> Self:
        tasks = [cls.decode(message) for message in messages]
        layouts: list[Layout | None] = []
        for task in tasks:
            layouts += [layout for layout in task.layouts if layout not in layouts]
        return cls(
            rows=sum(task.rows for task in tasks),
            files=[file for task in tasks for file in task.files],
            schemas=[schema for task in tasks for schema in task.schemas],
            layouts=layouts,
            added=list(dict.fromkeys(name for task in tasks for name in task.added)),
            statistics={file: text for task in tasks for file, text in task.statistics.items()},
        )


class DeltaTask:
    """One attempt's files. A table with rules is not partitioned here: its partitions may be what is computed."""

    def __init__(
        self,
        storage: Storage,
        attempt: Attempt,
        schema: pa.Schema,
        partition_by: list[str],
        layout: Layout | None,
    ) -> None:
        self._storage = storage
        path = storage.path
        self._layout = layout
        wanted = schema if layout is None else layout.schema
        computed = [] if layout is None else layout.generated
        self._conversion = Conversion(f"Delta table {path}", wanted, schema, computed)
        self._schema = self._conversion.schema
        self._partition_by = [] if layout is not None and layout.rules else partition_by
        missing = [name for name in self._partition_by if name not in self._schema.names]
        if missing:
            raise SinkError(
                f"Delta table {path} is partitioned by {', '.join(missing)}, "
                f"but the rows have {', '.join(schema.names)}"
            )
        self._scratch = storage.scratch()
        self._files = TableTask(self._scratch, attempt, self._stored(), self._partition_by)
        self._nans: set[tuple[str, ...]] = set()

    def _stored(self) -> pa.Schema:
        """As `_schema`, with values of partitions as the texts that they are in Delta's log."""
        return pa.schema(
            [field.with_type(pa.string()) if field.name in self._partition_by else field for field in self._schema]
        )

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._conversion.apply(batch)
        self._check_lengths(rows)
        self._nans |= nan_columns(rows)
        columns = [
            _partition_texts(column) if field.name in self._partition_by else column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        self._files.write(pa.RecordBatch.from_arrays(columns, schema=self._stored()))

    def close(self) -> bytes:
        written = TableFiles.decode(self._files.close())
        statistics = {}
        if self._layout is None or not self._layout.rules:
            inside = pa.schema([field for field in self._schema if field.name not in self._partition_by])
            for file in written.files:
                metadata = pq.read_metadata(self._scratch / file.final)
                statistics[file.final] = describe(metadata, inside, self._layout, self._nans)
        try:
            self._storage.send(self._scratch, [file.final for file in written.files])
        except (DeltaError, OSError) as error:
            raise SinkError(f"Delta table {self._storage.path} cannot be written: {in_one_line(error)}") from error
        self._storage.leave(self._scratch)
        return DeltaFiles(
            rows=written.rows,
            files=written.files,
            schemas=[self._schema.serialize().to_pybytes()],
            layouts=[self._layout],
            added=[field.name for field in self._conversion.added],
            statistics=statistics,
        ).encode()

    def abort(self) -> None:
        self._files.abort()
        self._storage.leave(self._scratch)

    def _check_lengths(self, rows: pa.RecordBatch) -> None:
        lengths = {} if self._layout is None else self._layout.lengths
        for name, length in lengths.items():
            long = pc.greater(pc.fill_null(pc.utf8_length(rows.column(name)), 0), length)
            if pc.any(long).as_py():
                raise RowError(
                    f"column {name} of Delta table {self._storage.path} is varchar({length}), too short for this row: "
                    f"{shown(rows, pc.index(long, True).as_py())}"
                )


def _partition_texts(column: pa.Array) -> pa.Array:
    """Delta knows no empty text as the value of a partition: it stands for null."""
    if pa.types.is_timestamp(column.type):
        naive = pc.cast(column, pa.timestamp("us"))
        return pc.strftime(naive, format="%Y-%m-%d %H:%M:%S")
    texts = pc.cast(column, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
