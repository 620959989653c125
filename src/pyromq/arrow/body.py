"""JSON bodies as columns, decoded with a generated msgspec struct.

Wrong types, numbers out of range and broken text make a bad record, never a silent null. Missing fields are null.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq import native
from pyromq.arrow import scalar
from pyromq.arrow.errors import BadRecordError, ColumnError
from pyromq.arrow.pieces import Buffers, buffers
from pyromq.arrow.policy import BadRecords
from pyromq.arrow.recordlayout import Longs

ERROR = "_error"
BODY = "_body"
MAX_DEPTH = 32

Convert = Callable[[Any], Any]


class BodyReader:
    """Turns bodies into the fields of an Arrow schema. Travels to tasks as that schema; the rest is made there."""

    def __init__(self, fields: Sequence[pa.Field], bad: BadRecords) -> None:
        self._fields = list(fields)
        self._bad = bad
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._converters: list[Convert | None] = []
        self._formats: list[tuple[str, str]] | None = None
        """Names and types as the core has them, None when it does not know one."""
        self._prepare()  # finds types that JSON has no form for before the query starts

    def __getstate__(self) -> tuple[list[pa.Field], BadRecords]:
        return self._fields, self._bad

    def __setstate__(self, state: tuple[list[pa.Field], BadRecords]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # decoders are made in each process

    def _prepare(self) -> None:
        kinds = [_kind(field.type, 0) for field in self._fields]
        # Names of fields need not be Python's; only their encoded form has to be right.
        struct = msgspec.defstruct(
            "Body",
            [(f"f{index}", kind | None, None) for index, (kind, _) in enumerate(kinds)],
            rename={f"f{index}": field.name for index, field in enumerate(self._fields)},
        )
        self._decoder = msgspec.json.Decoder(struct)
        self._converters = [convert for _, convert in kinds]
        formats = [(field.name, _FORMATS.get(field.type, "")) for field in self._fields]
        self._formats = formats if formats and all(each for _, each in formats) else None

    def columns(self, bodies: pa.Array, faults: pa.Array | None = None) -> tuple[dict[str, pa.Array], pa.Array | None]:
        """The fields of all bodies, and where rows are to be dropped, which of them stay.

        A body with a fault is damaged: it is not looked into, and whether it ends the query was decided before.
        Raises BadRecordError for a body that does not fit, if that is what was asked for.
        """
        damaged = faults is not None and faults.null_count < len(faults)
        damage: list[str | None] = faults.to_pylist() if faults is not None and damaged else [None] * len(bodies)
        plain = None if damaged else self._plain(bodies)
        if plain is None:
            rows, errors = self._read(bodies.to_pylist(), damage)
            made = self._arrays(rows)
        else:
            made, left = plain
            errors = [None] * len(bodies)
            if len(left):
                rows, told = self._read(bodies.take(pa.array(left)).to_pylist(), [None] * len(left))
                places = np.arange(len(bodies))
                places[left] = len(bodies) + np.arange(len(left))
                late = self._arrays(rows)
                made = {
                    name: pa.concat_arrays([column, late[name]]).take(pa.array(places)) for name, column in made.items()
                }
                for row, error in zip(left.tolist(), told, strict=True):
                    errors[row] = error
        stays = None
        if self._bad is BadRecords.KEEP:
            made[ERROR] = pa.array(errors, pa.string())
            made[BODY] = pa.array(
                [None if error is None else body.as_py() for body, error in zip(bodies, errors, strict=True)],
                pa.binary(),
            )
        elif self._bad is BadRecords.DROP and any(errors):
            stays = pa.array([error is None for error in errors])
        return made, stays

    def _plain(self, bodies: pa.Array) -> tuple[dict[str, pa.Array], Longs] | None:
        """What the core makes of them, and which are left over."""
        found = self._formats and body_columns(len(bodies), buffers(bodies), self._formats)
        if not found:
            return None
        arrays = pa.record_batch(found[0]).columns
        made = {field.name: array for field, array in zip(self._fields, arrays, strict=True)}
        return made, np.frombuffer(found[1], np.int64)

    def _arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, pa.Array]:
        return {
            field.name: pa.array([row[index] for row in rows], field.type) for index, field in enumerate(self._fields)
        }

    def _read(
        self, bodies: Sequence[bytes], damage: Sequence[str | None]
    ) -> tuple[list[tuple[Any, ...]], list[str | None]]:
        """The values of each body, and what is wrong with it. Raises BadRecordError."""
        assert self._decoder is not None  # noqa: S101 - made by the constructor
        rows: list[tuple[Any, ...]] = []
        errors: list[str | None] = []
        blank = (None,) * len(self._fields)
        decode, astuple = self._decoder.decode, msgspec.structs.astuple
        for body, fault in zip(bodies, damage, strict=True):
            if fault is not None:
                rows.append(blank)
                errors.append(fault)
                continue
            try:
                values = astuple(decode(body))
                rows.append(
                    tuple(
                        value if value is None or convert is None else convert(value)
                        for value, convert in zip(values, self._converters, strict=True)
                    )
                )
                errors.append(None)
            except (ValueError, ArithmeticError, RecursionError) as error:
                if self._bad is BadRecords.FAIL:
                    raise BadRecordError(
                        f"body {body[:200]!r} is not what bodySchema says: {error}; badRecords=drop, null or keep go on"
                    ) from error
                rows.append(blank)
                errors.append(str(error) or type(error).__name__)
        return rows, errors


@native.twin
def body_columns(
    count: int,  # noqa: ARG001 - the core's arguments
    bodies: Buffers,  # noqa: ARG001
    fields: Sequence[tuple[str, str]],  # noqa: ARG001
) -> tuple[Any, bytes] | None:
    """The columns of fields (names, and types as Arrow's C data interface has them) of bodies that are plain to the
    core, null for the others; and which those are, as 64-bit numbers.

    None: all are left to Python. A plain body is an object without escapes whose fields are what their types say.
    """
    return None


def _bits(count: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (count - 1)), le=2 ** (count - 1) - 1)]


_PLAIN: dict[pa.DataType, Any] = {
    pa.int8(): _bits(8),
    pa.int16(): _bits(16),
    pa.int32(): _bits(32),
    pa.int64(): _bits(64),
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.date32(): date,
}


_FORMATS = {
    pa.int32(): "i",
    pa.int64(): "l",
    pa.float64(): "g",
    pa.string(): "u",
    pa.bool_(): "b",
    pa.timestamp("us", tz="UTC"): "tsu:UTC",
    pa.timestamp("us"): "tsu:",
}
"""Types that are plain to the core."""


def _kind(kind: pa.DataType, depth: int) -> tuple[Any, Convert | None]:
    """The type msgspec reads, and what makes of it a value Arrow takes. Raises ColumnError."""
    if depth > MAX_DEPTH:
        raise ColumnError(f"bodySchema is nested deeper than {MAX_DEPTH}")
    if kind in _PLAIN:
        return _PLAIN[kind], None
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz else None
        return datetime | Annotated[int, msgspec.Meta(ge=scalar.MIN_TIME, le=scalar.MAX_TIME)], _moment(zone)
    if pa.types.is_decimal(kind):
        return Decimal, _decimal(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        inner, convert = _kind(kind.value_type, depth + 1)
        return GenericAlias(list, (inner | None,)), _many(convert)
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        inner, convert = _kind(kind.item_type, depth + 1)
        return GenericAlias(dict, (str, inner | None)), _pairs(convert)
    if pa.types.is_struct(kind):
        return _struct(kind, depth)
    raise ColumnError(f"bodySchema: JSON has no form for {kind}")


def _struct(kind: pa.DataType, depth: int) -> tuple[Any, Convert]:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    inner = [_kind(field.type, depth + 1) for field in fields]
    made = msgspec.defstruct(
        "Nested",
        [(f"f{index}", each | None, None) for index, (each, _) in enumerate(inner)],
        rename={f"f{index}": field.name for index, field in enumerate(fields)},
    )
    parts = [
        (field.name, f"f{index}", convert)
        for index, (field, (_, convert)) in enumerate(zip(fields, inner, strict=True))
    ]

    def convert_struct(value: Any) -> dict[str, Any]:
        return {name: _applied(convert, getattr(value, attribute)) for name, attribute, convert in parts}

    return made, convert_struct


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _many(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [_applied(convert, value) for value in values]


def _pairs(convert: Convert | None) -> Convert:
    return lambda values: [(name, _applied(convert, value)) for name, value in values.items()]


def _moment(zone: Any) -> Convert:
    def convert(value: datetime | int) -> datetime:
        if isinstance(value, int):
            moment = scalar.moment(value)
            assert moment is not None  # noqa: S101 - the decoder checked the bounds
            return moment if zone else moment.replace(tzinfo=None)
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware if zone else aware.astimezone(UTC).replace(tzinfo=None)

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    limit = Decimal(10) ** (precision - scale)

    def convert(value: Decimal) -> Decimal:
        if not value.is_finite() or abs(value) >= limit:
            raise ValueError(f"{value} does not fit decimal({precision},{scale})")
        fitted = value.quantize(Decimal(1).scaleb(-scale))
        if fitted != value:
            raise ValueError(f"{value} has more than {scale} decimals")
        return fitted

    return convert
