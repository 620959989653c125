"""The rules for the fields of a request (RFC 9113, 8.2 and 8.3).

Clients send the same names in the same order again and again, so lists of names that were found good are remembered, as
are the pseudo-header fields that begin a request. What values look like the decoder has found out.
"""

import re

from pyromq.proxy.http2.frames import ErrorCode, StreamError
from pyromq.proxy.http2.hpack import Field
from pyromq.proxy.http2.stream import Values

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_PSEUDO = (b":method", b":scheme", b":path", b":authority")
_NEEDED = frozenset(_PSEUDO[:3])
_OF_CONNECTIONS = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_UNSOUND = "a field value with a line break, NUL, or space at an end"
_TE = "te other than trailers"
_REMEMBERED = 1024
_LONGEST = 256
"""Of the pseudo-header fields that are remembered."""
_MOST_NAMES = 64
"""Of a list that is remembered."""

_known_names: set[tuple[bytes, ...]] = set()
_known_heads: set[tuple[Field, ...]] = set()


def check_request(fields: list[Field], names: tuple[bytes, ...], *, sound: bool) -> Values:
    """The values of a request by name, the last where there are several. Raises StreamError for what is malformed.

    `names` and `sound` are what the decoder says of the fields.
    """
    head = tuple(fields[: len(_PSEUDO)])
    count = len(_PSEUDO) if head in _known_heads else _check_head(fields)
    if names not in _known_names:
        _check_names(fields, names, count)
    if not sound:
        raise _malformed(_UNSOUND)
    values = dict(fields)
    if values.get(b"te", b"trailers") != b"trailers":
        raise _malformed(_TE)
    return values


def check_trailers(names: tuple[bytes, ...], *, sound: bool) -> None:
    """Raise StreamError for trailers that are malformed."""
    for name in names:
        _check_name(name)
    if not sound:
        raise _malformed(_UNSOUND)


def _check_head(fields: list[Field]) -> int:
    """Check the pseudo-header fields; how many they are."""
    found: list[bytes] = []
    for name, value in fields:
        if not name.startswith(b":"):
            break
        if name not in _PSEUDO:
            raise _malformed(f"unknown pseudo-header field {_text(name)}")
        if name in found:
            raise _malformed(f"{_text(name)} twice")
        if not value and name != b":authority":
            raise _malformed(f"an empty {_text(name)}")
        if not value.isascii() or not value.decode().isprintable() or value.strip() != value:
            raise _malformed(f"{_text(name)} is no text")
        found.append(name)
    if not _NEEDED.issubset(found):
        raise _malformed("no " + ", ".join(sorted(_text(name) for name in _NEEDED.difference(found))))
    count = len(found)
    if count == len(_PSEUDO) and sum(len(value) for _, value in fields[:count]) <= _LONGEST:
        if len(_known_heads) >= _REMEMBERED:
            _known_heads.clear()
        _known_heads.add(tuple(fields[:count]))
    return count


def _check_names(fields: list[Field], names: tuple[bytes, ...], count: int) -> None:
    """Check those behind the pseudo-header fields, of which there are so many."""
    for name in names[count:]:
        _check_name(name)
    if names.count(b"te") > 1:
        # Of the values, only the last is looked at elsewhere.
        if any(name == b"te" and value != b"trailers" for name, value in fields):
            raise _malformed(_TE)
    elif len(names) <= _MOST_NAMES:
        if len(_known_names) >= _REMEMBERED:
            _known_names.clear()
        _known_names.add(names)


def _check_name(name: bytes) -> None:
    if not _NAME.fullmatch(name):
        what = "pseudo-header field behind others" if name.startswith(b":") else "field name"
        raise _malformed(f"{what}: {_text(name)!r}")
    if name in _OF_CONNECTIONS:
        raise _malformed(f"{_text(name)} belongs to HTTP/1.1 connections")


def _malformed(what: str) -> StreamError:
    return StreamError(ErrorCode.PROTOCOL_ERROR, f"malformed request: {what}")


def _text(name: bytes) -> str:
    return name[:64].decode("latin-1")
