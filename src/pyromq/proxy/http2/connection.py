"""The server's side of an HTTP/2 connection: `receive` bytes, and streams are opened, fed and ended.

What is to be sent stands in `sender.out`. The rules are those of RFC 9113; a breach ends the stream or, with GOAWAY,
the connection. Invariants: `streams` has the streams of which either side may still send, and each request stands there
once, from its HEADERS on.
"""

from collections.abc import Callable

from pyromq.native import NativeCoreError
from pyromq.proxy.http2.control import Control
from pyromq.proxy.http2.fields import check_request, check_trailers
from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LAST_STREAM,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PADDED,
    PREFACE,
    PRIORITIZED,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    Http2Error,
    StreamError,
    frame,
    settings_frame,
)
from pyromq.proxy.http2.hpack import CompressionError, Decoder, HeaderListSizeError
from pyromq.proxy.http2.limits import Http2Limits, Http2Stats
from pyromq.proxy.http2.stream import Stream

PRIORITY_SIZE = 5


class Connection(Control):
    """One connection. `make` gives the object for a new stream; `clock` gives seconds.

    `progress` grows as long as whole frames come. Once `closed`, what is in `sender.out` is the last to be written.
    """

    __slots__ = (
        "_block",
        "_block_ends",
        "_block_parts",
        "_block_stream",
        "_decoder",
        "_low_window",
        "_make",
        "_pending",
        "_whole_size",
        "_window",
        "is_ready",
        "progress",
        "stream_window",
    )

    def __init__(
        self,
        make: "Callable[[Connection, int], Stream]",
        limits: Http2Limits,
        stats: Http2Stats,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(limits, stats, clock)
        self.stream_window = limits.stream_window
        self.is_ready = False
        self.progress = 0
        self._make = make
        self._decoder = Decoder(max_list_size=limits.header_list)
        self._pending = b""
        self._whole_size = min(limits.frame, limits.stream_window)
        self._window = limits.connection_window
        self._low_window = limits.connection_window // 2
        self._block = bytearray()
        self._block_stream = 0
        self._block_ends = False
        self._block_parts = 0
        self.sender.out += (
            settings_frame(
                {
                    MAX_CONCURRENT_STREAMS: limits.streams,
                    INITIAL_WINDOW_SIZE: limits.stream_window,
                    MAX_FRAME_SIZE: limits.frame,
                    MAX_HEADER_LIST_SIZE: limits.header_list,
                }
            ),
            frame(WINDOW_UPDATE, 0, 0, WORD.pack(limits.connection_window - 65_535)),
        )

    @property
    def is_midway(self) -> bool:
        """Whether a frame, or a list of fields, has begun and not ended."""
        return bool(self._pending or self._block_stream)

    def receive(self, data: bytes) -> None:
        """Take what came. Never raises for it."""
        if self.closed:
            return
        if self._pending:
            data = self._pending + data
        try:
            at = 0
            if not self.is_ready:
                at = self._begin(data)
            if self.is_ready:
                at = self._frames(data, at)
            self._pending = data[at:]
            if at:
                self.progress += 1
        except Http2Error as fault:
            self.fail(fault.code, str(fault))

    def _begin(self, data: bytes) -> int:
        """The preface: fixed bytes, then SETTINGS."""
        size = len(PREFACE)
        if data[:size] != PREFACE[: len(data)]:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 for gRPC only")
        if len(data) < size + HEAD_SIZE:
            return 0
        word, flags, _ = HEAD.unpack_from(data, size)
        if word & 0xFF != SETTINGS or flags:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a connection begins with SETTINGS")
        self.is_ready = True
        return size

    def _frames(self, data: bytes, at: int) -> int:
        """Handle the whole frames; where the rest begins."""
        size, most, unpack = len(data), self.limits.frame, HEAD.unpack_from
        while size - at >= HEAD_SIZE and not self.closed:
            word, flags, stream_id = unpack(data, at)
            start = at + HEAD_SIZE
            end = start + (word >> 8)
            if word >> 8 > most:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"limit frame: {word >> 8} bytes")
            if end > size:
                break
            kind = word & 0xFF
            stream_id &= LAST_STREAM
            at = end
            if self._block_stream and kind != CONTINUATION:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame among those of a field block")
            try:
                if kind == HEADERS:
                    at = self._on_headers(data, start, end, flags, stream_id)
                elif kind == DATA:
                    self._on_data(data, start, end, flags, stream_id)
                elif kind == CONTINUATION:
                    self._on_continuation(data[start:end], flags, stream_id)
                else:
                    self.on_control(kind, flags, stream_id, data[start:end])
            except StreamError as fault:
                self.refuse(stream_id, fault.code)
        return at

    def _on_headers(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> int:
        """Fields, and the DATA behind them when that ends the request; where the next frame begins."""
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        after = end
        if flags & (PADDED | PRIORITIZED):
            start, end = _unpadded(data, start, end, flags)
            if flags & PRIORITIZED:
                start += PRIORITY_SIZE
        ends = bool(flags & END_STREAM)
        if flags & END_HEADERS:
            return self._on_fields(stream_id, data[start:end], ends, data, after)
        self._block += data[start:end]
        self._block_stream = stream_id
        self._block_ends = ends
        self._block_parts = 0
        return after

    def _on_continuation(self, payload: bytes, flags: int, stream_id: int) -> None:
        if not self._block_stream or stream_id != self._block_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        block = self._block
        block += payload
        self._block_parts += 1
        if self._block_parts > self.limits.continuations:
            raise self.floods.exceeded("continuations")
        if len(block) > self.limits.header_block:
            raise self.floods.exceeded("header_block")
        if flags & END_HEADERS:
            self._block = bytearray()
            self._block_stream = 0
            self._on_fields(stream_id, bytes(block), self._block_ends, b"", 0)

    def _on_fields(self, stream_id: int, block: bytes, ends: bool, data: bytes, at: int) -> int:
        """A whole field block: a request, or trailers of one. `data` from `at` on is what follows it."""
        try:
            fields, names, sound = self._decoder.decode_request(block)
        except CompressionError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        except NativeCoreError as error:
            raise Http2Error(ErrorCode.INTERNAL_ERROR, "the table of header fields is lost") from error
        except HeaderListSizeError as error:
            self.last_id = max(self.last_id, stream_id)
            self.stats.header_lists_refused += 1
            raise StreamError(ErrorCode.ENHANCE_YOUR_CALM, "limit header_list") from error
        if stream_id <= self.last_id:
            self._on_trailers(stream_id, names, ends, sound)
            return at
        self.last_id = stream_id
        if stream_id > self.last_served:
            return at
        streams = self.streams
        if len(streams) >= self.limits.streams:
            self.stats.streams_refused += 1
            raise StreamError(ErrorCode.REFUSED_STREAM, "limit streams")
        values = check_request(fields, names, sound=sound)
        stream = self._make(self, stream_id)
        body = b""
        if ends:
            stream.remote_ended = True
        elif len(data) - at >= HEAD_SIZE:
            # Nearly always the rest of the request is there, in one frame; then it goes out with the fields.
            word, flags, following = HEAD.unpack_from(data, at)
            end = at + HEAD_SIZE + (word >> 8)
            is_data = following == stream_id and flags == END_STREAM and not word & 0xFF
            if is_data and end <= len(data) and word >> 8 <= self._whole_size:
                body = data[at + HEAD_SIZE : end]
                if self._window - len(body) > self._low_window:
                    self._window -= len(body)
                else:
                    self._shrink_window(len(body))
                ends = stream.remote_ended = True
                at = end
        if b"content-length" in values:
            stream.expected = _content_length(values[b"content-length"])
            _expect(stream, len(body), ends)
        streams[stream_id] = stream
        self.stats.streams += 1
        self.stats.streams_opened += 1
        stream.opened(fields, values, body, ends)
        return at

    def _on_trailers(self, stream_id: int, names: tuple[bytes, ...], ends: bool, sound: bool) -> None:
        stream = self._stream(stream_id)
        if stream is None:
            return
        if not ends:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "trailers that do not end the stream")
        check_trailers(names, sound=sound)
        if stream.expected >= 0:
            _expect(stream, 0, ends)
        stream.remote_ended = True
        stream.received(b"", True)

    def _on_data(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        length = end - start
        if self._window - length > self._low_window:
            self._window -= length
        else:
            self._shrink_window(length)
        if flags & PADDED:
            start, end = _unpadded(data, start, end, flags & PADDED)
        stream = self.streams.get(stream_id)
        if stream is None or stream.remote_ended:
            if stream_id > self.last_id or not stream_id & 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {stream_id}, which was not opened")
            stream = self._stream(stream_id)
            if stream is None:
                return
        stream.window -= length
        if stream.window < 0:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "more than the window of the stream")
        ends = bool(flags & END_STREAM)
        if stream.expected >= 0:
            _expect(stream, end - start, ends)
        if ends:
            stream.remote_ended = True
        else:
            if stream.window <= self.stream_window // 2:
                by = self.stream_window - stream.window
                stream.window = self.stream_window
                self.sender.out.append(frame(WINDOW_UPDATE, 0, stream_id, WORD.pack(by)))
            if start == end:
                self.floods.count("empty_frames", self.sender.sent)
        stream.received(data[start:end], ends)

    def _stream(self, stream_id: int) -> Stream | None:
        """The stream on which more of a request came; None if it was reset here. Raises for one that has ended."""
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id in self.recently_reset or stream_id > self.last_served:
                return None
            raise Http2Error(ErrorCode.STREAM_CLOSED, f"more on stream {stream_id}, which has ended")
        if stream.remote_ended:
            raise StreamError(ErrorCode.STREAM_CLOSED, "more of a request that has ended")
        return stream

    def _shrink_window(self, by: int) -> None:
        """Take received DATA from the connection's window, and open that again when it is half used."""
        window = self._window - by
        if window <= self._low_window:
            if window < 0:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more than the window of the connection")
            most = self.limits.connection_window
            self.sender.out.append(frame(WINDOW_UPDATE, 0, 0, WORD.pack(most - window)))
            window = most
        self._window = window


def _unpadded(data: bytes, start: int, end: int, flags: int) -> tuple[int, int]:
    """Where the payload stands, without padding; fields of a priority still before it."""
    if flags & PADDED:
        if start == end:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "no room for the length of the padding")
        end -= data[start]
        start += 1
    if end - start < (PRIORITY_SIZE if flags & PRIORITIZED else 0):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than there is frame")
    return start, end


def _content_length(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "content-length is no number")
    return int(value)


def _expect(stream: Stream, size: int, ends: bool) -> None:
    """Hold a request to its content-length."""
    stream.expected -= size
    if stream.expected < 0 or (ends and stream.expected):
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "not as long as content-length says")
