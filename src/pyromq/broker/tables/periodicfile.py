"""A table that changes in memory and is saved from time to time: offsets, ordered batches, filters.

What changed since the last save is copied, and the rest happens in a thread: a save costs the event loop no more than
its changes, however large the table is.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyromq.broker.tables.tablefile import TableFile
from pyromq.protocol.bodies.tables import DataVersion

Copy = Callable[[Iterable[str]], Mapping[str, Any]]
"""Entries by key as they are now, in values that nobody changes any more; None for one that is gone."""


class PeriodicFile:
    """The file of a table with one map. Add the keys of entries to `dirty` when they change."""

    def __init__(self, path: Path, name: str, copy: Copy) -> None:
        self.path = path
        self.dirty: set[str] = set()
        self._name = name
        self._copy = copy
        self._file = TableFile(path, name)
        self._writing = threading.Lock()
        self._saving = asyncio.Lock()

    def start_with(self, keys: Iterable[str]) -> None:
        """The table was read from the file, and has these entries."""
        self._file.start_with({self._name: self._copy(keys)})
        self.dirty.clear()

    def persist(self, version: DataVersion | None = None) -> None:
        """Write the file, if anything changed since the last time. Blocks. Raises OSError: then it is still due."""
        if self.dirty:
            self._write(self._copy(self.dirty), version)
            self.dirty.clear()

    async def save(self, version: DataVersion | None = None) -> None:
        """The same in a thread, with the entries as they are now. When it returns, no save is under way."""
        async with self._saving:
            if not self.dirty:
                return
            dirty, self.dirty = self.dirty, set()
            try:
                await asyncio.to_thread(self._write, self._copy(dirty), version)
            except BaseException:
                self.dirty |= dirty
                raise

    def _write(self, entries: Mapping[str, Any], version: DataVersion | None) -> None:
        # A cancelled `save` leaves its thread writing: whoever comes later waits for it, and thereby has the last word.
        with self._writing:
            self._file.write({self._name: entries}, version)
