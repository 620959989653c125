"""Merge small Parquet files of a table into larger ones, while it is being written and read.

The merged file is staged, a manifest says what it replaces (the commit point), then the old files step aside and the
new one takes its place; both are redone after a crash. The old files are deleted by a later run, after a grace period.
"""

import fcntl
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.datafile import DataFile, OpenFile
from pyromq.spark.sink.table.folder import MANIFESTS, REPLACED, STAGING, partition_path
from pyromq.spark.sink.table.manifest import Manifest, Manifests

QUERY = "compaction"
READ_ROWS = 16_384


class Compacted(msgspec.Struct):
    """What one run did."""

    before: int
    after: int
    merged: int
    deleted: int


def compact(table: Path, *, target: int, older_than: float, grace: float, clock: Callable[[], float]) -> Compacted:
    """Merge what is smaller than `target` bytes and `older_than` seconds old; ages count from `clock`, as time.time.

    Raises SinkError when another run is under way.
    """
    if not (table / MANIFESTS).is_dir():
        raise SinkError(f"{table} has no manifests; only tables that a pipeline writes can be compacted")
    manifests = Manifests(table)
    with _alone(table):
        manifests.settle_all()
        deleted = _delete_replaced(table, clock() - grace)
        files = manifests.files()
        merged = 0
        for group in _groups(table, files, target, clock() - older_than):
            manifests.commit(
                Manifest(
                    query=QUERY,
                    batch=_next(manifests),
                    files=[_merge(table, group)],
                    replaces=[file.final for file in group],
                )
            )
            manifests.settle_all()
            merged += len(group)
        manifests.fold()
        return Compacted(len(files), len(manifests.files()), merged, deleted)


def _next(manifests: Manifests) -> int:
    number = manifests.base().batches.get(QUERY, -1) + 1
    while manifests.holds(QUERY, number):
        number += 1
    return number


def _groups(table: Path, files: list[DataFile], target: int, newest: float) -> Iterator[list[DataFile]]:
    """Files of one partition that together make about one of the wanted size."""
    by_partition: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size < target * 3 // 4 and (table / file.final).stat().st_mtime <= newest:
            by_partition[partition_path(file.partition)].append(file)
    for small in by_partition.values():
        group: list[DataFile] = []
        for file in small:
            if group and sum(each.size for each in group) + file.size > target:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def _merge(table: Path, group: list[DataFile]) -> DataFile:
    schemas = [pq.read_schema(table / file.final) for file in group]
    try:
        schema = pa.unify_schemas(schemas)
    except pa.ArrowInvalid as error:
        raise SinkError(f"files of {table} do not fit together: {error}") from None
    name = f"compact-{uuid.uuid4().hex[:12]}.parquet"
    place = partition_path(group[0].partition)
    final = f"{place}/{name}" if place else name
    target = OpenFile(table, f"{STAGING}/{name}", final, schema, group[0].partition)
    try:
        for file in group:
            with pq.ParquetFile(table / file.final) as source:
                for batch in source.iter_batches(batch_size=READ_ROWS):
                    target.add(_widened(batch, schema))
        merged = target.close()
    except BaseException:
        target.abort()
        raise
    if merged.rows != sum(file.rows for file in group):
        raise SinkError(f"{table}: merged {merged.rows} rows out of {sum(file.rows for file in group)}")
    return merged


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With nulls in columns that were added later."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _delete_replaced(table: Path, oldest: float) -> int:
    """What stepped aside before `oldest`."""
    deleted = 0
    for path in (table / REPLACED).rglob("*.parquet"):
        if path.stat().st_ctime <= oldest:  # a rename leaves the time of the content alone, but not this one
            path.unlink(missing_ok=True)
            deleted += 1
    if not any((table / REPLACED).rglob("*.parquet")):
        shutil.rmtree(table / REPLACED, ignore_errors=True)
    return deleted


@contextmanager
def _alone(table: Path) -> Iterator[None]:
    with (table / MANIFESTS / ".compaction.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SinkError(f"{table} is being compacted by another process") from None
        yield
