"""What answers look like: the constant heads of those that went well, and statuses of the others.

Blocks use no table of the client's (see `http2.hpack`), so they are made once.
"""

import re
from struct import Struct
from typing import Final

from pyromq.proxy.grpc.method import GrpcStatus
from pyromq.proxy.grpc.wire import ACCEPTED, PREFIX, PREFIX_SIZE
from pyromq.proxy.http2.frames import DATA, END_HEADERS, END_STREAM, HEAD, HEADERS
from pyromq.proxy.http2.hpack import Field, encode_headers
from pyromq.proxy.http2.sender import Sender
from pyromq.proxy.http2.stream import Stream

LONGEST_TEXT: Final = 4096
"""Of a status; more is cut off."""
_HEAD_FIELDS: Final[list[Field]] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
HEAD_BLOCK: Final = encode_headers(_HEAD_FIELDS)
OK_BLOCK: Final = encode_headers([(b"grpc-status", b"0")])
_HEAD_WORD = len(HEAD_BLOCK) << 8 | HEADERS
_OK_HEAD = HEAD.pack(len(OK_BLOCK) << 8 | HEADERS, END_HEADERS | END_STREAM, 0)[:5]
_BEGINNING = Struct(f">IBI{len(HEAD_BLOCK)}sIBIBI")
"""HEADERS, then the head of DATA and the prefix of its message."""
_END = Struct(f">5sI{len(OK_BLOCK)}s")
_UNSAFE = re.compile(rb"[^ -$&-~]")


def send_answer(sender: Sender, stream: Stream, message: bytes) -> bool:
    """The whole of a unary answer that went well in one go; False if it does not fit into windows and one frame."""
    length = len(message)
    size = length + PREFIX_SIZE
    if not sender.is_plain or size > sender.max_frame or size > sender.window or size > stream.send_window:
        return False
    sender.window -= size
    sender.sent += 3
    stream_id = stream.id
    sender.out += (
        _BEGINNING.pack(_HEAD_WORD, END_HEADERS, stream_id, HEAD_BLOCK, size << 8 | DATA, 0, stream_id, 0, length),
        message,
        _END.pack(_OK_HEAD, stream_id, OK_BLOCK),
    )
    return True


def message_data(message: bytes) -> bytes:
    """A message with its prefix."""
    return PREFIX.pack(0, len(message)) + message


def status_fields(status: GrpcStatus, text: str) -> list[Field]:
    """The fields that end a call."""
    fields = [(b"grpc-status", b"%d" % status)]
    if text:
        fields.append((b"grpc-message", percent_encoded(text)))
    return fields


def trailers_block(status: GrpcStatus, text: str) -> bytes:
    """Trailers after messages."""
    return OK_BLOCK if not status and not text else encode_headers(status_fields(status, text))


def only_block(status: GrpcStatus, text: str) -> bytes:
    """Head and trailers in one, of a call that ends without a message."""
    fields = _HEAD_FIELDS + status_fields(status, text)
    if status is GrpcStatus.UNIMPLEMENTED:
        fields.append((b"grpc-accept-encoding", ACCEPTED))
    return encode_headers(fields)


def http_block(code: int, status: GrpcStatus, text: str) -> bytes:
    """The answer to a request that is not one of gRPC."""
    fields = [(b":status", b"%d" % code), (b"content-type", b"application/grpc")]
    return encode_headers([*fields, *status_fields(status, text)])


def percent_encoded(text: str) -> bytes:
    """A status text as it goes into a field: printable ASCII, the rest as %XX.

    >>> percent_encoded("50 % — so")
    b'50 %25 %E2%80%94 so'
    """
    data = text.encode("utf-8", "replace")[:LONGEST_TEXT]
    return _UNSAFE.sub(lambda match: b"%%%02X" % match.group()[0], data).strip()
