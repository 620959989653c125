"""The floods that HTTP/2 is known for. Each ends its own connection, and who behaves is served all the while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from pyromq.auth.certificates import make
from pyromq.proxy.grpc.limits import GrpcLimits
from pyromq.proxy.grpc.method import Call, Conversation, Service, Unary
from pyromq.proxy.grpc.server import GrpcServer
from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.limits import Http2Limits
from pyromq.remoting.accept.listener import MAX_OPENINGS
from pyromq.remoting.address import Address
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import ServerTls
from tests.hostile.targets import dial, run
from tests.unit.proxy.grpc.caller import head, prefixed
from tests.unit.proxy.http2.peer import read_frames

GREETING = PREFACE + frame(SETTINGS, 0, 0)
MIB = 1024 * 1024
LARGE = "/echo.Echo/Large"
TALK = "/echo.Echo/Talk"
ROUNDS = 50


class Silent:
    """A conversation that only listens."""

    def __init__(self, call: Call) -> None: ...

    def received(self, message: bytes) -> None: ...

    def closed(self) -> None: ...


async def forever(_message: bytes, _call: Call) -> bytes:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


SERVICE: Service = {
    "/echo.Echo/Say": Unary(lambda message, _: message),
    "/echo.Echo/Never": Unary(forever),
    LARGE: Unary(lambda *_: bytes(MIB)),
    TALK: Conversation(Silent),
}


@asynccontextmanager
async def scene(limits: GrpcLimits | None = None) -> AsyncIterator[tuple[GrpcServer, Address, Callable[..., object]]]:
    """A server, and a call that a client who behaves makes of it."""
    server = GrpcServer(SERVICE, limits=limits)
    address = await server.listen("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(str(address)) as channel:
            say = channel.unary_unary("/echo.Echo/Say")
            assert await say(b"hello") == b"hello"
            yield server, address, say
            assert await say(b"still there?") == b"still there?"
    finally:
        await server.stop(grace=1)
        assert server.stats.http2.streams == 0
        assert server.stats.bytes_in_flight == 0


async def flood(address: Address, pieces: Iterator[bytes]) -> bytes:
    """Send for as long as somebody takes it; what came back."""
    reader, writer = await dial(str(address))
    writer.write(GREETING)
    answer = asyncio.create_task(reader.read())
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if answer.done():
                break
            await asyncio.sleep(0)
    try:
        return await answer
    except ConnectionError:  # what the server said last is lost where it closes while more comes
        return b""
    finally:
        writer.close()


async def kept_busy(say: Callable[..., object], attack: "asyncio.Task[bytes]") -> bytes:
    """Call again and again until the attack is over, and some more."""
    rounds = 0
    while not attack.done() or rounds < ROUNDS:
        assert await say(b"%d" % rounds) == b"%d" % rounds  # type: ignore[misc]
        rounds += 1
    return await attack


def streams() -> Iterator[int]:
    return count(1, 2)


def rapid_reset() -> Iterator[bytes]:
    block = head("/echo.Echo/Never")
    for stream in streams():
        yield (
            frame(HEADERS, END_HEADERS, stream, block)
            + frame(DATA, END_STREAM, stream, prefixed(b"x"))
            + frame(RST_STREAM, 0, stream, WORD.pack(8))
        )


def made_you_reset() -> Iterator[bytes]:
    block = head("/echo.Echo/Never")
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, block) + frame(WINDOW_UPDATE, 0, stream, bytes(4))


def again(piece: bytes, beginning: bytes = b"") -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield beginning
        while True:
            yield piece * 20

    return pieces


TALKING = frame(HEADERS, END_HEADERS, 1, head(TALK))
ATTACKS: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "rapid reset": ("resets", rapid_reset),
    "made you reset": ("resets", made_you_reset),
    "pings": ("pings", again(frame(PING, 0, 0, bytes(8)))),
    "settings": ("settings", again(frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1)))),
    "priorities": ("priorities", again(frame(PRIORITY, 0, 1, bytes(5)))),
    "windows": ("window_updates", again(frame(WINDOW_UPDATE, 0, 1, WORD.pack(1)), TALKING)),
    "empty frames": ("empty_frames", again(frame(DATA, 0, 1), TALKING)),
    "unknown frames": ("unknown_frames", again(frame(0xEE, 0, 0))),
    "continuations": ("continuations", again(frame(CONTINUATION, 0, 1), frame(HEADERS, 0, 1))),
    "endless fields": ("header_block", again(frame(CONTINUATION, 0, 1, bytes(8000)), frame(HEADERS, 0, 1))),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_floods(name: str) -> None:
    limit, pieces = ATTACKS[name]

    async def scenario() -> None:
        async with scene() as (server, address, say):
            answer = await kept_busy(say, asyncio.create_task(flood(address, pieces())))
            assert server.stats.http2.floods == {limit: 1}
            if answer:
                last = read_frames(answer)[-1]
                assert last.kind == GOAWAY
                assert last.payload[4:] == WORD.pack(ErrorCode.ENHANCE_YOUR_CALM) + f"limit {limit}".encode()

    run(scenario())


def test_who_does_not_take_answers_is_not_waited_for() -> None:
    """Its socket is full, and its windows are wide open: the server stops reading from it, then cuts it off."""
    wide = frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 2**31 - 1))
    wide += frame(WINDOW_UPDATE, 0, 0, WORD.pack(2**31 - 1 - 65_535))
    limits = GrpcLimits(transport=Limits(unsent_max=32 * MIB))

    async def scenario() -> None:
        async with scene(limits) as (server, address, say):
            _, writer = await dial(str(address))
            writer.write(GREETING + wide)
            block = head(LARGE)
            for stream in range(1, 401, 2):
                writer.write(frame(HEADERS, END_HEADERS, stream, block))
                writer.write(frame(DATA, END_STREAM, stream, prefixed(b"")))
            for _ in range(ROUNDS):
                assert await say(b"x") == b"x"  # type: ignore[misc]
            transport = server.stats.transport
            assert transport.closed_slow or transport.reads_paused == 1
            writer.transport.abort()

    run(scenario())


def test_answers_for_which_there_is_no_window_are_bounded() -> None:
    closed = frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 0))
    limits = GrpcLimits(http2=Http2Limits(unsent=8 * MIB))

    def pieces() -> Iterator[bytes]:
        yield closed
        for stream in streams():
            yield frame(HEADERS, END_HEADERS, stream, head(LARGE)) + frame(DATA, END_STREAM, stream, prefixed(b""))

    async def scenario() -> None:
        async with scene(limits) as (server, address, say):
            await kept_busy(say, asyncio.create_task(flood(address, pieces())))
            assert server.stats.http2.floods == {"unsent": 1}

    run(scenario())


def test_streams_without_end_are_refused_one_by_one() -> None:
    limits = GrpcLimits(http2=Http2Limits(streams=10, resets=100))

    def pieces() -> Iterator[bytes]:
        for stream in streams():
            yield frame(HEADERS, END_HEADERS, stream, head(TALK))

    async def scenario() -> None:
        async with scene(limits) as (server, address, say):
            answer = await kept_busy(say, asyncio.create_task(flood(address, pieces())))
            assert server.stats.http2.streams_refused > 10
            assert server.stats.http2.floods == {"resets": 1}
            if answer:
                refused = [each for each in read_frames(answer) if each.kind == RST_STREAM]
                assert {each.payload for each in refused} == {WORD.pack(ErrorCode.REFUSED_STREAM)}

    run(scenario())


def test_bodies_that_never_end_are_bounded() -> None:
    """Many requests, each of which lacks its last byte."""
    limits = GrpcLimits(bytes_per_connection=4 * MIB)
    part = prefixed(bytes(MIB))[:-1]

    def pieces() -> Iterator[bytes]:
        for stream in range(1, 41, 2):
            yield frame(HEADERS, END_HEADERS, stream, head())
            for at in range(0, len(part), 16_384):
                yield frame(DATA, 0, stream, part[at : at + 16_384])
        yield frame(PING, 0, 1, bytes(8))

    async def scenario() -> None:
        async with scene(limits) as (server, address, say):
            most = 0

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, server.stats.bytes_in_flight)
                    await asyncio.sleep(0)

            watching = asyncio.create_task(watch())
            await kept_busy(say, asyncio.create_task(flood(address, pieces())))
            watching.cancel()
            assert 2 * MIB < most <= 4 * MIB
            assert server.stats.ended[8] >= 16

    run(scenario())


HALVES = [
    b"",
    PREFACE[:10],
    PREFACE,
    GREETING[:-1],
    GREETING + frame(HEADERS, END_HEADERS, 1, head())[:20],
    GREETING + frame(HEADERS, 0, 1, head()[:10]),
    GREETING + frame(HEADERS, END_HEADERS, 1, head()),
    GREETING + frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, 0, 1, prefixed(bytes(100))[:50]),
    GREETING + frame(DATA, 0, 1, bytes(100))[:9],
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    bytes(1000),
]


def test_connections_that_stop_halfway_keep_nobody_out_and_are_swept_away() -> None:
    async def scenario() -> None:
        async with scene() as (server, address, say):
            before = server.connections
            held = [await dial(str(address)) for _ in range(10) for _ in HALVES]
            for at, (_, writer) in enumerate(held):
                writer.write(HALVES[at % len(HALVES)])
            for _ in range(ROUNDS):
                assert await say(b"x") == b"x"  # type: ignore[misc]
            now = server.limits.transport.frame_timeout + 1000
            clock = asyncio.get_running_loop().time()
            for each in server.connections - before:
                each.sweep(clock)
                each.sweep(clock + now)
                each.sweep(clock + now + 1000)
            for reader, writer in held:
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert await say(b"x") == b"x"  # type: ignore[misc]

    run(scenario())


def test_silent_connections_to_a_port_with_tls_keep_nobody_out(tmp_path: Path) -> None:
    files = make(tmp_path, ["127.0.0.1"], days=1, now=datetime.now(UTC))
    tls = ServerTls(files.server.certificate, files.server.key)

    async def scenario() -> None:
        server = GrpcServer(SERVICE, tls=tls)
        address = await server.listen("127.0.0.1", 0)
        held = [await dial(str(address)) for _ in range(MAX_OPENINGS + 20)]
        try:
            for _ in range(3):
                async with grpc.aio.insecure_channel(str(address)) as channel:
                    assert await channel.unary_unary("/echo.Echo/Say")(b"hello") == b"hello"
        finally:
            for _, writer in held:
                writer.close()
            await server.stop(grace=1)

    run(scenario())
