"""Ranges of queues read from files: the same rows that a broker would send for them.

The messages of several queues lie among one another in the log, so all ranges of a task are read in one pass through
it. Rows of one queue stay in order; those of different queues come as they were stored.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.errors import ReadError
from pyromq.arrow.recordlayout import Longs
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import Segment
from pyromq.protocol import namespace
from pyromq.protocol.records.tags import tags_code
from pyromq.spark.log.storefiles import Queue, StoreFiles
from pyromq.spark.log.windows import windows
from pyromq.spark.source.offsets import Range
from pyromq.store.queue.offsettime import FILLER_SIZE

ROWS = 4096
BYTES = 4 << 20
ENTRIES = 1 << 20
"""Queue entries taken into memory at a time, of all ranges together."""
FEWEST = 1024
"""Entries read at a time of one range, however many ranges there are."""
_END = np.iinfo(np.int64).max


def covered(store: StoreFiles, wanted: Range, wire_topic: str) -> Range:
    """The part of a range, from its beginning, that the files hold; empty if its beginning is gone or not there yet."""
    low, high = store.bounds(store.queue(wire_topic, wanted.queue))
    end = min(wanted.end, high) if low <= wanted.start else wanted.start
    return wanted._replace(end=max(end, wanted.start))


def range_batches(
    store: StoreFiles, wanted: Sequence[Range], shape: RowShape, *, tags: frozenset[str] | None, within: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows of ranges of one store, whose files must hold them; `within` is the namespace of their topics.

    Raises ReadError or BadRecordError.
    """
    codes = None if tags is None else np.array([tags_code(tag) for tag in tags], np.int64)
    step = max(ENTRIES // max(len(wanted), 1), FEWEST)
    cursors = [
        _Cursor(store.queue(namespace.wrap(within or "", each.topic), each.queue), each, owner, codes, step)
        for owner, each in enumerate(wanted)
    ]
    segments = [Segment(0, each.topic, each.broker, each.start, each.end) for each in wanted]
    for positions, sizes, owners in _merged(cursors):
        for window in windows(store, positions, sizes, rows=ROWS, size=BYTES):
            owner = owners[window.first : window.first + len(window.starts)]
            yield from (b for b in shape.batches(window.buffer, window.starts, segments, owner) if b.num_rows)


class _Cursor:
    """The entries of one range, some at a time."""

    def __init__(self, queue: Queue, wanted: Range, owner: int, codes: Longs | None, step: int) -> None:
        self.owner = owner
        self._queue = queue
        self._wanted = wanted
        self._codes = codes
        self._step = step
        self._next = wanted.start
        self._last = -1
        self._positions = self._sizes = np.zeros(0, np.int64)

    def fill(self) -> bool:
        """Have entries at hand, if there are any left."""
        while not len(self._positions) and self._next < self._wanted.end:
            end = min(self._next + self._step, self._wanted.end)
            entries = self._queue.entries(self._next, end)
            if len(entries) < end - self._next:
                raise ReadError(
                    f"entries {self._next} to {end} of {self._wanted} are not in its files: deleted, or lost"
                )
            kept = (entries["size"] > 0) & (entries["size"] != FILLER_SIZE)
            if self._codes is not None:
                kept &= np.isin(entries["tag"], self._codes)
            entries = entries[kept]
            self._positions, self._sizes = entries["position"].astype(np.int64), entries["size"].astype(np.int64)
            if (np.diff(self._positions, prepend=self._last) <= 0).any():
                raise ReadError(f"the queue of {self._wanted} is damaged: its entries do not ascend")
            self._next = end
            self._last = int(self._positions[-1]) if len(self._positions) else self._last
        return bool(len(self._positions))

    @property
    def horizon(self) -> int:
        """The position up to which this range has nothing that is not at hand."""
        return _END if self._next >= self._wanted.end else int(self._positions[-1])

    def take(self, horizon: int) -> tuple[Longs, Longs]:
        """Positions and sizes up to the horizon."""
        count = int(np.searchsorted(self._positions, horizon, side="right"))
        taken = self._positions[:count], self._sizes[:count]
        self._positions, self._sizes = self._positions[count:], self._sizes[count:]
        return taken


def _merged(cursors: Sequence[_Cursor]) -> Iterator[tuple[Longs, Longs, Longs]]:
    """Positions, sizes and owners of all entries, in the order of the log."""
    while cursors := [each for each in cursors if each.fill()]:
        horizon = min(each.horizon for each in cursors)
        taken = [(each.owner, *each.take(horizon)) for each in cursors]
        positions = np.concatenate([each[1] for each in taken])
        owners = np.repeat([each[0] for each in taken], [len(each[1]) for each in taken])
        order = np.argsort(positions, kind="stable")
        yield positions[order], np.concatenate([each[2] for each in taken])[order], owners[order]
