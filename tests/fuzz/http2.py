"""What clients of the gRPC port may send: any frames behind a good greeting, in two reads."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyromq.proxy.grpc.limits import GrpcLimits
from pyromq.proxy.grpc.method import Call, Conversation, GrpcError, GrpcStatus, ServerStream, Service, Unary
from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    frame,
)
from pyromq.proxy.http2.limits import Http2Limits
from tests.unit.proxy.grpc.caller import Caller, head, prefixed

LIMITS = GrpcLimits(
    message=10_000,
    bytes_per_connection=20_000,
    http2=Http2Limits(streams=5, stream_window=20_000, connection_window=70_000, unsent=30_000, header_list=2000),
)


class Parrot:
    """Says everything again."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def received(self, message: bytes) -> None:
        self._call.send(message)

    def closed(self) -> None:
        self._call.finish()


async def _later(message: bytes, _call: Call) -> bytes:
    await asyncio.sleep(0)
    if message == b"no":
        raise GrpcError(GrpcStatus.ABORTED, "no")
    return message * 3


async def _thrice(message: bytes, call: Call) -> None:
    for _ in range(3):
        call.send(message)
        await call.drained()


SERVICE: Service = {
    "/echo.Echo/Say": Unary(lambda message, _: message),
    "/echo.Echo/Later": Unary(_later),
    "/echo.Echo/Thrice": ServerStream(_thrice),
    "/echo.Echo/Talk": Conversation(Parrot),
}


async def talk(data: bytes) -> None:
    """The first octet says how much comes in the first read."""
    caller = Caller(SERVICE, LIMITS)
    first = 1 + (data[0] if data else 0) * len(data) // 256
    for part in (data[1:first], data[first:]):
        if part:
            caller.send(part)
            check(caller)
            await caller.settle()
            check(caller)
    caller.connection.connection_lost(None)
    await asyncio.sleep(0)
    caller.endpoint.deadlines.stop()
    assert not caller.endpoint.connections
    assert caller.endpoint.stats.bytes_in_flight == 0
    assert caller.endpoint.stats.http2.streams == 0


def check(caller: Caller) -> None:
    """What must hold at any time; that whole frames were written is seen as they are read."""
    http2, stats = caller.connection.http2, caller.endpoint.stats
    assert stats.http2.streams == len(http2.streams) <= LIMITS.http2.streams
    assert http2.sender.queued == sum(stream.queued for stream in http2.streams.values()) <= LIMITS.http2.unsent
    assert stats.bytes_in_flight <= LIMITS.bytes_per_connection
    assert http2.closed == caller.transport.is_closed
    assert not (http2.closed and http2.streams)
    assert not stats.faults


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        yield lambda data: runner.run(talk(data))


def seeds() -> list[bytes]:
    def call(stream: int, path: str, message: bytes) -> bytes:
        return frame(HEADERS, END_HEADERS, stream, head(path)) + frame(DATA, END_STREAM, stream, prefixed(message))

    block = head("/echo.Echo/Talk", (b"grpc-timeout", b"5S"), (b"grpc-encoding", b"gzip"))
    calls = b"".join(call(1 + 2 * at, path, b"hello") for at, path in enumerate(SERVICE))
    split = frame(HEADERS, 0, 1, block[:9]) + frame(CONTINUATION, END_HEADERS, 1, block[9:])
    control = frame(SETTINGS, 0, 0, SETTING.pack(4, 3)) + frame(PING, 0, 0, bytes(8))
    windows = frame(WINDOW_UPDATE, 0, 0, WORD.pack(9)) + frame(WINDOW_UPDATE, 0, 1, WORD.pack(9))
    reset = frame(RST_STREAM, 0, 1, WORD.pack(8))
    padded = frame(DATA, 0x8, 1, b"\x02" + prefixed(b"padded") + bytes(2))
    return [b"\x80" + each for each in (calls, control + calls + windows, split + padded + reset, split + windows)]
