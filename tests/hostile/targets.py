"""Servers to be unkind to, and the means: raw sockets, and frames that no client would send."""

import asyncio
import json
import random
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.auth.users.access import Credentials, User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.broker.standalone import Standalone
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.signature import signed
from pyromq.remoting.client import Client
from pyromq.remoting.hooks import Signing

ROOT = Credentials("root", "root-secret-1")
TIMEOUT = 30.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(300):
            await scenario

    asyncio.run(bounded())


@asynccontextmanager
async def target(path: Path, *, auth: bool = False, **settings: str) -> AsyncIterator[Standalone]:
    """A running name server and broker, with `auth` for `ROOT` only."""
    if auth:
        AccessStore(path / "auth").create_user(User(ROOT.access_key, ROOT.secret_key, UserType.SUPER))
        settings |= {"authentication_enabled": "true", "authorization_enabled": "true"}
    server = Standalone(path, namesrv_port=0, broker_port=0, settings={"connection_rate": "0"} | settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(*, auth: bool = False) -> AsyncIterator[Client]:
    """A well-behaved client."""
    made = Client(hooks=(Signing(ROOT.access_key, ROOT.secret_key),) if auth else ())
    try:
        yield made
    finally:
        await made.close()


async def is_well(server: Standalone, peer: Client) -> None:
    """Both servers answer somebody who asks nicely."""
    info = await peer.call(server.broker_address, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), TIMEOUT)
    assert info.code == ResponseCode.SUCCESS, info.remark
    routes = await peer.call(server.namesrv_address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT)
    assert routes.code == ResponseCode.SUCCESS, routes.remark


async def dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def throw(address: str, *pieces: bytes) -> bytes:
    """Send bytes, say that this is all, and read what comes back until the server closes."""
    reader, writer = await dial(address)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(TIMEOUT):
            return await reader.read()
    except (ConnectionError, BrokenPipeError):
        return b""
    finally:
        writer.close()


def frame(header: bytes, body: bytes = b"", *, serialization: int = 0) -> bytes:
    """Any bytes in the shape of a frame."""
    return struct.pack(">II", 4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def json_frame(code: int, ext: str | bytes, body: bytes = b"") -> bytes:
    """A frame whose fields are this JSON text, as it is."""
    text = ext.encode() if isinstance(ext, str) else ext
    return frame(b'{"code":%d,"flag":0,"opaque":1,"version":479,"extFields":%b}' % (code, text), body)


def request(code: int, ext: dict[str, str], body: bytes = b"", *, auth: bool = False, binary: bool = False) -> bytes:
    """A whole request, signed with `auth`."""
    command = Command.request(code, ext=dict(ext), body=body, opaque=7)
    command.serialization = Serialization.ROCKETMQ if binary else Serialization.JSON
    if auth:
        signed(command, ROOT.access_key, ROOT.secret_key)
    return encode(command)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The same with a few bytes flipped, cut out, repeated or put in."""
    broken = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(broken) or 1)
        match chance.randrange(5):
            case 0:
                broken[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del broken[at : at + chance.randint(1, 8)]
            case 2:
                broken[at:at] = chance.randbytes(chance.randint(1, 8))
            case 3:
                broken[at:at] = broken[at : at + chance.randint(1, 64)]
            case _:
                broken[at : at + 4] = struct.pack(">i", chance.choice((0, -1, 1, 2**31 - 1, -(2**31), 65_535)))
    return bytes(broken)


def deep(levels: int) -> str:
    """JSON that is very deep."""
    return '{"a":' * levels + "1" + "}" * levels


def quoted(text: str) -> str:
    return json.dumps(text)
