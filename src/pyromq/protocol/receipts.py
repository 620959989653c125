"""Receipts: the answers that clients get to sends, cut out of a read together, without a `Command` for each.

Only plain ones: SUCCESS, in a JSON header, without a body, for a single message that was not delayed. Whatever else is
in a stream is left to `protocol.frame`, as it would read all of it.
"""

import struct
from typing import Annotated

import msgspec

from pyromq import native
from pyromq.protocol.headers.base import Header, Int, Long

Receipt = tuple[int, str, int, int, str | None, str | None, bool, int]
"""Opaque, message id, queue id, queue offset, transaction id, region, whether it is traced; where its frame begins."""

_MAX_HEADER = 1024 * 1024
_unpack_words = struct.Struct(">II").unpack_from


class ReceiptHeader(Header, kw_only=True):
    """`SendMessageResponseHeader` with the trace switch as text, which every answer carries: quicker to read."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")


class _Head(msgspec.Struct, gc=False):
    """As `protocol.frame` reads it, but for the values that make it a plain receipt."""

    code: Annotated[int, msgspec.Meta(ge=0, le=0)]
    flag: Annotated[int, msgspec.Meta(ge=1, le=1)]
    opaque: Int
    ext: ReceiptHeader = msgspec.field(name="extFields")
    version: Int = 0
    language: str | int | None = None
    remark: str | None = None


_decode = msgspec.json.Decoder(_Head, strict=False).decode


@native.twin
def cut_receipts(stream: bytes, position: int, max_frame: int) -> tuple[int, list[Receipt]]:
    """The receipts that begin at a position of a stream of frames, and where they end.

    They end at the first frame that is not complete or no plain receipt; the core may find one less plain.
    """
    receipts: list[Receipt] = []
    size = len(stream)
    while size - position >= 8:
        length, header = _unpack_words(stream, position)
        # A zero in the top byte says JSON, and what follows the header would be a body.
        if header + 4 != length or header > _MAX_HEADER or length > max_frame - 4 or position + 4 + length > size:
            break
        text = stream[position + 8 : position + 8 + header]
        if b'"msgId"' not in text:
            break
        try:
            head = _decode(text)
        except (ValueError, RecursionError):
            break
        ext = head.ext
        if ext.batch_uniq_id is not None or ext.recall_handle is not None:
            break
        traced = ext.trace_on != "false"
        receipts.append(
            (head.opaque, ext.msg_id, ext.queue_id, ext.queue_offset, ext.transaction_id, ext.region, traced, position)
        )
        position += 8 + header
    return position, receipts
