"""Every bound of an HTTP/2 connection, and the counters that tell how often each was met."""

from collections import Counter
from dataclasses import dataclass, field

from pyromq.proxy.http2.frames import LEAST_FRAME

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """Bounds of one connection, sizes in bytes. The name of the one that was hit stands in GOAWAY."""

    streams: int = 4096
    """Requests under way. Announced; one more is refused."""
    header_list: int = 64 * KIB
    """Fields of one request. Announced; a longer list ends its stream."""
    header_block: int = 64 * KIB
    """The same as it is sent, over all its frames."""
    continuations: int = 32
    """CONTINUATION frames of one request."""
    frame: int = LEAST_FRAME
    """Payload of one frame. Announced."""
    stream_window: int = 8 * MIB
    """What a client may send on one stream before it is told to go on."""
    connection_window: int = 32 * MIB
    """The same for all streams together."""
    unsent: int = 64 * MIB
    """Bytes of answers that wait for the client to open its windows."""
    recent_resets: int = 4096
    """Streams reset here of which late frames are still ignored."""
    resets: int = 1000
    """Requests given up by the client, or ended for a fault of it. This and what follows is how many there may be at
    once; a tenth of it comes back every second, and one for each frame of an answer."""
    pings: int = 1000
    settings: int = 100
    priorities: int = 2000
    window_updates: int = 20_000
    empty_frames: int = 500
    """DATA without data that ends nothing."""
    unknown_frames: int = 500
    """Frames of types that are not known; they are skipped."""


@dataclass(slots=True)
class Http2Stats:
    """Gauge first, then counters. Plain numbers, for all connections of a server."""

    streams: int = 0

    streams_opened: int = 0
    streams_refused: int = 0
    resets_received: int = 0
    resets_sent: int = 0
    header_lists_refused: int = 0
    connection_faults: int = 0
    floods: Counter[str] = field(default_factory=Counter)
    """How often a connection was ended because of one of its limits, by name."""
