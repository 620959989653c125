"""Single fields of many records as Arrow columns: numbers, times, addresses, ids. Pure."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.records.host import unpack_host
from pyromq.spark.columns import TIMESTAMP
from pyromq.spark.task import scalar
from pyromq.spark.task.recordlayout import RecordLayout


def numbers(values: Any, kind: pa.DataType) -> pa.Array:
    """Numbers in the machine's own byte order."""
    return pa.array(values.astype(kind.to_pandas_dtype()))


def times(millis: Any) -> pa.Array:
    """Times of records; null where they are absurd."""
    values = millis.astype(np.int64)
    absurd = (values < scalar.MIN_TIME) | (values > scalar.MAX_TIME)
    return pa.array(np.where(absurd, 0, values) * 1000, mask=absurd if absurd.any() else None).view(TIMESTAMP)


def hosts(values: Any) -> pa.Array:
    """Addresses as text; each different one is formatted once."""
    width = values.dtype.itemsize
    raw = np.ascontiguousarray(values)
    if width == 8:
        different, places = np.unique(raw.view(np.uint64), return_inverse=True)
        names = [str(unpack_host(each.tobytes())) for each in different]
        return pa.array(names, pa.string()).take(pa.array(places))
    return pa.array([str(unpack_host(each.tobytes())) for each in raw], pa.string())


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
    return pa.concat_arrays([ids, pa.array(made, pa.string())]).take(pa.array(places))
