"""Answers to pulls on their way into record batches: many small ones make one batch."""

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.recordlayout import walk
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import Segment

ROWS: Final = 4096
BYTES: Final = 4 << 20
"""A batch is made of so many rows or bytes, about: much larger ones take longer on their way to Spark."""


class Pulled:
    """What was pulled since the last batch."""

    def __init__(self, rows: int = ROWS, size: int = BYTES) -> None:
        self._most_rows = rows
        self._most_bytes = size
        self._bodies: list[bytes | memoryview] = []
        self._segments: list[Segment] = []
        self._size = self._rows = 0

    def add(self, body: bytes | memoryview, topic: str, broker: str, start: int, end: int, delta: int) -> None:
        """An answer: records back to back, of which offsets in [start, end) are wanted; see `Segment`."""
        records = len(walk(body))
        self._bodies.append(body)
        self._segments.append(Segment(records, topic, broker, start, end, delta))
        self._size += len(body)
        self._rows += records

    @property
    def is_full(self) -> bool:
        return self._rows >= self._most_rows or self._size >= self._most_bytes

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def batches(self, shape: RowShape) -> Iterator[pa.RecordBatch]:
        """The rows of all answers. Raises ReadError or BadRecordError."""
        whole = shape.pulled(self._bodies, self._segments)
        if whole is not None:
            yield whole
            return
        places = itertools.accumulate((len(body) for body in self._bodies), initial=0)
        starts = np.concatenate([walk(body) + place for body, place in zip(self._bodies, places, strict=False)])
        yield from shape.batches(b"".join(self._bodies), starts, self._segments)
