"""Single fields of many records as Arrow columns: numbers, times, addresses, ids. Pure."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow import scalar
from pyromq.arrow.columns import TIMESTAMP
from pyromq.arrow.pieces import gather, numeric, text, words
from pyromq.arrow.recordlayout import Longs, RecordLayout, locate, shapes
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.records.host import unpack_host


def numbers(values: Any, kind: pa.DataType) -> pa.Array:
    """Numbers in the machine's own byte order."""
    return numeric(values.astype(kind.to_pandas_dtype()))


def times(millis: Any) -> pa.Array:
    """Times of records; null where they are absurd."""
    values = millis.astype(np.int64)
    absurd = (values < scalar.MIN_TIME) | (values > scalar.MAX_TIME)
    return numeric(np.where(absurd, 0, values) * 1000, ~absurd if absurd.any() else None).view(TIMESTAMP)


def hosts(values: Any) -> pa.Array:
    """Addresses as text; each different one is formatted once."""
    width = values.dtype.itemsize
    raw = np.ascontiguousarray(values)
    if width == 8:
        different, places = np.unique(raw.view(np.uint64), return_inverse=True)
        names = [str(unpack_host(each.tobytes())) for each in different]
        return words(names).take(numeric(places))
    return words([str(unpack_host(each.tobytes())) for each in raw])


def with_offset_ids(ids: pa.Array, layout: RecordLayout) -> pa.Array:
    """Messages whose sender gave them no id are known by their place."""
    if not ids.null_count:
        return ids
    missing = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
    made = []
    for row in missing:
        host = unpack_host(layout.fixed["storehost"][row].tobytes())
        made.append(offset_message_id(host.ip, host.port, int(layout.fixed["physical"][row])))
    places = np.arange(len(ids))
    places[missing] = len(ids) + np.arange(len(missing))
    return pa.concat_arrays([ids, words(made)]).take(numeric(places))


def topics_of(buffer: bytes | memoryview, starts: Longs) -> tuple[list[str], Longs]:
    """Topics, and which of them each record has; "" for what is none."""
    data = np.frombuffer(buffer, np.uint8)
    kinds = shapes(data, starts)
    names: list[str] = []
    found = np.zeros(len(starts), np.int64)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        layout, _ = locate(data, starts[rows], int(kind))
        topics = text(gather(data, layout.topic_at, layout.topic_end)).dictionary_encode()
        found[rows] = topics.indices.to_numpy().astype(np.int64) + len(names)
        names += topics.dictionary.to_pylist()
    return names, found
