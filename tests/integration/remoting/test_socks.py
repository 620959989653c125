"""Connections through a SOCKS5 proxy."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.connect.socks import SocksProxies, SocksProxy
from pyromq.remoting.errors import AddressError, ConnectError
from pyromq.remoting.server import Server

TIMEOUT = 30.0


class Proxy:
    """A proxy that leads every request to one place and notes what it was asked for."""

    def __init__(self, port: int, *, user: tuple[bytes, bytes] | None = None, code: int = 0) -> None:
        self.port = port
        self.user = user
        self.code = code
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await self._greet(reader, writer):
                await self._connect(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        methods = await reader.readexactly((await reader.readexactly(2))[1])
        if self.user is None:
            writer.write(b"\x05\x00")
            return True
        if 2 not in methods:
            writer.write(b"\x05\xff")
            return False
        writer.write(b"\x05\x02")
        name = await reader.readexactly((await reader.readexactly(2))[1])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        good = (name, password) == self.user
        writer.write(b"\x01\x00" if good else b"\x01\x01")
        return good

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = (await reader.readexactly(4))[3]
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        self.asked.append(await reader.readexactly(size))
        await reader.readexactly(2)
        writer.write(
            bytes([5, self.code, 0]) + (b"\x03\x04name\x00\x50" if kind == 3 else b"\x01\x00\x00\x00\x00\x00\x50")
        )
        if self.code:
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            inner_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(
    proxy: Proxy, network: str = "0.0.0.0/0", user: str | None = None, password: str | None = None
) -> AsyncIterator[Client]:
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    table = {network: SocksProxy(address=f"127.0.0.1:{port}", username=user, password=password)}
    client = Client(proxies=SocksProxies(table))
    try:
        yield client
    finally:
        await client.close()
        listening.close()


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    server = Server({7: lambda command, _: command.reply(remark="here")})
    await server.listen("127.0.0.1", 0)
    try:
        yield server.addresses[0].port
    finally:
        await server.stop(0)


async def call_through(options: Mapping[str, object], target: str, **client_options: str) -> tuple[Proxy, Command]:
    async with echo_server() as port:
        proxy = Proxy(port, **options)  # type: ignore[arg-type]  # user or code
        async with proxied(proxy, **client_options) as client:
            return proxy, await client.call(target, Command.request(7), TIMEOUT)


def test_names_are_resolved_by_the_proxy() -> None:
    proxy, answer = asyncio.run(call_through({}, "broker.internal:10911"))
    assert answer.remark == "here"
    assert proxy.asked == [b"broker.internal"]


def test_addresses_and_password() -> None:
    options = {"user": (b"me", b"secret")}
    proxy, answer = asyncio.run(call_through(options, "10.9.8.7:10911", user="me", password="secret"))  # noqa: S106
    assert answer.remark == "here"
    assert proxy.asked == [bytes([10, 9, 8, 7])]
    proxy, _ = asyncio.run(call_through({}, "[2001:db8::1]:10911"))
    assert len(proxy.asked[0]) == 16


def test_refusals_are_connect_errors() -> None:
    with pytest.raises(ConnectError, match="refused the user name"):
        asyncio.run(call_through({"user": (b"me", b"x")}, "10.9.8.7:1", user="me", password="wrong"))  # noqa: S106
    with pytest.raises(ConnectError, match="another kind of authentication"):
        asyncio.run(call_through({"user": (b"me", b"x")}, "10.9.8.7:1"))
    with pytest.raises(ConnectError, match="connection refused"):
        asyncio.run(call_through({"code": 5}, "10.9.8.7:1"))


def test_first_network_wins() -> None:
    near, far = SocksProxy(address="near:1"), SocksProxy(address="far:1")
    proxies = SocksProxies({"10.0.0.0/8": near, "0.0.0.0/0": far})
    assert proxies.proxy_for("10.1.2.3") is near
    assert proxies.proxy_for("11.1.2.3") is far
    assert proxies.proxy_for("some.host") is far
    assert SocksProxies({"10.0.0.0/8": near}).proxy_for("some.host") is None
    assert not SocksProxies({})
    with pytest.raises(AddressError, match="networks"):
        SocksProxies({"nowhere": near})
