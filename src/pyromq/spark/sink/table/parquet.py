"""Parquet files in a folder, each batch exactly once: staged by the tasks, made visible by a manifest."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.folder import STAGING
from pyromq.spark.sink.table.manifest import Manifest, Manifests
from pyromq.spark.sink.table.task import TableFiles, TableTask

STALE_STAGING_SECONDS = 24 * 3600.0


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

    def open(self, attempt: Attempt, schema: pa.Schema) -> TableTask:
        return TableTask(Path(self.path), attempt, schema, self.partition_by, staging=STAGING)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        written = TableFiles.of_batch(messages)
        manifests = Manifests(Path(self.path))
        if manifests.holds(query, batch):
            manifests.settle(query, batch)
            written.discard(Path(self.path))
        elif written.files:
            manifests.commit(Manifest(query=query, batch=batch, files=written.files, columns=written.columns))
            manifests.settle(query, batch)
        return written.rows


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
