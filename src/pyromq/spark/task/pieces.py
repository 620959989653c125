"""Pieces of a buffer as Arrow arrays, without a Python loop.

The buffer itself is wrapped as a binary array whose values are, in turn, a piece and the gap behind it; taking every
second one is a single copy in C++. So pieces must ascend, and the buffer must stay below 2 GiB.
"""

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.task.recordlayout import Bytes, Longs

BINARY = pa.binary()


def gather(data: Bytes, starts: Longs, ends: Longs, kind: pa.DataType = BINARY) -> pa.Array:
    """The pieces [start, end) as binary values; as strings only if they are known to be UTF-8."""
    count = len(starts)
    if not count:
        return pa.array([], kind)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    wrapped = pa.Array.from_buffers(
        kind, 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data))]
    )
    return wrapped.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def text(values: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    try:
        return pc.cast(values, pa.string())  # checks the encoding
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
    return values.take(pa.array(places, mask=places < 0))
