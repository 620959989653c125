"""What the fields of a request mean to gRPC: which method, how long the caller waits, how messages are packed."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from pyromq.proxy.grpc.method import GrpcError, GrpcStatus
from pyromq.proxy.http2.hpack import Field
from pyromq.proxy.http2.stream import Values

CONTENT_TYPE: Final = b"application/grpc"
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_DIGITS = 8

_names: dict[bytes, str] = {}
"""Names of metadata that were seen, as text."""
_MOST_NAMES = 1024
_LONGEST_NAME = 64


def http_refusal(values: Values) -> tuple[int, str] | None:
    """The HTTP status, and why, of a request that is not one of gRPC; None if it is."""
    if values[b":method"] != b"POST":
        return 405, "gRPC calls are POST requests"
    content_type = values.get(b"content-type", b"")
    if content_type == CONTENT_TYPE:
        return None
    if content_type.startswith(CONTENT_TYPE) and content_type[len(CONTENT_TYPE)] in b"+;":
        return None
    return 415, f"content-type is {content_type.decode('latin-1')!r}, not application/grpc"


def timeout(value: bytes) -> float:
    """Seconds of a grpc-timeout. Raises GrpcError.

    >>> timeout(b"1500m")
    1.5
    """
    unit = _UNITS.get(value[-1:])
    digits = value[:-1]
    if unit is None or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        raise GrpcError(GrpcStatus.INTERNAL, f"grpc-timeout is {value.decode('latin-1')!r}")
    return int(digits) * unit


def is_gzip(encoding: bytes) -> bool:
    """Whether compressed messages of the call are gzip. Raises GrpcError for what cannot be unpacked here."""
    if encoding not in (b"identity", b"gzip"):
        raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"grpc-encoding {encoding.decode('latin-1')} is not supported")
    return encoding == b"gzip"


def metadata(fields: Sequence[Field]) -> Mapping[str, str]:
    """The fields that are not HTTP's own. Repeated ones are joined with commas; those named `-bin` are Latin-1 text of
    the bytes they stand for, or of what came if that is not base64."""
    first = 0
    while first < len(fields) and fields[first][0].startswith(b":"):
        first += 1
    try:
        found = {_names[name]: value.decode("ascii") for name, value in fields[first:]}
    except (KeyError, UnicodeDecodeError):
        return _any_metadata(fields[first:])
    return found if len(found) == len(fields) - first else _any_metadata(fields[first:])


def _any_metadata(fields: Sequence[Field]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in fields:
        key = name.decode("ascii")
        if key.endswith("-bin"):
            text = _decoded(value).decode("latin-1")
        else:
            text = value.decode("latin-1")
            if len(_names) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
                _names[name] = key
        found[key] = f"{found[key]},{text}" if key in found else text
    return found


def _decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return value
