"""One stream as HTTP/2 sees it. Who serves requests derives from it, and is called as the request comes in.

`window` is what the peer may still send, `send_window` what it still takes; `queue` holds DATA that waits for that.
"""

from collections import deque
from typing import TYPE_CHECKING

from pyromq.proxy.http2.hpack import Field

if TYPE_CHECKING:
    from pyromq.proxy.http2.connection import Connection

Values = dict[bytes, bytes]
"""The fields of a request by name, the last of each."""


class Stream:
    """The state of one stream. None of the calls may raise."""

    __slots__ = (
        "expected",
        "http2",
        "id",
        "local_ended",
        "queue",
        "queued",
        "remote_ended",
        "send_window",
        "tail",
        "window",
    )

    def __init__(self, http2: "Connection", stream_id: int) -> None:
        self.http2 = http2
        self.id = stream_id
        self.window = http2.stream_window
        self.send_window = http2.sender.initial_window
        self.remote_ended = False
        self.local_ended = False
        self.expected = -1
        self.queue: deque[bytes | memoryview] | None = None
        self.queued = 0
        self.tail: bytes | None = None

    def opened(self, fields: list[Field], values: Values, data: bytes, ended: bool) -> None:
        """The request began, with what data came along; `ended` when there is no more."""

    def received(self, data: bytes, ended: bool) -> None:
        """More of the request."""

    def aborted(self) -> None:
        """The stream is gone: reset by either side for a fault, or cut off with its connection."""

    def writable(self) -> None:
        """Some of what was queued has gone out."""
