"""Statistics of a data file in Delta's JSON, from those of Parquet: readers skip files by them, so a bound may be loose
but never wrong. A column whose bounds are not certain has none.
"""

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pyromq.spark.sink.table.delta.layout import INDEXED_COLUMNS, Layout

MAX_TEXT = 32
HIGHEST = "\U0010ffff"
Path = tuple[str, ...]
_encoder = msgspec.json.Encoder(decimal_format="number")


def describe(metadata: pq.FileMetaData, schema: pa.Schema, layout: Layout | None, nans: set[Path]) -> str:
    """`schema` is that of the file, `nans` the columns with values that no bound covers."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    wanted = _indexed(schema, layout)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place, (path, kind) in enumerate(_leaves(schema)):
        if kind is None or path not in wanted:
            continue
        columns = [group.column(place).statistics for group in groups]
        if any(column is None or not column.has_null_count for column in columns):
            continue
        _put(nulls, path, sum(column.null_count for column in columns))
        known = [column for column in columns if column.has_min_max]
        unknown = [column for column in columns if not column.has_min_max and column.num_values]
        if known and not unknown and path not in nans:
            _put(lowest, path, _low(min(column.min for column in known), kind))
            _put(highest, path, _high(max(column.max for column in known), kind))
    found = {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
    return _encoder.encode(found).decode()


def nan_columns(batch: pa.RecordBatch) -> set[Path]:
    """Columns that have NaN, which Parquet leaves out of its bounds and Spark takes for the largest number."""
    found = set()
    for field in batch.schema:
        for path, column in _floats((field.name,), batch.column(field.name)):
            if pc.any(pc.is_nan(column)).as_py():
                found.add(path)
    return found


def _floats(path: Path, column: pa.Array) -> Iterator[tuple[Path, pa.Array]]:
    if pa.types.is_floating(column.type):
        yield path, column
    elif pa.types.is_struct(column.type):
        for field, part in zip(column.type, column.flatten(), strict=True):
            yield from _floats((*path, field.name), part)


def _leaves(schema: pa.Schema) -> Iterator[tuple[Path, pa.DataType | None]]:
    """The columns of the file in their order; no type for those inside lists and maps, which have no bounds."""
    for field in schema:
        yield from _within((field.name,), field.type)


def _within(path: Path, kind: pa.DataType, *, repeated: bool = False) -> Iterator[tuple[Path, pa.DataType | None]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _within((*path, field.name), field.type, repeated=repeated)
    elif pa.types.is_map(kind):
        yield from _within((*path, "key"), kind.key_type, repeated=True)
        yield from _within((*path, "value"), kind.item_type, repeated=True)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _within((*path, "element"), kind.value_type, repeated=True)
    else:
        yield path, None if repeated else kind


def _indexed(schema: pa.Schema, layout: Layout | None) -> set[Path]:
    """What the table wants statistics of."""
    leaves = [path for path, _ in _leaves(schema)]
    if layout is not None and layout.indexed_names:
        names = {tuple(name.lower().split(".")) for name in layout.indexed_names}
        return {path for path in leaves if any(_folded(path)[: len(name)] == name for name in names)}
    count = INDEXED_COLUMNS if layout is None else layout.indexed
    return set(leaves if count < 0 else leaves[:count])


def _folded(path: Path) -> Path:
    return tuple(part.lower() for part in path)


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for part in path[:-1]:
        into = into.setdefault(part, {})
    into[path[-1]] = value


def _low(value: Any, kind: pa.DataType) -> Any:
    return value[:MAX_TEXT] if isinstance(value, str) else _plain(value, kind)


def _high(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return None if value[MAX_TEXT] == HIGHEST else value[:MAX_TEXT] + HIGHEST
    return value if isinstance(value, str) else _plain(value, kind)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """None for what Delta has no order for, or no way to write."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if kind.tz is not None else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return value if math.isfinite(value) else None
