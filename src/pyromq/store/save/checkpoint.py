"""The `checkpoint` file: up to which store time log, queues and index are on disk. Recovery chooses its start by it.

4096 bytes of which 40 are used, all big-endian int64. A value may only be raised after the bytes it speaks of were
synced; a missing, short or damaged file means zeros, which is always safe and only makes recovery read more.
"""

import struct
from pathlib import Path

from pyromq import durable
from pyromq.store.space import translated

LENGTH = 4096
# physic, logics and index timestamp, master-flushed offset, confirm offset; 4.x knows the first three
_FIELDS = struct.Struct(">5q")
_SAFETY_MARGIN = 3_000


class StoreCheckpoint:
    """Plain attributes in memory, `load` and `flush` for the file. `flush` may run in another thread than the setters.

    >>> checkpoint = StoreCheckpoint(Path("store/checkpoint"))
    >>> checkpoint.recovery_time(with_index=False)
    0
    """

    __slots__ = (
        "confirm_offset",
        "index_timestamp",
        "logics_timestamp",
        "master_flushed_offset",
        "path",
        "physic_timestamp",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.physic_timestamp = 0
        self.logics_timestamp = 0
        self.index_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_offset = 0

    def load(self) -> bool:
        """Read the file; False when there is none. Negative numbers, which nobody writes, count as 0."""
        try:
            with self.path.open("rb") as file:
                data = file.read(_FIELDS.size)
        except FileNotFoundError:
            return False
        values = _FIELDS.unpack(data.ljust(_FIELDS.size, b"\0"))
        (
            self.physic_timestamp,
            self.logics_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirm_offset,
        ) = (max(value, 0) for value in values)
        return True

    def flush(self) -> None:
        """Write and sync. Raises DiskFullError when the file cannot be created, OSError on failing hardware."""
        data = _FIELDS.pack(
            self.physic_timestamp,
            self.logics_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirm_offset,
        )
        try:
            durable.write_head(self.path, data, length=LENGTH)
        except OSError as error:
            raise translated(error, self.path) from error

    def recovery_time(self, *, with_index: bool) -> int:
        """The store time up to which everything is known to be on disk, less a margin for clock steps."""
        safe = max(0, min(self.physic_timestamp, self.logics_timestamp) - _SAFETY_MARGIN)
        return min(safe, self.index_timestamp) if with_index else safe
