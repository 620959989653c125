"""What tasks write for tables: Parquet files that nobody sees until a manifest or the table's own commit names them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.sink.sink import Attempt, Written
from pyromq.spark.sink.table.datafile import DataFile, FileWriter
from pyromq.spark.storage.place import open_store
from pyromq.spark.storage.store import Store


class TableFiles(Written, kw_only=True):
    """What one task wrote, or all of a batch, and of which Arrow schemas (as IPC bytes)."""

    files: list[DataFile]
    schemas: list[bytes]

    @classmethod
    def of_batch(cls, messages: Sequence[bytes]) -> Self:
        """What all tasks wrote together."""
        tasks = [cls.decode(message) for message in messages]
        return cls(
            rows=sum(task.rows for task in tasks),
            files=[file for task in tasks for file in task.files],
            schemas=[schema for task in tasks for schema in task.schemas],
        )

    @property
    def schema(self) -> pa.Schema:
        """Of a batch that has at least one task with rows."""
        return pa.ipc.read_schema(pa.py_buffer(self.schemas[0]))

    @property
    def columns(self) -> dict[str, str]:
        """Name and type of every column."""
        schemas = (pa.ipc.read_schema(pa.py_buffer(schema)) for schema in self.schemas)
        return {field.name: str(field.type) for schema in schemas for field in schema}

    def discard(self, table: str | Path | Store) -> None:
        """Delete the files: an earlier attempt at the batch is committed already."""
        open_store(table).delete([file.staged for file in self.files])


class TableTask:
    """One attempt's files; `staging` is where they are until the commit, without it they are in place at once."""

    def __init__(
        self,
        table: str | Path | Store,
        attempt: Attempt,
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        *,
        staging: str | None = None,
    ) -> None:
        stem = f"{attempt.query[:8]}-{attempt.batch:08d}-{attempt.partition:05d}"
        self._writer = FileWriter(table, schema, partition_by, stem=stem, staging=staging)
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def close(self) -> bytes:
        files = self._writer.close()
        schema = self._schema.serialize().to_pybytes()
        return TableFiles(rows=sum(file.rows for file in files), files=files, schemas=[schema]).encode()

    def abort(self) -> None:
        self._writer.abort()
