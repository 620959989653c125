"""A caller without sockets: a connection on a transport that only writes down what it gets."""

import asyncio
import struct
from typing import Any, cast

from pyromq.proxy.grpc.connection import GrpcConnection
from pyromq.proxy.grpc.endpoint import Endpoint
from pyromq.proxy.grpc.limits import GrpcLimits
from pyromq.proxy.grpc.method import Service
from pyromq.proxy.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame
from pyromq.proxy.http2.hpack import Decoder, Field, encode_headers
from tests.unit.proxy.http2.peer import Frame, read_frames

HEAD: list[Field] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/echo.Echo/Say"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


def prefixed(message: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(message)) + message


def head(path: str = "/echo.Echo/Say", *more: Field, **changed: bytes) -> bytes:
    """The fields of a request; `changed` replaces values of pseudo-header fields and content-type."""
    fields = dict(HEAD) | {b":path": path.encode()}
    fields |= {b":" + name.encode() if name != "content_type" else b"content-type": v for name, v in changed.items()}
    return encode_headers([*fields.items(), *more])


class FakeTransport:
    """Takes bytes, and says no more than a socket would."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False
        self.is_reading = True

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("10.0.0.7", 4711), "sockname": ("10.0.0.1", 8081)}.get(name)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Answer:
    """What came back on one stream."""

    def __init__(self) -> None:
        self.lists: list[dict[str, str]] = []
        self.data = b""
        self.is_ended = False
        self.reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], self.data
        while rest:
            flag, length = struct.unpack_from(">BI", rest)
            assert not flag
            found.append(rest[5 : 5 + length])
            rest = rest[5 + length :]
        return found

    @property
    def status(self) -> tuple[int, str]:
        assert self.is_ended
        return int(self.lists[-1]["grpc-status"]), self.lists[-1].get("grpc-message", "")


class Caller:
    """The client's side; `now` is the clock of the server."""

    def __init__(self, service: Service, limits: GrpcLimits | None = None) -> None:
        self.now = 1000.0
        self.endpoint = Endpoint(service, limits or GrpcLimits(), lambda: self.now)
        self.connection = GrpcConnection(self.endpoint)
        self.transport = FakeTransport()
        self.frames: list[Frame] = []
        self.answers: dict[int, Answer] = {}
        self._decoder = Decoder(max_list_size=1 << 20)
        self.connection.connection_made(cast("asyncio.Transport", self.transport))
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)
        self.read()

    def begin(self, stream: int, block: bytes, *, ends: bool = False) -> Answer:
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block))
        return self.answers.setdefault(stream, Answer())

    def data(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        self.send(frame(DATA, END_STREAM if ends else 0, stream, data))

    def call(self, stream: int, path: str, message: bytes, *more: Field) -> Answer:
        """A whole unary call in one read."""
        self.send(
            frame(HEADERS, END_HEADERS, stream, head(path, *more)) + frame(DATA, END_STREAM, stream, prefixed(message))
        )
        return self.answers.setdefault(stream, Answer())

    def read(self) -> None:
        """Look at what was written."""
        data, self.transport.written = self.transport.written, b""
        for each in read_frames(data):
            self.frames.append(each)
            answer = self.answers.setdefault(each.stream, Answer())
            if each.kind == HEADERS:
                fields = self._decoder.decode(each.payload)
                answer.lists.append({name.decode(): value.decode() for name, value in fields})
            elif each.kind == DATA:
                answer.data += each.payload
            elif each.kind == 3:
                answer.reset = int.from_bytes(each.payload, "big")
            if each.kind in (HEADERS, DATA) and each.flags & END_STREAM:
                answer.is_ended = True

    async def settle(self) -> None:
        """Let everything run that can."""
        for _ in range(10):
            await asyncio.sleep(0)
        self.read()
