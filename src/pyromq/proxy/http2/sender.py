"""What this side sends: frames in `out` until somebody writes them, within the windows that the peer opens.

DATA that does not fit waits in its stream. Invariant: a stream waits for the connection's window in `_waiting`, or for
its own without standing there, so that opening one window costs only those whom it helps.
"""

from collections import deque
from collections.abc import Callable

from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEADERS,
    LEAST_FRAME,
    MAX_WINDOW,
    ErrorCode,
    Http2Error,
    StreamError,
    frame,
)
from pyromq.proxy.http2.stream import Stream

EMPTY_TABLE = b"\x20"
"""Tells the peer's decoder that its table holds nothing (RFC 7541, 6.3)."""


class Sender:
    """The sending half of a connection. `sent` counts frames of answers; `on_end` hears of streams that are done,
    `on_overflow` when more than `limit` bytes wait.

    `is_plain` is False while the next block must begin with a table size update.
    """

    __slots__ = (
        "_limit",
        "_on_end",
        "_on_overflow",
        "_waiting",
        "initial_window",
        "is_plain",
        "max_frame",
        "out",
        "queued",
        "sent",
        "window",
    )

    def __init__(self, on_end: Callable[[Stream], None], limit: int, on_overflow: Callable[[], None]) -> None:
        self.out: list[bytes | memoryview] = []
        self.window = DEFAULT_WINDOW
        self.initial_window = DEFAULT_WINDOW
        self.max_frame = LEAST_FRAME
        self.is_plain = True
        self.queued = 0
        self.sent = 0
        self._on_end = on_end
        self._limit = limit
        self._on_overflow = on_overflow
        self._waiting: dict[int, Stream] = {}

    def headers(self, stream: Stream, block: bytes, *, end: bool = False) -> None:
        """Send fields; before, or instead of, any data."""
        if not self.is_plain:
            self.is_plain = True
            block = EMPTY_TABLE + block
        flags = END_STREAM if end else 0
        most, kind = self.max_frame, HEADERS
        while len(block) > most:
            self.out.append(frame(kind, flags, stream.id, block[:most]))
            block, kind, flags = block[most:], CONTINUATION, 0
        self.out.append(frame(kind, flags | END_HEADERS, stream.id, block))
        self.sent += 1
        if end:
            self._on_end(stream)

    def data(self, stream: Stream, data: bytes) -> None:
        """Send data, now or when there is room."""
        if stream.queue:
            stream.queue.append(data)
            waiting = len(data)
        else:
            rest = self._write(stream, data)
            if rest is None:
                return
            stream.queue = deque((rest,))
            waiting = len(rest)
        stream.queued += waiting
        self.queued += waiting
        if self.queued > self._limit:
            self._on_overflow()

    def trailers(self, stream: Stream, block: bytes) -> None:
        """End a stream, after the data that still waits."""
        if stream.queue:
            stream.tail = block
        else:
            self.headers(stream, block, end=True)

    def forget(self, stream: Stream) -> None:
        """A stream is gone: drop what waits in it."""
        self.queued -= stream.queued
        stream.queued = 0
        stream.queue = None
        self._waiting.pop(stream.id, None)

    def open_window(self, by: int) -> None:
        """The peer takes more on the connection. Raises Http2Error."""
        self.window += by
        if self.window > MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the window of the connection is too large")
        while self._waiting and self.window > 0:
            stream_id = next(iter(self._waiting))
            self._pump(self._waiting.pop(stream_id))

    def open_stream_window(self, stream: Stream, by: int) -> None:
        """The peer takes more on one stream. Raises StreamError."""
        stream.send_window += by
        if stream.send_window > MAX_WINDOW:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "the window of the stream is too large")
        if stream.queue:
            self._pump(stream)

    def _pump(self, stream: Stream) -> None:
        """Send what waits, as far as windows go."""
        queue, before = stream.queue, stream.queued
        assert queue is not None  # noqa: S101 - or it would not have been waiting
        while queue:
            data = queue.popleft()
            rest = self._write(stream, data)
            taken = len(data) - (0 if rest is None else len(rest))
            stream.queued -= taken
            self.queued -= taken
            if rest is not None:
                queue.appendleft(rest)
                break
        if not queue and stream.tail is not None:
            self.headers(stream, stream.tail, end=True)
        elif stream.queued < before:
            stream.writable()

    def _write(self, stream: Stream, data: bytes | memoryview) -> memoryview | None:
        """Send as much as windows allow; what is left, or None."""
        out, size = self.out, len(data)
        if size <= self.max_frame and size <= stream.send_window and size <= self.window:
            stream.send_window -= size
            self.window -= size
            out += (HEAD.pack(size << 8 | DATA, 0, stream.id), data)
            self.sent += 1
            return None
        view = memoryview(data)
        while view:
            size = min(len(view), self.max_frame, stream.send_window, self.window)
            if size <= 0:
                if stream.send_window > 0:
                    self._waiting[stream.id] = stream
                return view
            stream.send_window -= size
            self.window -= size
            out += (HEAD.pack(size << 8 | DATA, 0, stream.id), view[:size])
            self.sent += 1
            view = view[size:]
        return None
