"""What a task writes for an Iceberg table: data files by the library's own writer, where and as the table wants them.

Memory is bounded: rows are written whenever they fill a buffer, into one file or more for each partition among them.
"""

import contextlib
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from pyromq.durable import sync_file
from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.conversion import Conversion
from pyromq.spark.sink.table.iceberg.catalog import in_one_line
from pyromq.spark.sink.table.iceberg.datafiles import IcebergFiles, described

BUFFERED_BYTES = 128 << 20
LOCAL = "file://"


class Shape(msgspec.Struct, frozen=True):
    """A table as tasks need to know it: its metadata without its history, and how its storage is reached."""

    metadata: str
    storage: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> "Shape":
        past: dict[str, object] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
        slim = table.metadata.model_copy(update={**past, "current_snapshot_id": None})
        return cls(slim.model_dump_json(), {key: str(value) for key, value in table.io.properties.items()})

    def open(self) -> tuple[TableMetadata, FileIO]:
        metadata = TableMetadataUtil.parse_raw(self.metadata)
        return metadata, load_file_io(dict(self.storage), metadata.location)


class IcebergTask:
    """One attempt's files. The table has every column of the rows."""

    def __init__(self, name: str, shape: Shape, schema: pa.Schema) -> None:
        self._name = name
        self._metadata, self._io = shape.open()
        self._conversion = Conversion(f"Iceberg table {name}", self._metadata.schema().as_arrow(), schema)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._files: list[DataFile] = []

    @property
    def added(self) -> list[pa.Field]:
        """Columns that the table lacks."""
        return self._conversion.added

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._conversion.apply(batch)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= BUFFERED_BYTES:
            self._flush()

    def close(self) -> bytes:
        self._flush()
        spec, schema = self._metadata.spec(), self._metadata.schema()
        return IcebergFiles(
            rows=sum(file.record_count for file in self._files),
            files=[described(file, spec, schema) for file in self._files],
            table=str(self._metadata.table_uuid),
            spec=spec.spec_id,
        ).encode()

    def abort(self) -> None:
        delete_files(self._io, [file.file_path for file in self._files])

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        try:
            for file in _dataframe_to_data_files(self._metadata, rows, self._io):
                self._files.append(file)
                if file.file_path.startswith(LOCAL):
                    sync_file(Path(file.file_path.removeprefix(LOCAL)))
        except Exception as error:  # of the storage, the format, the library
            raise SinkError(f"Iceberg table {self._name} cannot be written: {in_one_line(error)}") from error


def delete_files(io: FileIO, paths: list[str]) -> None:
    """Files that nobody will ever name; one that stays is an orphan, which does no harm."""
    for path in paths:
        with contextlib.suppress(Exception):  # each storage has errors of its own
            io.delete(path)
