"""Merge small Parquet files of a table into larger ones, while it is being written and read.

The merged file is staged, a manifest says what it replaces (the commit point), then the old files step aside and the
new one takes its place; both are redone after a crash. The old files are deleted by a later run, after a grace period.
Compactions are numbered: of two that go on at a time one gets the next number, the other has merged in vain and ends.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.datafile import DataFile, OpenFile
from pyromq.spark.sink.table.fold import fold
from pyromq.spark.sink.table.folder import MANIFESTS, REPLACED, STAGING, partition_path
from pyromq.spark.sink.table.manifest import COMPACTION, Manifest, Manifests
from pyromq.spark.storage.store import Store

READ_ROWS = 16_384


class Compacted(msgspec.Struct):
    """What one run did."""

    before: int
    after: int
    merged: int
    deleted: int


def compact(
    table: Path | Store,
    *,
    target: int,
    older_than: float,
    grace: float,
    clock: Callable[[], float],
    most: int | None = None,
    least: int = 2,
) -> Compacted:
    """Merge what is smaller than `target` bytes and `older_than` seconds old; ages count from `clock`, as time.time.

    With `most` it ends once it has merged so many bytes, else when nothing is left to merge. With `least` it waits for
    so many files, and for as many bytes of smaller ones before it writes a file again. Raises SinkError.
    """
    manifests = Manifests(table)
    store = manifests.store
    if not store.list(MANIFESTS):
        raise SinkError(f"{store.url} has no manifests; only tables that a pipeline writes can be compacted")
    fold(manifests)
    deleted = _delete_replaced(store, clock() - grace)
    now = manifests.snapshot()
    files = manifests.files_of(now)
    number = now.last_compaction
    done: list[DataFile] = []
    for group in _groups(store, files, target, clock() - older_than, least):
        if most is not None and sum(file.size for file in done) >= most:
            break
        try:
            merged = _merge(store, group)
        except FileNotFoundError:  # another compaction has moved them
            break
        number += 1
        manifest = Manifest(query=COMPACTION, batch=number, files=[merged], replaces=[file.final for file in group])
        if not manifests.commit(manifest):
            store.delete([merged.staged])
            break
        manifests.settle_files(manifest)
        done += group
    if done:
        fold(manifests)
    return Compacted(len(files), len(manifests.files()), len(done), deleted)


def _groups(store: Store, files: list[DataFile], target: int, newest: float, least: int) -> Iterator[list[DataFile]]:
    """Files of one partition that together make about one of the wanted size."""
    by_partition: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size < target * 3 // 4:
            by_partition[partition_path(file.partition)].append(file)
    for place, small in by_partition.items():
        if len(small) < least:
            continue
        old = {entry.name for entry in store.list(place) if entry.modified <= newest}
        group: list[DataFile] = []
        for file in _worthwhile([file for file in small if file.final in old], least):
            if group and sum(each.size for each in group) + file.size > target:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def _worthwhile(files: list[DataFile], least: int) -> list[DataFile]:
    """Those to merge now: a file is written again only together with as many bytes, so seldom rather than each time."""
    if least <= 2:
        return files
    ascending = sorted(files, key=lambda file: file.size)
    count = total = 0
    for place, file in enumerate(ascending, start=1):
        if file.size <= total:
            count = place
        total += file.size
    chosen = {file.final for file in ascending[:count]} if count >= least else set()
    return [file for file in files if file.final in chosen]


def _merge(store: Store, group: list[DataFile]) -> DataFile:
    schemas = []
    for file in group:
        with store.input(file.final) as source:
            schemas.append(pq.read_schema(source))
    try:
        schema = pa.unify_schemas(schemas)
    except pa.ArrowInvalid as error:
        raise SinkError(f"files of {store.url} do not fit together: {error}") from None
    name = f"compact-{uuid.uuid4().hex[:12]}.parquet"
    place = partition_path(group[0].partition)
    final = f"{place}/{name}" if place else name
    target = OpenFile(store, f"{STAGING}/{name}", final, schema, group[0].partition)
    try:
        for file in group:
            with store.input(file.final) as source, pq.ParquetFile(source) as parquet:
                for batch in parquet.iter_batches(batch_size=READ_ROWS):
                    target.add(_widened(batch, schema))
        merged = target.close()
    except BaseException:
        target.abort()
        raise
    if merged.rows != sum(file.rows for file in group):
        raise SinkError(f"{store.url}: merged {merged.rows} rows out of {sum(file.rows for file in group)}")
    return merged


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With nulls in columns that were added later."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _delete_replaced(store: Store, oldest: float) -> int:
    """What stepped aside before `oldest`."""
    gone = [entry.name for entry in store.list(REPLACED) if entry.named <= oldest]
    store.delete(gone)
    return len(gone)
