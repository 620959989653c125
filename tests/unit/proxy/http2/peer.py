"""The other side for tests of connections: makes frames as a client would, and reads what the server sent."""

from dataclasses import dataclass, field

from pyromq.proxy.http2.connection import Connection
from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD,
    HEAD_SIZE,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import Decoder, Field, encode_headers
from pyromq.proxy.http2.limits import Http2Limits, Http2Stats
from pyromq.proxy.http2.stream import Stream, Values

REQUEST: list[Field] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/echo.Echo/Say"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]
BLOCK = encode_headers(REQUEST)


class Frame:
    """One frame that was received."""

    def __init__(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload

    def __repr__(self) -> str:
        return f"Frame({self.kind}, flags={self.flags:#x}, stream={self.stream}, {self.payload!r})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


def read_frames(data: bytes) -> list[Frame]:
    """Cut what a server sent; it must be whole frames."""
    frames, at = [], 0
    while at < len(data):
        word, flags, stream = HEAD.unpack_from(data, at)
        end = at + HEAD_SIZE + (word >> 8)
        assert end <= len(data)
        frames.append(Frame(word & 0xFF, flags, stream, data[at + HEAD_SIZE : end]))
        at = end
    return frames


class Recorded(Stream):
    """A stream that writes down what happens to it."""

    __slots__ = ("body", "events", "fields", "is_aborted", "is_ended")

    def __init__(self, http2: Connection, stream_id: int) -> None:
        super().__init__(http2, stream_id)
        self.fields: list[Field] = []
        self.body = b""
        self.events: list[str] = []
        self.is_ended = self.is_aborted = False

    def opened(self, fields: list[Field], values: Values, data: bytes, ended: bool) -> None:
        assert values == dict(fields)
        self.events.append("opened")
        self.fields = fields
        self.body = data
        self.is_ended = ended

    def received(self, data: bytes, ended: bool) -> None:
        assert not self.is_ended
        self.events.append("received")
        self.body += data
        self.is_ended = ended

    def aborted(self) -> None:
        assert not self.is_aborted
        self.events.append("aborted")
        self.is_aborted = True

    def writable(self) -> None:
        self.events.append("writable")


@dataclass
class Peer:
    """A client and the connection it talks to. `opened` has all streams there ever were, `now` is the clock."""

    limits: Http2Limits = field(default_factory=Http2Limits)
    is_greeted: bool = True
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.stats = Http2Stats()
        self.opened: dict[int, Recorded] = {}
        self.connection = Connection(self._make, self.limits, self.stats, lambda: self.now)
        if self.is_greeted:
            self.greeting = self.send(PREFACE + frame(SETTINGS, 0, 0))

    def _make(self, connection: Connection, stream_id: int) -> Stream:
        stream = self.opened[stream_id] = Recorded(connection, stream_id)
        return stream

    def send(self, data: bytes) -> list[Frame]:
        """Send bytes; the frames that come back."""
        self.connection.receive(data)
        return self.take()

    def take(self) -> list[Frame]:
        """What the server has for us."""
        out = self.connection.sender.out
        frames = read_frames(b"".join(out))
        out.clear()
        return frames

    def request(self, stream: int, *, ends: bool = True, block: bytes = BLOCK) -> list[Frame]:
        """A request without a body, or the beginning of one with it."""
        return self.send(frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block))

    def fault(self, data: bytes) -> tuple[ErrorCode, str]:
        """Send what must end the connection; what GOAWAY says."""
        frames = self.send(data)
        assert frames, "nothing came back"
        last = frames[-1]
        assert last.kind == GOAWAY, frames
        assert self.connection.closed
        assert not self.connection.streams
        assert not self.stats.streams
        return ErrorCode(WORD.unpack_from(last.payload, 4)[0]), last.payload[8:].decode()

    def reset(self, data: bytes) -> tuple[int, ErrorCode]:
        """Send what must end one stream; which, and why."""
        frames = [each for each in self.send(data) if each.kind == RST_STREAM]
        assert len(frames) == 1, frames
        assert not self.connection.closed
        return frames[0].stream, ErrorCode(WORD.unpack(frames[0].payload)[0])


def body_of(frames: list[Frame], stream: int) -> bytes:
    """The data of one stream."""
    return b"".join(each.payload for each in frames if each.kind == DATA and each.stream == stream)


def fields_of(frames: list[Frame]) -> list[list[Field]]:
    """The lists of fields among frames, in order."""
    found: list[list[Field]] = []
    block, decoder = b"", Decoder(max_list_size=1 << 20)
    for each in frames:
        if each.kind in (HEADERS, CONTINUATION):
            block += each.payload
            if each.flags & END_HEADERS:
                found.append(decoder.decode(block))
                block = b""
    return found
