"""Make a batch one version of a Delta table.

The version carries the query and the batch as the table's own transaction identifier. It is looked up before each try,
and Delta refuses a version whose identifier another has set since that look: of two attempts at a batch one lands.
Files are deleted only as long as none of our tries could have named them; what is left then is for VACUUM.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from pyromq.clock import wall_clock
from pyromq.spark.errors import RowError, SinkError, TableChangedError
from pyromq.spark.sink.table.datafile import DataFile
from pyromq.spark.sink.table.delta.layout import Layout, in_one_line, layout_of, open_table
from pyromq.spark.sink.table.delta.storage import Storage
from pyromq.spark.sink.table.delta.task import DeltaFiles

TRIES = 10
READ_ROWS = 16_384
LIBRARY_FILE_BYTES = 64 << 20
"""Of a file that the library writes; it holds about that much of it in memory."""
_TAKEN = "already exists"


class Commit:
    """One batch of one query on its way into a table."""

    def __init__(self, storage: Storage, partition_by: list[str], source: str, batch: int, written: DeltaFiles) -> None:
        self._storage = storage
        self._path = storage.path
        self._partition_by = partition_by
        self._source = source
        self._batch = batch
        self._written = written
        self._properties = CommitProperties(app_transactions=[Transaction(source, batch)])
        self._named = False
        """Whether a version with our files may exist."""

    def run(self) -> None:
        """Raises SinkError; then nothing of the batch is in the table, unless the store did not say what it did."""
        try:
            for _ in range(TRIES):
                if self._landed():
                    return
        except DeltaError as error:
            raise SinkError(
                f"Delta table {self._path} did not take batch {self._batch}: {in_one_line(error)}"
            ) from error
        raise TableChangedError(f"Delta table {self._path}: {TRIES} times others committed before batch {self._batch}")

    def _landed(self) -> bool:
        table = open_table(self._storage)
        if table is None:
            return self._create()
        done = table.transaction_version(self._source)
        if done is not None and done >= self._batch:
            self._discard()
            return True
        layout = layout_of(table, self._path)
        if self._lacks_columns(table, layout):
            return False
        return self._through_library(table, layout) if layout.rules else self._append(table)

    def _create(self) -> bool:
        if self._written.layouts != [None]:
            raise self._changed("is gone")
        self._named = True
        try:
            create_table_with_add_actions(
                self._path,
                Schema.from_arrow(self._written.schema),
                self._actions(),
                partition_by=self._partition_by,
                storage_options=self._storage.options or None,
                commit_properties=self._properties,
            )
        except CommitFailedError:
            return False
        except DeltaError as error:
            if _TAKEN in str(error):
                return False
            raise
        return True

    def _lacks_columns(self, table: DeltaTable, layout: Layout) -> bool:
        """Adds what is missing, so that the next look finds it. Raises TableChangedError."""
        added = set(self._written.added)
        if self._written.layouts != [layout.without(added)]:
            raise self._changed("was changed")
        schema = self._written.schema
        fields = {name: Field.from_json(_field(schema, name).to_json()) for name in added}
        missing = [fields[name] for name in self._written.added if name not in layout.columns]
        other = [name for name in added & set(layout.columns) if _kind(table.schema(), name) != str(fields[name].type)]
        if other:
            raise self._changed(f"got another column {', '.join(other)}")
        if not missing:
            return False
        with contextlib.suppress(CommitFailedError):  # somebody else changed it: the next look tells
            table.alter.add_columns(missing)
        return True

    def _append(self, table: DeltaTable) -> bool:
        self._named = True
        try:
            table.create_write_transaction(
                [*self._actions()],
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=self._properties,
            )
        except CommitFailedError:
            return False
        return True

    def _through_library(self, table: DeltaTable, layout: Layout) -> bool:
        """The rows of the staged files, in files that the library writes."""
        try:
            rows = pa.RecordBatchReader.from_batches(self._written.schema, self._rows())
            write_deltalake(
                table,
                rows,
                mode="append",
                target_file_size=LIBRARY_FILE_BYTES,
                commit_properties=self._properties,
            )
        except CommitFailedError:
            return False
        except DeltaError as error:
            self._discard()
            if "failed validation check" in str(error):
                raise RowError(self._violation(str(error), layout)) from None
            raise
        self._discard()
        return True

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Read in a thread of its own: in those of its writer the library's file system cannot be asked."""
        batches = self._staged()
        with ThreadPoolExecutor(max_workers=1) as reader:
            while (batch := reader.submit(next, batches, None).result()) is not None:
                yield batch

    def _staged(self) -> Iterator[pa.RecordBatch]:
        files = self._storage.files()
        for each in self._written.files:
            with files.open_input_file(each.final) as source, pq.ParquetFile(source) as file:
                yield from file.iter_batches(batch_size=READ_ROWS)

    def _violation(self, text: str, layout: Layout) -> str:
        """The library shows rows as a table drawn in characters, and does not say which rule they break."""
        lines = [line.strip("|") for line in text.splitlines() if line.startswith("|")]
        names, values = ([cell.strip() for cell in line.split("|")] for line in [*lines, "", ""][:2])
        row = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        rules = " or ".join(f"{name} ({rule})" for name, rule in layout.rules.items())
        return (
            f"Delta table {self._path} did not take batch {self._batch}: a row breaks {rules}: {row}. Nothing of the "
            "batch is in the table; leave such rows out in a transform, or change the table"
        )

    def _actions(self) -> list[AddAction]:
        return [_action(file, self._written.statistics[file.final]) for file in self._written.files]

    def _changed(self, what: str) -> TableChangedError:
        self._discard()
        return TableChangedError(
            f"Delta table {self._path} {what} while batch {self._batch} was written; it is written again"
        )

    def _discard(self) -> None:
        if not self._named:
            self._storage.delete(file.final for file in self._written.files)


def _field(schema: pa.Schema, name: str) -> Field:
    return Schema.from_arrow(pa.schema([schema.field(name)])).fields[0]


def _kind(schema: Schema, name: str) -> str:
    return str(next(field.type for field in schema.fields if field.name == name))


def _action(file: DataFile, statistics: str) -> AddAction:
    return AddAction(
        path=file.final,
        size=file.size,
        partition_values=file.partition,
        modification_time=wall_clock(),
        data_change=True,
        stats=statistics,
    )
