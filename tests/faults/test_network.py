"""The relay that fault schedules put between machines: what is cut does not pass, and what is healed does."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.faults.harness.network import Machine, Network

PORT = 10911
SOON = 0.2
"""Long enough for what is not cut; what must not pass is only ever looked for after something else has passed."""


class Talk:
    """A connection from one machine to the echo server of another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def says(self, text: bytes) -> bytes:
        self.writer.write(text)
        return await self.reader.readexactly(len(text))


class Echo(asyncio.Protocol):
    """Says what it hears."""

    def __init__(self, heard: list[bytes]) -> None:
        self._heard = heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._heard.append(data)
        self._transport.write(data)


@asynccontextmanager
async def two_machines() -> AsyncIterator[tuple[Network, Machine, Machine, list[bytes]]]:
    """A client and an echo server that keeps what it heard."""
    network, heard = Network(random.Random(1)), list[bytes]()
    client, server = network.add("client"), network.add("server")

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Echo(heard), server.own, PORT)
    await network.listen(server, PORT)
    try:
        yield network, client, server, heard
    finally:
        await network.close()
        listening.close()


async def talk(client: Machine, server: Machine) -> Talk:
    return Talk(*await asyncio.open_connection(server.public, PORT, local_addr=(client.own, 0)))


async def test_what_is_cut_waits_until_it_is_whole() -> None:
    async with two_machines() as (network, client, server, heard):
        there = await talk(client, server)
        assert await there.says(b"one") == b"one"
        network.cut({"client"}, {"server"})
        there.writer.write(b"two")
        outsider = await asyncio.open_connection(server.public, PORT)
        assert await Talk(*outsider).says(b"from elsewhere") == b"from elsewhere", "only their link is cut"
        later = await talk(client, server)
        later.writer.write(b"three")
        assert await Talk(*outsider).says(b"again") == b"again"
        assert heard == [b"one", b"from elsewhere", b"again"]
        network.heal({"client"}, {"server"})
        assert await there.reader.readexactly(3) == b"two"
        assert await later.reader.readexactly(5) == b"three"
        for writer in (there.writer, later.writer, outsider[1]):
            writer.close()


async def test_one_way_only() -> None:
    async with two_machines() as (network, client, server, heard):
        there = await talk(client, server)
        assert await there.says(b"one") == b"one"
        network.cut({"server"}, {"client"}, one_way=True)
        there.writer.write(b"two")
        while heard != [b"one", b"two"]:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await there.reader.readexactly(3)
        network.heal({"client"}, {"server"})
        assert await there.reader.readexactly(3) == b"two"
        there.writer.close()


async def test_refused_connections_end() -> None:
    async with two_machines() as (network, client, server, _):
        there = await talk(client, server)
        assert await there.says(b"one") == b"one"
        network.cut({"client"}, {"server"}, refuse=True)
        assert await ended(there)
        assert await ended(await talk(client, server))
        network.heal({"client"}, {"server"})
        again = await talk(client, server)
        assert await again.says(b"two") == b"two"
        again.writer.close()


async def test_a_server_that_is_gone_ends_connections() -> None:
    async with two_machines() as (network, client, _, _):
        absent = network.add("absent")
        await network.listen(absent, PORT)
        assert await ended(await talk(client, absent))


async def test_loss_ends_connections() -> None:
    async with two_machines() as (network, client, server, _):
        there = await talk(client, server)
        network.lossy({"client"}, {"server"}, 1.0)
        there.writer.write(b"one")
        assert await ended(there)


async def test_delay_keeps_the_order() -> None:
    async with two_machines() as (network, client, server, heard):
        network.slow({"client"}, {"server"}, 0.0, 0.05)
        there = await talk(client, server)
        text = bytes(range(50))
        for number in text:
            there.writer.write(bytes([number]))
            await there.writer.drain()
            await asyncio.sleep(0)
        assert await there.reader.readexactly(len(text)) == text
        assert b"".join(heard) == text
        there.writer.close()


async def ended(there: Talk) -> bool:
    """Whether the connection is over."""
    try:
        return await there.reader.read(1) == b""
    except ConnectionError:
        return True
    finally:
        there.writer.close()
