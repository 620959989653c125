"""How far each delay level has been delivered: `config/delayOffset.json` in memory, in Apache's format."""

import threading
from collections.abc import Callable
from pathlib import Path

from pyromq.configfile import read_config, write_config
from pyromq.protocol.bodies.offsets import DelayOffsetTable
from pyromq.protocol.bodies.tables import DataVersion


class DelayOffsets:
    """Delay level → next offset in its queue. `persist` may run in another thread."""

    def __init__(self, path: Path, clock: Callable[[], int], *, version_step: int = 200) -> None:
        self._path = path
        self._clock = clock
        self._version_step = version_step
        self._moves = 0
        self._saved: bytes | None = None
        self._writing = threading.Lock()
        self._table: dict[int, int] = {}
        self.version = DataVersion(timestamp=clock())

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._path, DelayOffsetTable.decode)
        if stored is not None:
            self._table = dict(stored.offset_table)
            self.version = stored.data_version or self.version

    def get(self, level: int) -> int:
        return self._table.get(level, 0)

    def move(self, level: int, offset: int) -> None:
        """Everything below `offset` is delivered."""
        self._table[level] = offset
        self._moves += 1
        if self._moves % self._version_step == 0:
            self.version = self.version.next(self._clock())

    def items(self) -> list[tuple[int, int]]:
        return sorted(self._table.items())

    def table(self) -> DelayOffsetTable:
        """The table as it is sent to slaves and persisted."""
        return DelayOffsetTable(offset_table=dict(self.items()), data_version=self.version)

    def replace_all(self, table: DelayOffsetTable) -> None:
        """Take over a master's table."""
        self._table = dict(table.offset_table)
        self.version = table.data_version or self.version

    def raise_to(self, table: DelayOffsetTable, bound: Callable[[int], int]) -> None:
        """Take over what was delivered elsewhere, where that is more; not beyond the end of a level's queue."""
        for level, offset in table.offset_table.items():
            within = min(offset, bound(level))
            if within > self.get(level):
                self.move(level, within)

    def hold_to(self, end: Callable[[int], int]) -> list[tuple[int, int, int]]:
        """Set back what is beyond the end of a level's queue; level, offset and end of each."""
        found = [(level, offset, end(level)) for level, offset in self.items() if offset > end(level)]
        for level, _, last in found:
            self.move(level, last)
        return found

    def persist(self, table: DelayOffsetTable) -> None:
        """Write the file, unless it says the same already. Raises OSError."""
        text = table.pretty()
        with self._writing:
            if text != self._saved:
                write_config(self._path, text)
                self._saved = text
