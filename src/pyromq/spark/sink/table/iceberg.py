"""An Iceberg table, written without Java: tasks write Parquet, the driver adds the files as one snapshot.

Each snapshot says which batch of which query it is; a repeated batch is found there and its files are thrown away.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.folder import make_folder
from pyromq.spark.sink.table.task import TableFiles, TableTask

QUERY = "pyromq.query"
BATCH = "pyromq.batch"


class IcebergSink(msgspec.Struct, kw_only=True):
    """A table `namespace.name`; its data files lie in the warehouse folder."""

    name: str
    table: str
    warehouse: str
    catalog: dict[str, str] = {}

    def prepare(self, query: str) -> None:
        """Nothing to fetch."""

    @property
    def folder(self) -> Path:
        """Where the data files are."""
        return Path(self.warehouse, *self.table.split("."), "data")

    def load_catalog(self) -> Catalog:
        """The catalog: the one described, or an SQLite file in the warehouse."""
        warehouse = Path(self.warehouse).resolve()
        make_folder(warehouse)
        own = {"type": "sql", "uri": f"sqlite:///{warehouse / 'catalog.db'}", "warehouse": f"file://{warehouse}"}
        return load_catalog("pyromq", **(self.catalog or own))

    def open(self, attempt: Attempt, schema: pa.Schema) -> TableTask:
        return TableTask(self.folder, attempt, schema)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        written = TableFiles.of_batch(messages)
        if not written.files:
            return written.rows
        catalog = self.load_catalog()
        try:
            table = self._table(catalog, written.schema)
            source = f"{query}/{self.name}"
            if _last_batch(table, source) >= batch:
                written.discard(self.folder)
                return written.rows
            table.add_files(
                [f"file://{(self.folder / file.final).resolve()}" for file in written.files],
                snapshot_properties={QUERY: source, BATCH: str(batch)},
            )
        except (ValueError, OSError) as error:
            raise SinkError(f"Iceberg table {self.table} did not take batch {batch}: {error}") from error
        finally:
            catalog.close()
        return written.rows

    def _table(self, catalog: Catalog, schema: pa.Schema) -> Table:
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        table = catalog.create_table_if_not_exists(self.table, schema)
        with table.update_schema() as update:
            update.union_by_name(schema)
        return table


def _last_batch(table: Table, source: str) -> int:
    for snapshot in reversed(table.snapshots()):
        summary = snapshot.summary
        if summary is not None and summary.additional_properties.get(QUERY) == source:
            return int(summary.additional_properties[BATCH])
    return -1
