"""A transport without a socket and an endpoint around it, to drive a connection by hand."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Endpoint, Handler
from pyromq.remoting.limits import Limits


class Clock:
    """A time that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeTransport(asyncio.Transport):
    """Keeps what is written, one entry for each write, and reports what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.reading = True
        self.closing = False
        self.aborted = False
        self.eof = False
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("::ffff:10.0.0.9", 40000, 0, 0), "sockname": ("10.0.0.1", 10911)}.get(name, default)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True
        self.aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    @property
    def commands(self) -> list[Command]:
        """Everything written so far, decoded."""
        return FrameReader().feed(b"".join(self.writes))


class Rig:
    """A connection on a fake transport."""

    def __init__(
        self, handlers: Mapping[int, Handler] | None = None, *, limits: Limits | None = None, is_server: bool = True
    ) -> None:
        self.clock = Clock()
        limits = limits or Limits()
        self.endpoint = Endpoint(limits, self.clock, is_server=is_server, max_calls=limits.calls_per_connection)
        self.transport = FakeTransport()
        self.connection = Connection(self.endpoint, handlers or {})
        self.connection.connection_made(self.transport)
        self.stats = self.endpoint.stats
        self._handlers = handlers or {}

    def beside(self, host: str) -> tuple[Connection, FakeTransport]:
        """One more connection of the same endpoint, from an address."""
        connection, transport = Connection(self.endpoint, self._handlers, Address(host, 1)), FakeTransport()
        connection.connection_made(transport)
        return connection, transport


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine; the time only bounds a hang."""
    asyncio.run(asyncio.wait_for(main, 30))


async def turn() -> None:
    """Let the event loop run what is ready, and what that makes ready."""
    for _ in range(3):
        await asyncio.sleep(0)
