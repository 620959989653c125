"""Recall handles: what a broker gives out for a delayed message so that its producer can take it back.

URL-safe base64 of `v1 topic brokerName deliverMs uniqueId`, separated by blanks.
"""

import base64

import msgspec

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError

_VERSION = "v1"
# Longer than any topic, broker name, time and id together.
_MAX_LENGTH = 4096


class RecallHandle(msgspec.Struct, frozen=True):
    """Which message, and when it would have been delivered (milliseconds)."""

    topic: str
    broker_name: str
    deliver_time: int
    unique_id: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """The text form. Raises ValidationError for names that would not survive it."""
    parts = (handle.topic, handle.broker_name, handle.unique_id)
    if not all(parts) or any(" " in part for part in parts):
        raise ValidationError(f"no recall handle can be made of {handle}", ResponseCode.INVALID_PARAMETER)
    text = f"{_VERSION} {handle.topic} {handle.broker_name} {handle.deliver_time} {handle.unique_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Read a handle. Raises ValidationError (ILLEGAL_OPERATION) for anything that is none.

    >>> decode_recall_handle("djEgVCBiIDEgaWQ=")
    RecallHandle(topic='T', broker_name='b', deliver_time=1, unique_id='id')
    """
    try:
        raw = base64.b64decode(text[:_MAX_LENGTH] + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        version, topic, broker_name, deliver_time, unique_id = raw.decode().split(" ")
    except ValueError as error:
        raise _invalid(text, str(error)) from None
    if version != _VERSION:
        raise _invalid(text, f"version {version!r} is not known")
    if not (topic and broker_name and unique_id and deliver_time.isdecimal()):
        raise _invalid(text, "a part is empty or the time is no number")
    return RecallHandle(topic, broker_name, int(deliver_time), unique_id)


def _invalid(text: str, why: str) -> ValidationError:
    return ValidationError(f"invalid recall handle {text[:80]!r}: {why}", ResponseCode.ILLEGAL_OPERATION)
