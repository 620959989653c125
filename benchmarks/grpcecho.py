"""What a unary gRPC call costs the server, beside `grpc.aio` in the same run.

Both echo 400 bytes. One connection keeps 64 calls under way, with the fields that a RocketMQ client sends, written by
hand here so that the load costs little. What counts is the processor time of the server: rates depend on who else is
busy.
"""

import argparse
import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from typing import cast

import uvloop

from benchmarks.crowd import processor_seconds
from benchmarks.report import show
from pyromq.proxy.grpc.method import Unary
from pyromq.proxy.grpc.server import GrpcServer
from pyromq.proxy.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    frame,
)

PATH = "/echo.Echo/Say"
SIZE = 400
DEPTH = 64
CALLS = 20_000
FIELDS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "127.0.0.1"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "3S"),
    ("user-agent", "benchmark"),
    ("x-mq-client-id", "host@1@2@abc"),
    ("x-mq-language", "PYTHON"),
    ("x-mq-protocol", "v2"),
    ("x-mq-date-time", "20260101T000000Z"),
]
STATIC_FIELDS = 61
"""Entries of HPACK's table before those of the connection."""


def _literal(name: str, value: str, first: int) -> bytes:
    return bytes([first, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


FIRST_BLOCK = b"".join(_literal(name, value, 0x40) for name, value in FIELDS)
"""Puts the fields into the server's table."""
NEXT_BLOCK = bytes(0x80 | STATIC_FIELDS + place for place in range(len(FIELDS), 0, -1))
"""The same fields from there."""
BODY = struct.pack(">BI", 0, SIZE) + bytes(SIZE)
GREETING = (
    PREFACE
    + frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 2**30))
    + frame(WINDOW_UPDATE, 0, 0, WORD.pack(2**30))
)


class Load(asyncio.Protocol):
    """Makes so many calls, and has `done` set when all were answered."""

    def __init__(self, calls: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = self._unanswered = calls
        self._under_way = 0
        self._stream = 1
        self._window = 65_535
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(GREETING)
        self._send()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= HEAD_SIZE:
            word, flags, _ = HEAD.unpack_from(data, at)
            end = at + HEAD_SIZE + (word >> 8)
            if end > len(data):
                break
            self._take(word & 0xFF, flags, data[at + HEAD_SIZE : end])
            at = end
        self._rest = data[at:]
        self._send()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the server closed the connection"))

    def _take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == HEADERS and flags & END_STREAM:
            self._under_way -= 1
            self._unanswered -= 1
            if not self._unanswered:
                self.done.set_result(None)
        elif kind == WINDOW_UPDATE:
            self._window += WORD.unpack(payload)[0]
        elif kind in (PING, SETTINGS) and not flags & ACK:
            self._transport.write(frame(kind, ACK, 0, payload if kind == PING else b""))

    def _send(self) -> None:
        pieces = []
        while self._left and self._under_way < DEPTH and self._window >= len(BODY):
            block = FIRST_BLOCK if self._stream == 1 else NEXT_BLOCK
            block += _literal("x-mq-request-id", f"{self._stream:020}", 0)
            pieces.append(frame(HEADERS, END_HEADERS, self._stream, block))
            pieces.append(frame(DATA, END_STREAM, self._stream, BODY))
            self._stream += 2
            self._left -= 1
            self._under_way += 1
            self._window -= len(BODY)
        if pieces:
            self._transport.write(b"".join(pieces))


async def drive(address: str, calls: int) -> float:
    """Calls a second."""
    host, _, port = address.rpartition(":")
    before = time.perf_counter()
    transport, load = await asyncio.get_running_loop().create_connection(lambda: Load(calls), host, int(port))
    await load.done
    transport.close()
    return calls / (time.perf_counter() - before)


async def serve_ours() -> None:
    server = GrpcServer({PATH: Unary(lambda message, _: message)})
    announce(str(await server.listen("127.0.0.1", 0)))
    await asyncio.get_running_loop().create_future()


async def serve_aio() -> None:
    import grpc  # type: ignore[import-untyped] # noqa: PLC0415 - only one of the two servers needs it

    async def say(message: bytes, _: object) -> bytes:
        return message

    server = grpc.aio.server()
    handlers = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", handlers),))
    announce(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    await server.start()
    await server.wait_for_termination()


def announce(address: str) -> None:
    print(json.dumps({"address": address, "pid": os.getpid()}), flush=True)


SERVERS = {"pyromq": serve_ours, "grpc.aio": serve_aio}


def measure(name: str, rounds: int) -> tuple[float, float]:
    """Microseconds of processor time for a call, and calls a second: the best of the rounds."""
    command = [sys.executable, "-m", "benchmarks.grpcecho", "--serve", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            uvloop.run(drive(address, CALLS // 4))
            costs, rates = [], []
            for _ in range(rounds):
                before = processor_seconds(process.pid)
                rates.append(uvloop.run(drive(address, CALLS)))
                costs.append((processor_seconds(process.pid) - before) / CALLS * 1e6)
            return min(costs), max(rates)
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="take the best of this many (default: %(default)s)")
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(SERVERS[given.serve]())
        return
    found = {name: measure(name, given.rounds) for name in SERVERS}
    figures: dict[str, float] = {}
    for name, (cost, rate) in found.items():
        figures |= {f"{name}: processor time of a call, us": cost, f"{name}: calls/s": rate}
    figures["ratio of processor time"] = found["grpc.aio"][0] / found["pyromq"][0]
    show("unary gRPC calls", figures, as_json=given.json)


if __name__ == "__main__":
    main()
