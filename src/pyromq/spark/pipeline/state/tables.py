"""How large the tables are that a pipeline writes: files, rows, bytes."""

from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError
from pyromq.spark.pipeline.definition.definition import Definition, DeltaTarget, IcebergTarget, ParquetTarget, Target
from pyromq.spark.pipeline.definition.plan import delta_sink, iceberg_sink
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.storage.place import Options, open_store
from pyromq.spark.storage.store import StorageError, Store


class TableSize(msgspec.Struct, kw_only=True):
    """A folder or table at one moment."""

    path: str
    files: int
    rows: int
    bytes: int
    mean_bytes: int = 0
    """Of a file."""

    def __post_init__(self) -> None:
        self.mean_bytes = self.bytes // self.files if self.files else 0


def read_tables(definition: Definition) -> dict[str, TableSize]:
    """By sink, those that are files or tables. Raises SinkError when a table cannot be read."""
    found: dict[str, TableSize] = {}
    for name, _, target in definition.targets:
        size = table_size(name, target, definition.storage)
        if size is not None:
            found[name] = size
    return found


def table_size(name: str, target: Target, storage: Options) -> TableSize | None:
    """None for what is no table. Raises SinkError."""
    where = table_place(target)
    if where is None:
        return None
    try:
        if isinstance(target, DeltaTarget):
            return _delta_size(name, target)
        return _iceberg_size(name, target) if isinstance(target, IcebergTarget) else parquet_size(where, storage)
    except (SinkError, StorageError):
        raise
    except Exception as error:  # the libraries of tables have no common kind of error
        raise SinkError(f"the table {where} of sink {name} cannot be read: {error}") from error


def table_place(target: Target) -> str | None:
    """The folder or table that a sink writes; None for what has no types of its own."""
    if isinstance(target, ParquetTarget | DeltaTarget):
        return target.path
    if isinstance(target, IcebergTarget):
        catalog = str(target.catalog.get("name") or target.catalog.get("uri") or "")
        return "/".join(part for part in (catalog, target.warehouse, target.table) if part)
    return None


def parquet_size(table: str | Path | Store, storage: Options | None = None) -> TableSize:
    """By its manifests. Raises SinkError or StorageError."""
    store = open_store(table, storage)
    files, rows, size = Manifests(store).size()
    return TableSize(path=store.url, files=files, rows=rows, bytes=size)


def _delta_size(name: str, target: DeltaTarget) -> TableSize:
    from pyromq.spark.sink.table.delta.layout import open_table  # noqa: PLC0415 - an extra

    table = open_table(delta_sink(name, target).storage)
    if table is None:
        return TableSize(path=target.path, files=0, rows=0, bytes=0)
    actions = pa.table(table.get_add_actions())
    sizes = actions.column("size_bytes").to_pylist()
    rows = actions.column("num_records").to_pylist()
    return TableSize(path=target.path, files=len(sizes), rows=sum(each or 0 for each in rows), bytes=sum(sizes))


def may_exist(target: IcebergTarget) -> bool:
    """False without asking where not even the catalog can be there: asking would make it."""
    return bool(target.catalog) or Path(target.warehouse, "catalog.db").exists()


def _iceberg_size(name: str, target: IcebergTarget) -> TableSize:
    where = table_place(target) or ""
    if not may_exist(target):
        return TableSize(path=where, files=0, rows=0, bytes=0)
    with iceberg_sink(name, target).open_catalog("cannot be read") as catalog:
        if not catalog.table_exists(target.table):
            return TableSize(path=where, files=0, rows=0, bytes=0)
        snapshot = catalog.load_table(target.table).current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    files, rows, size = (int(summary.get(key, 0)) for key in ("total-data-files", "total-records", "total-files-size"))
    return TableSize(path=where, files=files, rows=rows, bytes=size)
