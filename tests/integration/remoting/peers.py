"""Servers that end with their test, a raw peer that sends whatever bytes it likes, and simple handlers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import FrameReader
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.remoting.server import Server

ECHO = 10
WAIT = 11
SINK = 12


def echo(command: Command, connection: Connection) -> Answer:
    """Answers with the body of the request."""
    return command.reply(body=command.body)


@asynccontextmanager
async def serving(
    handlers: Mapping[int, Handler] | None = None, *, host: str = "127.0.0.1", grace: float = 30.0, **options: Any
) -> AsyncIterator[tuple[Server, str]]:
    """A server on a free port, and its address; stopped afterwards."""
    server = Server({ECHO: echo} if handlers is None else handlers, **options)
    try:
        address = await server.listen(host, 0)
        yield server, str(address)
    finally:
        await server.stop(grace)


@asynccontextmanager
async def calling(handlers: Mapping[int, Handler] | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client that is closed afterwards."""
    client = Client(handlers, **options)
    try:
        yield client
    finally:
        await client.close()


class Clock:
    """A time that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """A handler that holds every request until the gate opens."""

    def __init__(self) -> None:
        self.entered = 0
        self._open = asyncio.Event()
        self._arrived = asyncio.Condition()

    async def __call__(self, command: Command, _: Connection) -> Answer:
        self.entered += 1
        async with self._arrived:
            self._arrived.notify_all()
        await self._open.wait()
        return command.reply(body=command.body)

    def open(self) -> None:
        """Let everybody through."""
        self._open.set()

    async def crowd(self, size: int) -> None:
        """Wait until so many requests have come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.entered >= size)


@dataclass
class RawPeer:
    """A socket under the control of the test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _frames: FrameReader = field(default_factory=FrameReader)
    _commands: list[Command] = field(default_factory=list)

    def send(self, *commands: Command) -> None:
        """Write commands in one piece."""
        self.writer.write(b"".join(encode(command) for command in commands))

    async def receive(self) -> Command:
        """The next command from the other side; EOFError when it closed."""
        while not self._commands:
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError
            self._commands += self._frames.feed(data)
        return self._commands.pop(0)

    async def closed(self) -> None:
        """Wait until the other side has closed, whatever else it still sends."""
        with suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass

    async def receive_all(self) -> list[Command]:
        """Everything until the other side closes in good order."""
        received = []
        with suppress(EOFError):
            while True:
                received.append(await self.receive())
        return received


@asynccontextmanager
async def raw_peer(address: str | Address, **options: Any) -> AsyncIterator[RawPeer]:
    """A connection without a client around it."""
    host, port = Address.parse(str(address))
    reader, writer = await asyncio.open_connection(host, port, **options)
    try:
        yield RawPeer(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def raw_server(
    talk: Callable[[RawPeer], Any],
) -> AsyncIterator[str]:
    """A server whose connections the test plays itself with `talk`; gives its address."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(EOFError, ConnectionError):
                await talk(RawPeer(reader, writer))
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield str(Address(*server.sockets[0].getsockname()[:2]))
    finally:
        server.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; only for states that nothing announces."""
    while not condition():  # noqa: ASYNC110 - counters have no events
        await asyncio.sleep(0.001)
