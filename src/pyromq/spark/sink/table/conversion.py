"""Rows as a table wants them: its columns in its order with its types, checked rather than bent.

A value that does not fit is an error that shows the row, never a null, a rounded number or another time. Columns that
the table does not have yet come last, with the type of the rows.
"""

from collections.abc import Collection

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]

from pyromq.spark.errors import RowError, SinkError

MAX_SHOWN = 200


class Conversion:
    """From rows of one schema to those of a table; `computed` are columns that the table fills in by itself."""

    def __init__(self, table: str, wanted: pa.Schema, given: pa.Schema, computed: Collection[str] = ()) -> None:
        self._table = table
        self._sources = _matched(table, wanted, given)
        lacking = [
            field.name
            for field in wanted
            if not field.nullable and field.name not in self._sources and field.name not in computed
        ]
        if lacking:
            raise SinkError(f"{table} has NOT NULL columns that the rows lack: {', '.join(lacking)}")
        self._fields = [field for field in wanted if field.name in self._sources or field.name not in computed]
        for field in self._fields:
            source = self._sources.get(field.name)
            if source is not None and not _castable(given.field(source).type, field.type):
                raise SinkError(
                    f"column {field.name} of {table} is {field.type}, but the rows have {given.field(source).type}; "
                    "cast it in a transform, or write to another table"
                )
        taken = set(self._sources.values())
        self.added = [pa.field(field.name, relaxed(field.type)) for field in given if field.name not in taken]
        self.schema: pa.Schema = pa.schema(
            [pa.field(field.name, relaxed(field.type)) for field in self._fields] + self.added
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises RowError."""
        columns = []
        for field in self._fields:
            source = self._sources.get(field.name)
            if source is None:
                columns.append(pa.nulls(batch.num_rows, relaxed(field.type)))
                continue
            column = batch.column(source)
            self._check_nulls(batch, column, field)
            columns.append(self._converted(batch, column, field))
        columns += [_converted(batch.column(field.name), field.type) for field in self.added]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _converted(self, batch: pa.RecordBatch, column: pa.Array, field: pa.Field) -> pa.Array:
        target = relaxed(field.type)
        try:
            return _converted(column, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            place = _first_unfit(column, target)
            raise RowError(
                f"column {field.name} of {self._table} is {field.type} and cannot hold what this row has: "
                f"{shown(batch, place)}"
            ) from None

    def _check_nulls(self, batch: pa.RecordBatch, column: pa.Array, field: pa.Field) -> None:
        missing = _missing(column, field)
        if missing is not None and pc.any(missing).as_py():
            raise RowError(
                f"column {field.name} of {self._table} is NOT NULL, but this row lacks it: "
                f"{shown(batch, pc.index(missing, True).as_py())}"
            )


def relaxed(kind: pa.DataType) -> pa.DataType:
    """The type with nulls allowed inside: what is required of values is checked before."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, relaxed(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(relaxed(kind.key_type), relaxed(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", relaxed(kind.value_type)))
    return kind


def shown(batch: pa.RecordBatch, place: int) -> str:
    """A row for people."""
    row = ", ".join(f"{name}={batch.column(name)[place].as_py()}" for name in batch.schema.names)
    return row if len(row) <= MAX_SHOWN else f"{row[:MAX_SHOWN]}…"


def _matched(table: str, wanted: pa.Schema, given: pa.Schema) -> dict[str, str]:
    """Column of the table -> column of the rows; as in Spark, capitals make no difference."""
    folded: dict[str, str] = {}
    for name in wanted.names:
        folded.setdefault(name.lower(), name)
    sources: dict[str, str] = {}
    for name in given.names:
        column = name if name in wanted.names else folded.get(name.lower())
        if column is None:
            continue
        if column in sources:
            raise SinkError(f"the rows have {sources[column]} and {name}, which are one column of {table}; rename one")
        sources[column] = name
    return sources


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type may go into a column of another; each value is checked besides."""
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_struct(given) and types.is_struct(wanted):
        names = {each.name for each in wanted}
        return all(each.name in names for each in given) and all(
            _castable(given.field(each.name).type, each.type)
            if given.get_field_index(each.name) >= 0
            else each.nullable
            for each in wanted
        )
    if types.is_map(given) and types.is_map(wanted):
        return _castable(given.key_type, wanted.key_type) and _castable(given.item_type, wanted.item_type)
    lists = (types.is_list, types.is_large_list)
    if any(each(given) for each in lists) and any(each(wanted) for each in lists):
        return _castable(given.value_type, wanted.value_type)
    if types.is_integer(given):
        return bool(types.is_integer(wanted) or types.is_decimal(wanted) or types.is_floating(wanted))
    if types.is_floating(given):
        return bool(types.is_floating(wanted) and given.bit_width <= wanted.bit_width)
    if types.is_date(given):
        return bool(types.is_timestamp(wanted))
    alike = (types.is_decimal, types.is_timestamp, _is_text, _is_bytes)
    return any(each(given) and each(wanted) for each in alike)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Raises ArrowInvalid for values that do not fit."""
    if column.type == wanted:
        return column
    if pa.types.is_struct(column.type) and pa.types.is_struct(wanted):
        parts = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
        made = [
            _converted(parts[each.name], each.type) if each.name in parts else pa.nulls(len(column), each.type)
            for each in wanted
        ]
        return pa.StructArray.from_arrays(made, fields=list(wanted), mask=column.is_null())
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp(wanted.unit))
    return pc.cast(column, wanted, safe=True)


def _first_unfit(column: pa.Array, wanted: pa.DataType) -> int:
    """By halves: the first `low` rows can be converted."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _converted(column[low:middle], wanted)
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return low


def _missing(column: pa.Array, field: pa.Field) -> pa.Array | None:
    """Which rows have null where the table allows none; None when it allows it everywhere."""
    masks = []
    if not field.nullable:
        masks.append(column.is_null())
    if pa.types.is_struct(field.type) and pa.types.is_struct(column.type):
        parts = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
        for each in field.type:
            inner = _missing(parts[each.name], each) if each.name in parts else None
            if inner is not None:
                masks.append(pc.and_(inner, column.is_valid()))
    elif pa.types.is_list(field.type) and not field.type.value_field.nullable:
        inside = pc.is_in(
            pa.array(range(len(column))),
            value_set=pc.list_parent_indices(column).filter(pc.list_flatten(column).is_null()).cast(pa.int64()),
        )
        masks.append(inside)
    if not masks:
        return None
    found = masks[0]
    for mask in masks[1:]:
        found = pc.or_(found, mask)
    return found
