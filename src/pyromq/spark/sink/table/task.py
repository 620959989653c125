"""What tasks write for table formats: files that nobody sees until the table's own commit names them."""

from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.sink.sink import Written
from pyromq.spark.sink.table.datafile import DataFile, FileWriter


class TableFiles(Written, kw_only=True):
    """What a task wrote, and of which Arrow schema (as IPC bytes)."""

    files: list[DataFile]
    schema: bytes


class TableTask:
    """One attempt's files; in place already, but not in the table."""

    def __init__(self, writer: FileWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def close(self) -> bytes:
        files = self._writer.close()
        schema = self._schema.serialize().to_pybytes()
        return TableFiles(rows=sum(file.rows for file in files), files=files, schema=schema).encode()

    def abort(self) -> None:
        self._writer.abort()


def schema_of(written: Sequence[TableFiles]) -> pa.Schema:
    """The schema of a batch that has at least one task with rows."""
    return pa.ipc.read_schema(pa.py_buffer(written[0].schema))
