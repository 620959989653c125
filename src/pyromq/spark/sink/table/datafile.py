"""Write Arrow batches as Parquet files, one for each combination of partition values, and say what was written.

Memory is bounded: rows wait for a row group of their file until the buffers of a task reach a limit, then the largest
is written; and files are closed, to be followed by another, when too many are open.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.folder import partition_path
from pyromq.spark.storage.place import open_store
from pyromq.spark.storage.store import Store

ROW_GROUP_BYTES = 64 << 20
BUFFERED_BYTES = 192 << 20
MAX_OPEN = 64
Key = tuple[str | None, ...]


class DataFile(msgspec.Struct, kw_only=True):
    """One Parquet file: where it was written, where it belongs (both relative to the table), and what it holds."""

    staged: str
    final: str
    rows: int
    size: int
    partition: dict[str, str | None] = {}
    offsets: tuple[int, int] | None = None
    """Lowest and highest queue offset, where the rows have one."""
    times: tuple[int, int] | None = None
    """Earliest and latest store time in ms, where the rows have one."""


class OpenFile:
    """A file being written; its rows wait for a row group."""

    def __init__(
        self, store: Store, staged: str, final: str, schema: pa.Schema, partition: dict[str, str | None]
    ) -> None:
        self.file = DataFile(staged=staged, final=final, rows=0, size=0, partition=partition)
        self._output = store.output(staged)
        plain = [field.name for field in schema if pa.types.is_binary(field.type) or field.name in ("body", "msgId")]
        encoded = [field.name for field in schema if field.name not in plain]
        self._writer = pq.ParquetWriter(
            self._output.target, schema, compression="zstd", use_dictionary=encoded or False
        )
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        self.file.rows += batch.num_rows
        names = batch.schema.names
        if "queueOffset" in names:
            self.file.offsets = _widened(self.file.offsets, batch.column("queueOffset"))
        if "storeTimestamp" in names and pa.types.is_timestamp(batch.schema.field("storeTimestamp").type):
            times = pc.cast(batch.column("storeTimestamp"), pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
            self.file.times = _widened(self.file.times, times)
        if self.waiting_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._waiting, self.waiting_bytes = [], 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        self.file.size = self._output.close()
        return self.file

    def abort(self) -> None:
        with contextlib.suppress(Exception):  # the store may be what failed
            self._writer.close()
        self._output.abort()


def _widened(span: tuple[int, int] | None, values: pa.Array) -> tuple[int, int] | None:
    found = pc.min_max(values).as_py()
    if found["min"] is None:
        return span
    low, high = found["min"], found["max"]
    return (low, high) if span is None else (min(low, span[0]), max(high, span[1]))


class FileWriter:
    """Files of one task; `stem` makes their names unique, `staging` is where they are until the commit."""

    def __init__(
        self,
        table: str | Path | Store,
        schema: pa.Schema,
        partition_by: Sequence[str],
        *,
        stem: str,
        staging: str | None,
    ) -> None:
        missing = [name for name in partition_by if name not in schema.names]
        if missing:
            raise SinkError(f"partition_by names {', '.join(missing)}, but the rows have {', '.join(schema.names)}")
        self._store = open_store(table, shared=True)
        self._partition_by = list(partition_by)
        self._columns = [name for name in schema.names if name not in partition_by]
        if not self._columns:
            raise SinkError("every column is a partition column; nothing is left to store")
        self._schema = pa.schema([schema.field(name) for name in self._columns])
        self._stem = f"{stem}-{uuid.uuid4().hex[:12]}"
        self._staging = staging
        self._count = 0
        self._open: dict[Key, OpenFile] = {}
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for key, part in self._split(batch):
            self._file(key).add(part)
        while sum(each.waiting_bytes for each in self._open.values()) > BUFFERED_BYTES:
            max(self._open.values(), key=lambda each: each.waiting_bytes).flush()

    def close(self) -> list[DataFile]:
        for each in self._open.values():
            self._done.append(each.close())
        self._open.clear()
        return self._done

    def abort(self) -> None:
        for each in self._open.values():
            each.abort()
        with contextlib.suppress(Exception):
            self._store.delete([file.staged for file in self._done])
        self._open.clear()

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
        if not batch.num_rows:
            return
        if not self._partition_by:
            yield (), batch.select(self._columns)
            return
        texts = [pc.cast(batch.column(name), pa.string()) for name in self._partition_by]
        keys = pa.table(texts, names=self._partition_by).group_by(self._partition_by).aggregate([]).to_pylist()
        for each in keys:
            key = tuple(each[name] for name in self._partition_by)
            yield (
                key,
                batch.filter(_mask(texts, key)).select(self._columns) if len(keys) > 1 else batch.select(self._columns),
            )

    def _file(self, key: Key) -> OpenFile:
        found = self._open.get(key)
        if found is not None:
            return found
        if len(self._open) >= MAX_OPEN:
            oldest = next(iter(self._open))
            self._done.append(self._open.pop(oldest).close())
        values = dict(zip(self._partition_by, key, strict=True))
        name = f"{self._stem}-{self._count:04d}.parquet"
        self._count += 1
        place = partition_path(values)
        final = f"{place}/{name}" if place else name
        staged = final if self._staging is None else f"{self._staging}/{name}"
        made = self._open[key] = OpenFile(self._store, staged, final, self._schema, values)
        return made


def _mask(columns: Sequence[pa.Array], key: Key) -> pa.Array:
    mask = None
    for column, value in zip(columns, key, strict=True):
        each = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
        mask = each if mask is None else pc.and_(mask, each)
    return mask
