"""What one connection has to write: queued in order, handed to the transport in one go.

Small pieces are joined; large ones, such as views of a mapped file, are passed on as they are. A view keeps its file
alive until the system has taken the bytes.
"""

import asyncio
from collections.abc import Callable

from pyromq.protocol.command import Command, encode, encode_head
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats

JOIN_MAX = 64 * 1024
"""Writes up to this size are joined into one buffer."""

Frames = Command | bytes | list[bytes | memoryview]
"""A command, or whole frames already encoded in one buffer or several."""


class Outbox:
    """Queue in front of a transport. `paused` while the peer does not take what was written; `held` while somebody who
    will flush collects more; `size` is in bytes, `departures` counts the writes.

    `overflow` is called when a peer that does not read has more waiting for it than it may.
    """

    __slots__ = (
        "_limits",
        "_overflow",
        "_pieces",
        "_scheduled",
        "_stats",
        "_transport",
        "_waiters",
        "departures",
        "held",
        "paused",
        "size",
    )

    def __init__(
        self, transport: asyncio.Transport, limits: Limits, stats: Stats, overflow: Callable[[], None]
    ) -> None:
        self.paused = False
        self.held = False
        self.size = 0
        self.departures = 0
        self._transport = transport
        self._limits = limits
        self._stats = stats
        self._overflow = overflow
        self._pieces: list[bytes | memoryview] = []
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] = []
        transport.set_write_buffer_limits(high=limits.unsent_high)

    def put(self, frames: Frames) -> None:
        """Queue frames. Raises HeaderError for a command that has no form on the wire."""
        if type(frames) is bytes:
            self._pieces.append(frames)
            self.size += len(frames)
            return
        if isinstance(frames, Command):
            body = frames.body
            small = len(body) <= JOIN_MAX
            frames = encode(frames) if small else [encode_head(frames, len(body)), memoryview(body)]
        if isinstance(frames, list):
            self._pieces += frames
            self.size += sum(map(len, frames))
        else:
            self._pieces.append(frames)
            self.size += len(frames)

    def flush_soon(self) -> None:
        """Flush in this turn of the event loop, together with what else is queued until then; at once when it is much.

        A caller that never lets the loop turn must still find out that the peer does not read.
        """
        if self.held:
            return
        if self.size >= JOIN_MAX:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._scheduled_flush)

    def flush(self) -> None:
        """Hand everything queued to the transport."""
        pieces = self._pieces
        if not pieces:
            return
        size = self.size
        self._pieces = []
        self.size = 0
        self.departures += 1
        self._stats.bytes_sent += size
        transport = self._transport
        if self.paused and transport.get_write_buffer_size() + size > self._limits.unsent_max:
            self._overflow()
        elif len(pieces) == 1:
            transport.write(pieces[0])
        elif size <= JOIN_MAX:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)

    def clear(self) -> None:
        """Throw away what is queued; the connection has ended."""
        self._pieces = []
        self.size = 0
        self.resume()

    def resume(self) -> None:
        """The peer has caught up, or will not any more: wake those who wait for it."""
        self.paused = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        """Wait until the peer has taken enough of what was written, or the connection has ended."""
        while self.paused:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _scheduled_flush(self) -> None:
        self._scheduled = False
        self.flush()
