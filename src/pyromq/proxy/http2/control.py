"""The part of a connection that does not carry requests: settings, windows, pings, resets, and how things end.

Invariant: what ends a stream, on either side, passes `_remove` once, so that `streams`, the counters and what waits to
be sent agree.
"""

from collections.abc import Callable

from pyromq.proxy.http2.floods import Floods
from pyromq.proxy.http2.frames import (
    ACK,
    ENABLE_PUSH,
    GOAWAY,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    LAST_STREAM,
    LEAST_FRAME,
    MAX_FRAME_SIZE,
    MAX_WINDOW,
    MOST_FRAME,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    Http2Error,
    StreamError,
    frame,
    goaway_frame,
)
from pyromq.proxy.http2.hpack import DEFAULT_TABLE_SIZE
from pyromq.proxy.http2.limits import Http2Limits, Http2Stats
from pyromq.proxy.http2.sender import Sender
from pyromq.proxy.http2.stream import Stream

PING_SIZE = 8
UPDATES_PER_FRAME = 4
"""Of ours; some clients open both windows again after each."""
DRAIN_PING = b"draining"
_SETTINGS_ACK = frame(SETTINGS, ACK, 0)


class Control:
    """State of a connection that both its halves need. `last_id` is the newest stream, `last_served` the last that is
    served although the connection is to end."""

    __slots__ = (
        "closed",
        "floods",
        "last_id",
        "last_served",
        "limits",
        "peer_leaves",
        "recently_reset",
        "sender",
        "stats",
        "streams",
    )

    def __init__(self, limits: Http2Limits, stats: Http2Stats, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.stats = stats
        self.floods = Floods(limits, stats, clock)
        self.sender = Sender(self.answered, limits.unsent, self._overflow)
        self.streams: dict[int, Stream] = {}
        self.recently_reset: dict[int, None] = {}
        self.last_id = 0
        self.last_served = LAST_STREAM
        self.peer_leaves = False
        self.closed = False

    @property
    def is_settled(self) -> bool:
        """Whether no more streams are served than were opened."""
        return self.last_served != LAST_STREAM

    # How things end.

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream from this side, at once."""
        if stream.id in self.streams:
            self._remove(stream)
            self._send_reset(stream.id, code)

    def refuse(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream for a fault of the peer. Raises Http2Error when it makes too many, or none was opened."""
        if stream_id > self.last_id:
            raise Http2Error(code, f"on stream {stream_id}, which was not opened")
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._remove(stream)
            stream.aborted()
        self._send_reset(stream_id, code)
        self.floods.count("resets", self.sender.sent)

    def fail(self, code: ErrorCode, reason: str) -> None:
        """End the connection; all streams are gone."""
        if self.closed:
            return
        self.closed = True
        if code is not ErrorCode.NO_ERROR:
            self.stats.connection_faults += 1
        self.sender.out.append(goaway_frame(min(self.last_id, self.last_served), code, reason))
        self.abandon()

    def abandon(self) -> None:
        """Tell all streams that they are gone; nothing can be sent any more."""
        self.closed = True
        for stream in tuple(self.streams.values()):
            self._remove(stream)
            stream.aborted()

    def drain(self) -> None:
        """Ask the peer to open no more streams; `last_served` is settled when it has heard that."""
        if not self.closed:
            self.sender.out += (goaway_frame(LAST_STREAM, ErrorCode.NO_ERROR, ""), frame(PING, 0, 0, DRAIN_PING))

    def settle(self) -> None:
        """Serve no stream that was not opened by now."""
        if not self.closed and not self.is_settled:
            self.last_served = self.last_id
            self.sender.out.append(goaway_frame(self.last_id, ErrorCode.NO_ERROR, ""))

    def answered(self, stream: Stream) -> None:
        """The last of an answer is on its way."""
        stream.local_ended = True
        self._remove(stream)
        if not stream.remote_ended:
            # What comes of the rest is ignored. A reset may follow an answer (RFC 9113, 8.1), but not every client
            # takes it well: Rust's tries the call again for ever.
            self._note_reset(stream.id)

    def _remove(self, stream: Stream) -> None:
        if self.streams.pop(stream.id, None) is not None:
            self.stats.streams -= 1
            if stream.queue:
                self.sender.forget(stream)

    def _note_reset(self, stream_id: int) -> None:
        recent = self.recently_reset
        recent[stream_id] = None
        if len(recent) > self.limits.recent_resets:
            del recent[next(iter(recent))]

    def _send_reset(self, stream_id: int, code: ErrorCode) -> None:
        self._note_reset(stream_id)
        self.stats.resets_sent += 1
        self.sender.out.append(frame(RST_STREAM, 0, stream_id, WORD.pack(code)))

    def _overflow(self) -> None:
        self.stats.floods["unsent"] += 1
        self.fail(ErrorCode.ENHANCE_YOUR_CALM, "limit unsent")

    # Frames.

    def on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """One frame that carries no request. Raises Http2Error or StreamError."""
        if kind == WINDOW_UPDATE:
            self._on_window_update(stream_id, payload)
        elif kind == PING:
            self._on_ping(flags, stream_id, payload)
        elif kind == RST_STREAM:
            self._on_reset(stream_id, payload)
        elif kind == SETTINGS:
            self._on_settings(flags, stream_id, payload)
        elif kind == PRIORITY:
            self._on_priority(stream_id, payload)
        elif kind == GOAWAY:
            _check_connection_frame("GOAWAY", stream_id, len(payload) >= 2 * WORD.size)
            self.peer_leaves = True
        elif kind == PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")
        else:
            self.floods.count("unknown_frames", self.sender.sent)

    def _on_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != WORD.size:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE has four bytes")
        self.floods.count("window_updates", UPDATES_PER_FRAME * self.sender.sent)
        by = WORD.unpack(payload)[0] & MAX_WINDOW
        if not stream_id:
            if not by:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self.sender.open_window(by)
            return
        self._check_opened("WINDOW_UPDATE", stream_id)
        stream = self.streams.get(stream_id)
        if stream is not None:
            if not by:
                raise StreamError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self.sender.open_stream_window(stream, by)

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _check_connection_frame("PING", stream_id, len(payload) == PING_SIZE)
        self.floods.count("pings", self.sender.sent)
        if not flags & ACK:
            self.sender.out.append(frame(PING, ACK, 0, payload))
        elif payload == DRAIN_PING:
            self.settle()

    def _on_reset(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != WORD.size:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM has four bytes")
        self._check_opened("RST_STREAM", stream_id)
        stream = self.streams.get(stream_id)
        self.stats.resets_received += 1
        self.floods.count("resets", self.sender.sent)
        if stream is not None:
            self._remove(stream)
            stream.aborted()

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        acks = bool(flags & ACK)
        _check_connection_frame("SETTINGS", stream_id, len(payload) % SETTING.size == 0 and not (acks and payload))
        self.floods.count("settings", 0)
        if acks:
            return
        # Before the data that larger windows let go: for the peer they hold once it has this.
        self.sender.out.append(_SETTINGS_ACK)
        for name, value in SETTING.iter_unpack(payload):
            if name == INITIAL_WINDOW_SIZE:
                self._resize_windows(value)
            elif name == MAX_FRAME_SIZE:
                if not LEAST_FRAME <= value <= MOST_FRAME:
                    raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_MAX_FRAME_SIZE {value}")
                self.sender.max_frame = value
            elif name == HEADER_TABLE_SIZE:
                # Nothing is ever put into the table; the peer wants to be told so if it made that smaller.
                self.sender.is_plain = self.sender.is_plain and value >= DEFAULT_TABLE_SIZE
            elif name == ENABLE_PUSH and value > 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_ENABLE_PUSH {value}")

    def _resize_windows(self, initial: int) -> None:
        if initial > MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"SETTINGS_INITIAL_WINDOW_SIZE {initial}")
        by = initial - self.sender.initial_window
        self.sender.initial_window = initial
        for stream in tuple(self.streams.values()):
            try:
                self.sender.open_stream_window(stream, by)
            except StreamError as fault:  # for settings it is one of the connection (RFC 9113, 6.9.2)
                raise Http2Error(fault.code, str(fault)) from fault

    def _on_priority(self, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self.floods.count("priorities", self.sender.sent)
        if len(payload) != WORD.size + 1:
            raise StreamError(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY has five bytes")

    def _check_opened(self, what: str, stream_id: int) -> None:
        if not stream_id & 1 or stream_id > self.last_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"{what} on stream {stream_id}, which was not opened")


def _check_connection_frame(what: str, stream_id: int, is_sized: bool) -> None:
    if stream_id:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"{what} on stream {stream_id}")
    if not is_sized:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"the size of {what}")
