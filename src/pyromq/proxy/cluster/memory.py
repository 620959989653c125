"""A connection without a socket: two transports, and what is written to one arrives at the other.

As with a socket, bytes arrive in a later step of the event loop, all that were written until then at once; who does not
read holds the writer back; what was written before a close still arrives.
"""

import asyncio
import logging
from collections.abc import Iterable

from pyromq.remoting.address import Address

log = logging.getLogger(__name__)

Data = bytes | bytearray | memoryview
DEFAULT_HIGH = 64 * 1024


class MemoryTransport(asyncio.Transport):
    """One end. Made by `join`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, local: Address, peer: Address):
        super().__init__({"sockname": tuple(local), "peername": tuple(peer)})
        self._loop = loop
        self._protocol = protocol
        self._pieces: list[Data] = []
        self._size = 0
        self._high, self._low = DEFAULT_HIGH, DEFAULT_HIGH // 4
        self._full = False
        self._reading = True
        self._scheduled = False
        self._closing = False
        self._lost = False
        self.other: MemoryTransport
        """The other end."""

    def write(self, data: Data) -> None:
        """Have this arrive at the other end."""
        if self._closing or not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._schedule()
        if self._size > self._high and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        """Several pieces, which arrive as one."""
        for data in list_of_data:
            self.write(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How much may wait before the writer is held back, and at which rest it goes on."""
        self._high = DEFAULT_HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The low one, then the high one."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Bytes that the other end has not taken."""
        return self._size

    def can_write_eof(self) -> bool:
        """One end cannot be shut alone."""
        return False

    def is_closing(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether what the other end writes is taken."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Take nothing for now."""
        self._reading = False

    def resume_reading(self) -> None:
        """Take what waits, and what comes."""
        if not self._reading:
            self._reading = True
            self.other._schedule()

    def close(self) -> None:
        """End both ends, after what was written has arrived."""
        if not self._closing:
            self._closing = True
            if not self._pieces or self.other._closing:
                self._loop.call_soon(self._lose)

    def abort(self) -> None:
        """End both ends now; what has not arrived is lost."""
        self._closing = True
        self._drop()
        self._loop.call_soon(self._lose)

    def _schedule(self) -> None:
        if self._pieces and not self._scheduled and self.other._reading:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._scheduled = False
        pieces, other = self._pieces, self.other
        if not pieces or not (other._reading or other._closing):
            return
        data = pieces[0] if len(pieces) == 1 and type(pieces[0]) is bytes else b"".join(pieces)
        self._drop()
        if not other._closing:
            try:
                other._protocol.data_received(data)
            except Exception:
                log.exception("a connection within this process failed")
                other.abort()
        if self._full and self._size <= self._low:
            self._full = False
            if not self._closing:
                self._protocol.resume_writing()
        if self._closing and not self._pieces:
            self._lose()

    def _drop(self) -> None:
        self._pieces = []
        self._size = 0

    def _lose(self) -> None:
        """This end is gone; the other one hears of it."""
        if self._lost:
            return
        self._lost = True
        self._drop()
        self._protocol.connection_lost(None)
        other = self.other
        if not other._closing:
            other._protocol.eof_received()
            other.abort()


def join(first: asyncio.Protocol, second: asyncio.Protocol, first_at: Address, second_at: Address) -> None:
    """Connect two protocols, each known to the other by its address. The first hears of it last, so it may write."""
    loop = asyncio.get_running_loop()
    one = MemoryTransport(loop, first, first_at, second_at)
    two = MemoryTransport(loop, second, second_at, first_at)
    one.other, two.other = two, one
    second.connection_made(two)
    first.connection_made(one)
