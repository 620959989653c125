"""Properties of many messages: their text taken apart with numpy. Same meaning as `protocol.properties`.

Entries without a name or a value count as absent. Of two with one name the later wins; such rows are rare and are
brought in order one by one.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.columns import PROPERTIES
from pyromq.arrow.pieces import chosen, contents, gather, numeric, text
from pyromq.arrow.recordlayout import Longs

_NAME_END = 1
_ENTRY_END = 2


class Properties:
    """The entries of all rows, in the order of rows."""

    def __init__(self, raw: pa.Array) -> None:
        valid = text(raw)
        data, bounds = contents(valid)
        self._count = len(valid)
        begin, end = int(bounds[0]), int(bounds[-1])
        used = data[begin:end]
        separators = np.flatnonzero(used == _ENTRY_END) + begin
        # Each row is cut at its separators; sorted, the n-th beginning belongs to the n-th end.
        starts = np.sort(np.concatenate((bounds[:-1], separators + 1)), kind="stable")
        ends = np.sort(np.concatenate((separators, bounds[1:])), kind="stable")
        middles = np.append(np.flatnonzero(used == _NAME_END) + begin, np.iinfo(np.int64).max)
        middle = middles[np.searchsorted(middles, starts)]
        sound = (middle > starts) & (middle < ends - 1)
        starts, middle, ends = starts[sound], middle[sound], ends[sound]
        self._rows: Longs = np.searchsorted(bounds[1:], starts, side="right")
        self._names = gather(data, starts, middle, pa.string())
        self._values = gather(data, middle + 1, ends, pa.string())
        encoded = self._names.dictionary_encode()
        self._codes: npt.NDArray[np.int32] = np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(encoded)]
        self._known: list[str] = encoded.dictionary.to_pylist()

    def column(self, name: str) -> pa.Array:
        """The values of one property, null where a row does not have it."""
        places = np.full(self._count, -1, np.int64)
        if name in self._known:
            found = np.flatnonzero(self._codes == self._known.index(name))
            places[self._rows[found]] = found  # of several, the last one stays
        return chosen(self._values, places)

    def maps(self) -> pa.Array:
        """All of them, a map for each row."""
        if self._has_repetitions:
            return pa.array([list(each.items()) for each in self.dicts()], PROPERTIES)
        counts = np.bincount(self._rows, minlength=self._count)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(numeric(offsets), self._names, self._values)

    def dicts(self) -> list[dict[str, str]]:
        """All of them, a dictionary for each row."""
        found: list[dict[str, str]] = [{} for _ in range(self._count)]
        entries = zip(self._rows.tolist(), self._names.to_pylist(), self._values.to_pylist(), strict=True)
        for row, name, value in entries:
            found[row][name] = value
        return found

    @cached_property
    def _has_repetitions(self) -> bool:
        if not self._known:
            return False
        cells = np.bincount(self._rows * len(self._known) + self._codes)
        return bool(cells.max(initial=0) > 1)
