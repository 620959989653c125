"""The file `config/timercheck`: how far the timer has come. 4096 bytes, of which seven int64 are used.

A value may only be saved once what it speaks of is on disk; without the file all are 0, which loses nothing.
"""

from pathlib import Path
from struct import Struct
from typing import Self

import msgspec

from pyromq import durable
from pyromq.store.space import translated

LENGTH = 4096
_FIELDS = Struct(">7q")


class TimerCheckpoint(msgspec.Struct, frozen=True):
    """`read_time` is the next slot to deliver, `log_flushed` the end of the timer log that the wheel on disk knows,
    `queue_offset` the next message of the timer topic to enter; the last three are the data version."""

    read_time: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    def encode(self) -> bytes:
        """The used bytes, as slaves get them."""
        return _FIELDS.pack(*msgspec.structs.astuple(self))

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """What `encode` gave, or the beginning of it; what is missing or negative is 0."""
        padded = bytes(data[: _FIELDS.size]).ljust(_FIELDS.size, b"\0")
        return cls(*(max(0, value) for value in _FIELDS.unpack(padded)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file; zeros without one."""
        try:
            return cls.decode(path.read_bytes())
        except FileNotFoundError:
            return cls()

    def save(self, path: Path) -> None:
        """Write and sync. Raises DiskFullError or OSError."""
        try:
            durable.write_head(path, self.encode(), length=LENGTH)
        except OSError as error:
            raise translated(error, path) from error
