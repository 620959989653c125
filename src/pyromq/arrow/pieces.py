"""Pieces of a buffer, numbers and words as Arrow arrays, without a Python loop.

The buffer itself is wrapped as a binary array whose values are, in turn, a piece and the gap behind it; taking every
second one is a single copy in C++. So pieces must ascend, and the buffer must stay below 2 GiB.

Arrays are made of their buffers. `pa.array` would do, and import pandas where that is installed, in each worker anew.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.recordlayout import Bytes, Longs, Mask

BINARY = pa.binary()

Buffers = tuple[Any, Any, Any, int]
"""What a column of strings or bytes is made of, for the core: which values are not null, offsets, data, its first."""


def buffers(column: pa.Array) -> Buffers:
    """Of a column, without a copy."""
    valid, offsets, data = (None if each is None else np.frombuffer(each, np.uint8) for each in column.buffers())
    return (valid, offsets if offsets is not None else np.zeros(4, np.uint8), data, column.offset)


def numeric(values: Any, valid: Mask | None = None) -> pa.Array:
    """Numbers of numpy, null where they are not valid."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, content])


def joined(values: Sequence[bytes], kind: pa.DataType = BINARY) -> pa.Array:
    """Single values as one array."""
    bounds = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=bounds[1:])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(values))])


def words(values: Sequence[str]) -> pa.Array:
    """Few texts as one array."""
    return joined([value.encode() for value in values], pa.string())


def gather(data: Bytes, starts: Longs, ends: Longs, kind: pa.DataType = BINARY) -> pa.Array:
    """The pieces [start, end) as binary values; as strings only if they are known to be UTF-8."""
    count = len(starts)
    if not count:
        return pa.nulls(0, kind)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    wrapped = pa.Array.from_buffers(
        kind, 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data))]
    )
    return wrapped.take(numeric(np.arange(0, 2 * count, 2, dtype=np.int32)))


def text(values: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    try:
        return values.cast(pa.string())  # checks the encoding
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string()
        )


def contents(values: pa.Array) -> tuple[Bytes, Longs]:
    """The bytes of a string or binary array, and where each value begins and the last ends."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return content, bounds


def chosen(values: pa.Array, places: Longs) -> pa.Array:
    """Values at places, null where the place is negative."""
    return values.take(numeric(np.maximum(places, 0), places >= 0))
