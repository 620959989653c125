"""Rows as the body of a batch, many at a time: those that have a body, and at most tags and keys, all of them text.

What is not plain (no body, one that is too large, a separator in a property) is nothing to these functions: then rows
become messages one by one, and that says what is wrong with which.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq import native
from pyromq.arrow.pieces import Buffers, buffers
from pyromq.protocol.handles.writer import PLACE
from pyromq.protocol.names import MAX_BODY
from pyromq.protocol.properties import MAX_PROPERTIES, Property
from pyromq.protocol.records.batch import batch_item

MAX_ROWS = 1 << 15
"""Rows of one run: half of the numbers that unique ids of one millisecond have."""

_PROPERTIES = {"tags": Property.TAGS, "keys": Property.KEYS}
"""Columns that become properties, in the order in which messages have them."""


class EncodedRows(NamedTuple):
    """Messages as they lie in the body of a batch, and where each of them ends."""

    data: bytes
    ends: bytes
    places: Sequence[str] = ()
    """What each message says about where it belongs, if that is what messages say."""


def are_plain(schema: pa.Schema) -> bool:
    """Whether rows with these columns may be plain."""
    kinds = {field.name: field.type for field in schema}
    return (
        kinds.keys() <= {"body", *_PROPERTIES}
        and all(pa.types.is_string(kind) or (name == "body" and kind == pa.binary()) for name, kind in kinds.items())
        and "body" in kinds
    )


def encoded_rows(batch: pa.RecordBatch, ids: tuple[str, int]) -> EncodedRows | None:
    """The rows of a batch whose columns are plain; `ids` as of `UniqueIdGenerator.run`. None if one of them is not."""
    found = batch_rows(batch.num_rows, buffers(batch.column("body")), _properties(batch), ids)
    return None if found is None else EncodedRows(*found)


def placed_rows(batch: pa.RecordBatch, stamps: Mapping[str, pa.Array], places: Sequence[str]) -> EncodedRows | None:
    """The same for messages with an identity and a place of their own, which are properties like others."""
    own = {**stamps, PLACE: pa.array(places, pa.string())}
    properties = [*_properties(batch), *((name, buffers(column)) for name, column in own.items())]
    found = batch_rows(batch.num_rows, buffers(batch.column("body")), properties, None)
    return None if found is None else EncodedRows(*found, places)


def _properties(batch: pa.RecordBatch) -> list[tuple[str, Buffers]]:
    names = batch.schema.names
    return [(key, buffers(batch.column(name))) for name, key in _PROPERTIES.items() if name in names]


@native.twin
def batch_rows(
    count: int, bodies: Buffers, properties: Sequence[tuple[str, Buffers]], ids: tuple[str, int] | None
) -> tuple[bytes, bytes] | None:
    """The body of a batch, and where each message ends in it, as 64-bit numbers. None when a row is not plain.

    `ids`, all but the last digits of the unique ids and the number of the first, are for messages without one.
    """
    parts: list[bytes] = []
    ends: list[int] = []
    size = 0
    head, number = (b"", 0) if ids is None else (f"{Property.UNIQ_KEY}\x01{ids[0]}".encode(), ids[1])
    columns = [(f"{name}\x01".encode(), _values(count, column)) for name, column in properties]
    for row, body in enumerate(_values(count, bodies)):
        if body is None or len(body) > MAX_BODY:
            return None
        text = b""
        for name, values in columns:
            value = values[row]
            if value:
                if b"\x01" in value or b"\x02" in value:
                    return None
                text += name + value + b"\x02"
        if ids is not None:
            text += b"%b%04X\x02" % (head, number + row & 0xFFFF)
        if len(text) > MAX_PROPERTIES:
            return None
        item = batch_item(0, body, text)
        parts += item
        size += sum(map(len, item))
        ends.append(size)
    return b"".join(parts), array("q", ends).tobytes()


def _values(count: int, column: Buffers) -> list[bytes | None]:
    valid, offsets, data, first = column
    parts = [None if each is None else pa.py_buffer(each) for each in (valid, offsets, data)]
    found: list[bytes | None] = pa.Array.from_buffers(pa.binary(), count, parts, offset=first).to_pylist()
    return found
