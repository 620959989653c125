"""Parquet files in a folder, each batch exactly once: staged by the tasks, made visible by a manifest."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt, Written
from pyromq.spark.sink.table.datafile import DataFile, FileWriter
from pyromq.spark.sink.table.folder import STAGING
from pyromq.spark.sink.table.manifest import Manifest, Manifests

STALE_STAGING_SECONDS = 24 * 3600.0


class StagedFiles(Written, kw_only=True):
    """What a task staged."""

    files: list[DataFile]
    columns: dict[str, str]


class ParquetTask:
    """One attempt's files."""

    def __init__(self, writer: FileWriter, schema: pa.Schema) -> None:
        self._writer = writer
        self._columns = {field.name: str(field.type) for field in schema}

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def close(self) -> bytes:
        files = self._writer.close()
        return StagedFiles(rows=sum(file.rows for file in files), files=files, columns=self._columns).encode()

    def abort(self) -> None:
        self._writer.abort()


class ParquetSink(msgspec.Struct, kw_only=True):
    """A folder of Parquet files.

    The commit point is the manifest; what an earlier attempt at the same batch staged is thrown away when a manifest
    exists already.
    """

    name: str
    path: str
    partition_by: list[str] = []

    def prepare(self, query: str) -> None:
        """Take away what attempts that crashed long ago left behind."""
        del query
        table = Path(self.path)
        oldest = time.time() - STALE_STAGING_SECONDS
        stale = [path for path in (table / STAGING).glob("*.parquet") if path.stat().st_mtime < oldest]
        if stale:
            kept = {table / file.staged for file in Manifests(table).files()}
            for path in stale:
                if path not in kept:
                    path.unlink(missing_ok=True)

    def open(self, attempt: Attempt, schema: pa.Schema) -> ParquetTask:
        stem = f"{attempt.query[:8]}-{attempt.batch:08d}-{attempt.partition:05d}"
        return ParquetTask(FileWriter(Path(self.path), schema, self.partition_by, stem=stem, staging=STAGING), schema)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        staged = [StagedFiles.decode(message) for message in messages]
        manifests = Manifests(Path(self.path))
        files = [file for each in staged for file in each.files]
        rows = sum(each.rows for each in staged)
        if manifests.holds(query, batch):
            manifests.settle(query, batch)
            for file in files:
                (Path(self.path) / file.staged).unlink(missing_ok=True)
            return rows
        if files:
            columns = {name: kind for each in staged for name, kind in each.columns.items()}
            manifests.commit(Manifest(query=query, batch=batch, files=files, columns=columns))
            manifests.settle(query, batch)
        return rows


def check_columns(sink: ParquetSink, schema: pa.Schema) -> None:
    """Raises SinkError when a column has another type than in what the table holds already."""
    known = Manifests(Path(sink.path)).columns()
    changed = [
        f"{field.name} ({known[field.name]}, now {field.type})"
        for field in schema
        if field.name in known and known[field.name] != str(field.type)
    ]
    if changed:
        raise SinkError(
            f"{sink.path} holds other types: {', '.join(changed)}. Columns can be added; a new type needs a new path"
        )
