"""Ranges of queues read from files: the same rows that a broker would send for them."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.protocol.tags import tags_code
from pyromq.spark.decode import Segment
from pyromq.spark.log.storefiles import StoreFiles
from pyromq.spark.log.windows import windows
from pyromq.spark.offsets import Range
from pyromq.spark.rows import Shape
from pyromq.store.offsettime import FILLER_SIZE

ROWS = 4096
BYTES = 4 << 20
CHUNK = 1 << 20
"""Queue entries taken into memory at a time."""


def covered(store: StoreFiles, wanted: Range, wire_topic: str) -> Range:
    """The part of a range, from its beginning, that the files hold; empty if its beginning is gone or not there yet."""
    low, high = store.bounds(store.queue(wire_topic, wanted.queue))
    end = min(wanted.end, high) if low <= wanted.start else wanted.start
    return wanted._replace(end=max(end, wanted.start))


def batches(
    store: StoreFiles, wanted: Range, shape: Shape, *, tags: frozenset[str] | None, wire_topic: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a range that the files hold. Raises ReadError, BadRecordError."""
    queue = store.queue(wire_topic, wanted.queue)
    codes = None if tags is None else np.array([tags_code(tag) for tag in tags], np.int64)
    for start in range(wanted.start, wanted.end, CHUNK):
        entries = queue.entries(start, min(start + CHUNK, wanted.end))
        kept = (entries["size"] > 0) & (entries["size"] != FILLER_SIZE)
        if codes is not None:
            kept &= np.isin(entries["tag"], codes)
        entries = entries[kept]
        positions, sizes = entries["position"].astype(np.int64), entries["size"].astype(np.int64)
        for window in windows(store, positions, sizes, rows=ROWS, size=BYTES):
            segment = Segment(len(window.starts), wanted.topic, wanted.broker, wanted.start, wanted.end)
            batch = shape.batch(window.buffer, window.starts, [segment])
            if batch.num_rows:
                yield batch
