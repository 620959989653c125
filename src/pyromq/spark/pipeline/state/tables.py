"""How large the tables are that a pipeline writes: files, rows, bytes."""

from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError
from pyromq.spark.pipeline.definition.definition import Definition, DeltaTarget, IcebergTarget, ParquetTarget, Target
from pyromq.spark.sink.table.manifest import Manifests


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
        size = table_size(name, target)
        if size is not None:
            found[name] = size
    return found


def table_size(name: str, target: Target) -> TableSize | None:
    """None for what is no table. Raises SinkError."""
    where = table_place(target)
    if where is None:
        return None
    try:
        if isinstance(target, DeltaTarget):
            return _delta_size(target)
        return _iceberg_size(name, target) if isinstance(target, IcebergTarget) else parquet_size(Path(where))
    except SinkError:
        raise
    except Exception as error:  # the libraries of tables have no common kind of error
        raise SinkError(f"the table {where} of sink {name} cannot be read: {error}") from error


def table_place(target: Target) -> str | None:
    """The folder or table that a sink writes; None for what has no types of its own."""
    if isinstance(target, ParquetTarget | DeltaTarget):
        return target.path
    return f"{target.warehouse}/{target.table}" if isinstance(target, IcebergTarget) else None


def parquet_size(table: Path) -> TableSize:
    """By its manifests. Raises SinkError."""
    files = Manifests(table).files()
    return TableSize(
        path=str(table),
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
    )


def _delta_size(target: DeltaTarget) -> TableSize:
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra

    if not DeltaTable.is_deltatable(target.path):
        return TableSize(path=target.path, files=0, rows=0, bytes=0)
    actions = pa.table(DeltaTable(target.path).get_add_actions())
    sizes = actions.column("size_bytes").to_pylist()
    rows = actions.column("num_records").to_pylist()
    return TableSize(path=target.path, files=len(sizes), rows=sum(each or 0 for each in rows), bytes=sum(sizes))


def _iceberg_size(name: str, target: IcebergTarget) -> TableSize:
    from pyromq.spark.sink.table.iceberg import IcebergSink  # noqa: PLC0415 - an extra

    sink = IcebergSink(name=name, table=target.table, warehouse=target.warehouse, catalog=target.catalog)
    where = table_place(target) or ""
    if not target.catalog and not Path(target.warehouse, "catalog.db").exists():
        return TableSize(path=where, files=0, rows=0, bytes=0)
    catalog = sink.load_catalog()
    try:
        if not catalog.table_exists(target.table):
            return TableSize(path=where, files=0, rows=0, bytes=0)
        files = catalog.load_table(target.table).inspect.files()
        rows = files.column("record_count").to_pylist()
        return TableSize(
            path=where, files=len(rows), rows=sum(rows), bytes=sum(files.column("file_size_in_bytes").to_pylist())
        )
    finally:
        catalog.close()
