"""An Iceberg table, written without Java: tasks write data files, the driver commits them as one snapshot."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table, TableProperties

from pyromq.spark.errors import SinkError, TableChangedError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.conversion import Conversion
from pyromq.spark.sink.table.iceberg.catalog import catalog_of
from pyromq.spark.sink.table.iceberg.commit import MERGE_COUNT, TRIES, commit_batch, expire
from pyromq.spark.sink.table.iceberg.datafiles import IcebergFiles
from pyromq.spark.sink.table.iceberg.partitions import parse_partition, table_partitions
from pyromq.spark.sink.table.iceberg.task import IcebergTask, Shape

OWN_TABLES = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: MERGE_COUNT,
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}
"""Properties of tables that a sink makes: what every commit adds to is kept small."""


class IcebergSink(msgspec.Struct, kw_only=True):
    """A table `namespace.name` of a catalog; without a description of one the catalog is a file in the warehouse."""

    name: str
    table: str
    warehouse: str = ""
    catalog: dict[str, str] = {}
    partition_by: list[str] = []
    keep_snapshots: int | None = None
    """How many snapshots stay, None for all."""
    shape: Shape | None = None
    """The table at the last look of the driver."""

    def prepare(self, query: str) -> None:
        """Look at the table. Raises SinkError."""
        del query
        with self.open_catalog("cannot be read") as catalog:
            table = self._load(catalog)
            self.shape = None if table is None else Shape.of(table)

    def check(self, schema: pa.Schema) -> None:
        """Raises SinkError when rows of this schema cannot go into the table."""
        with self.open_catalog("cannot be read") as catalog:
            table = self._load(catalog)
            if table is not None:
                self._conversion(table, schema)

    def make(self, schema: pa.Schema) -> Shape:
        """The table with all columns of the rows: made, or changed, unless it has them. Raises SinkError."""
        for _ in range(TRIES):
            with self.open_catalog("cannot be made") as catalog:
                try:
                    table = self._load(catalog) or self._create(catalog, schema)
                    added = self._conversion(table, schema).added
                    if not added:
                        return Shape.of(table)
                    with table.update_schema() as update:
                        update.union_by_name(pa.schema(added))
                except (CommitFailedException, TableAlreadyExistsError):
                    continue  # somebody else made or changed it: the next look tells
        raise TableChangedError(f"Iceberg table {self.table} is changed all the time by others")

    def open(self, attempt: Attempt, schema: pa.Schema) -> IcebergTask:
        del attempt
        if self.shape is not None:
            task = IcebergTask(self.table, self.shape, schema)
            if not task.added:
                return task
        return IcebergTask(self.table, self.make(schema), schema)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        tasks = [IcebergFiles.decode(message) for message in messages]
        if any(task.files for task in tasks):
            with self.open_catalog(f"did not take batch {batch}") as catalog:
                table = commit_batch(catalog, self.table, f"{query}/{self.name}", batch, tasks)
                if self.keep_snapshots is not None:
                    expire(table, self.keep_snapshots)
        return sum(task.rows for task in tasks)

    def open_catalog(self, doing: str) -> AbstractContextManager[Catalog]:
        """`doing` is what a failure meant for the table, in words."""
        return catalog_of(self.table, self.catalog, self.warehouse, doing)

    def _load(self, catalog: Catalog) -> Table | None:
        try:
            table = catalog.load_table(self.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        wanted = [parse_partition(text) for text in self.partition_by]
        known = table_partitions(table)
        if wanted and wanted != known:
            texts = ", ".join(map(str, known)) or "nothing"
            raise SinkError(
                f"Iceberg table {self.table} is partitioned by {texts}; leave partition_by out or say the same there"
            )
        return table

    def _create(self, catalog: Catalog, schema: pa.Schema) -> Table:
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        creation = catalog.create_table_transaction(self.table, schema, properties=OWN_TABLES)
        with creation as transaction, transaction.update_spec() as update:
            for partition in map(parse_partition, self.partition_by):
                update.add_field(partition.column, partition.transform)
        return catalog.load_table(self.table)

    def _conversion(self, table: Table, schema: pa.Schema) -> Conversion:
        return Conversion(f"Iceberg table {self.table}", table.schema().as_arrow(), schema)
