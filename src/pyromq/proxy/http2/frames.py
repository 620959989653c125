"""The layout of frames (RFC 9113, 4.1 and 6): types, flags, settings, error codes, and how a frame is packed.

    length 24 | type 8 | flags 8 | reserved 1, stream 31 | payload

Types, flags and settings are plain numbers, since they are compared for every frame.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from pyromq.errors import PyroMQError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20
"""The flag that RFC 9113 calls PRIORITY too: five bytes of a scheme nobody uses stand before the fields."""

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

LAST_STREAM: Final = 0x7FFFFFFF
MAX_WINDOW: Final = 0x7FFFFFFF
DEFAULT_WINDOW: Final = 65_535
LEAST_FRAME: Final = 16_384
"""What everybody takes in one frame, and what holds until settings say more."""
MOST_FRAME: Final = 16_777_215

HEAD: Final = Struct(">IBI")
"""Length and type in one number, flags, stream."""
HEAD_SIZE: Final = HEAD.size
WORD: Final = Struct(">I")
SETTING: Final = Struct(">HI")


class ErrorCode(IntEnum):
    """Why a stream or a connection ended (RFC 9113, 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Http2Error(PyroMQError):
    """The peer broke a rule, or a bound, that ends the whole connection."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class StreamError(PyroMQError):
    """The peer broke a rule that ends one stream."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame.

    >>> frame(PING, ACK, 0, bytes(8)).hex()
    '0000080601000000000000000000000000'
    """
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def settings_frame(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*each) for each in values.items()))


def goaway_frame(last_stream: int, code: int, reason: str) -> bytes:
    """A GOAWAY frame, with the reason for whoever looks at the other side."""
    return frame(GOAWAY, 0, 0, WORD.pack(last_stream) + WORD.pack(code) + reason.encode())
