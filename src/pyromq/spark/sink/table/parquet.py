"""Parquet files in a folder or object store, each batch exactly once: staged by tasks, made visible by a manifest."""

import logging
import time
from collections.abc import Sequence

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.errors import PyroMQError
from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.fold import fold
from pyromq.spark.sink.table.folder import STAGING
from pyromq.spark.sink.table.manifest import Manifest, Manifests
from pyromq.spark.sink.table.task import TableFiles, TableTask
from pyromq.spark.storage.place import Scalar, open_store
from pyromq.spark.storage.store import Store

STALE_STAGING_SECONDS = 24 * 3600.0
FOLD_EVERY = 32
"""Batches between two folds."""

log = logging.getLogger(__name__)


class ParquetSink(msgspec.Struct, kw_only=True):
    """A folder of Parquet files, or the same in an object store.

    The commit point is the manifest; what another attempt at the same batch staged is thrown away when there is one.
    """

    name: str
    path: str
    partition_by: list[str] = []
    storage: dict[str, dict[str, Scalar]] = {}

    def store(self) -> Store:
        """Where the table is. Raises OptionError."""
        return open_store(self.path, self.storage, shared=True)

    def prepare(self, query: str) -> None:
        """Take away what attempts that crashed long ago left behind."""
        del query
        store = self.store()
        oldest = time.time() - STALE_STAGING_SECONDS
        stale = {entry.name for entry in store.list(STAGING) if entry.modified < oldest}
        if stale:
            store.delete(stale - {file.staged for file in Manifests(store).files()})

    def open(self, attempt: Attempt, schema: pa.Schema) -> TableTask:
        return TableTask(self.store(), attempt, schema, self.partition_by, staging=STAGING)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        written = TableFiles.of_batch(messages)
        manifests = Manifests(self.store())
        manifest = Manifest(query=query, batch=batch, files=written.files, columns=written.columns)
        if written.files and manifests.commit(manifest):
            manifests.settle_files(manifest)
        else:
            manifests.settle(query, batch)
            written.discard(manifests.store)
        if batch % FOLD_EVERY == FOLD_EVERY - 1:
            try:
                fold(manifests)
            except (PyroMQError, OSError) as error:  # the batch is committed; the next time will do
                log.warning("the manifests of %s were not folded: %s", self.path, error)
        return written.rows


def check_columns(sink: ParquetSink, schema: pa.Schema) -> None:
    """Raises SinkError when a column has another type than in what the table holds already."""
    known = Manifests(sink.store()).columns()
    changed = [
        f"{field.name} ({known[field.name]}, now {field.type})"
        for field in schema
        if field.name in known and known[field.name] != str(field.type)
    ]
    if changed:
        raise SinkError(
            f"{sink.path} holds other types: {', '.join(changed)}. Columns can be added; a new type needs a new path"
        )
