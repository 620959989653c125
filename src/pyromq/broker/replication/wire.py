"""Bytes between master and slave. No I/O, no clock.

slave → master: int64, the end of the slave's log. It is greeting, acknowledgement and sign of life in one. To a master
that gave it a ticket (see `tickets`) a slave shows that first, a negative number in the place of the first report.
master → slave: int64 physical offset, int32 n, then n bytes of the log; n = 0 is a sign of life.
"""

from struct import Struct
from typing import Final

from pyromq.protocol.errors import FrameError

REPORT: Final = Struct(">q")
BLOCK_HEAD: Final = Struct(">qi")
MAX_BLOCK: Final = 16 << 20
"""Far above what any master sends; a longer one is not a block."""

Block = tuple[int, bytes]
"""Where it begins in the log, and its bytes."""


class Reports:
    """What a slave sends. Only the newest counts."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
        self.ticket: int | None = None
        """What came before the first report, if anything did."""

    def feed(self, data: bytes) -> int | None:
        """The newest report that is complete, None without one."""
        data = self._rest + data
        if not self._begun and len(data) >= REPORT.size:
            self._begun = True
            (first,) = REPORT.unpack_from(data)
            if first < 0:
                self.ticket, data = int(first), data[REPORT.size :]
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        (offset,) = REPORT.unpack_from(data, whole - REPORT.size)
        return int(offset)


class Blocks:
    """What a master sends."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Block]:
        """The blocks that are complete. Raises FrameError for a length that no master sends."""
        buffer = self._buffer
        buffer += data
        blocks: list[Block] = []
        at, end = 0, len(buffer)
        while end - at >= BLOCK_HEAD.size:
            offset, size = BLOCK_HEAD.unpack_from(buffer, at)
            if offset < 0 or not 0 <= size <= MAX_BLOCK:
                raise FrameError(f"a block of {size} bytes for the offset {offset}: this is not a replication port")
            begin = at + BLOCK_HEAD.size
            if end - begin < size:
                break
            at = begin + size
            blocks.append((offset, bytes(memoryview(buffer)[begin:at])))
        if at:
            del buffer[:at]
        return blocks
