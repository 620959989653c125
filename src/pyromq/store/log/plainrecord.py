"""The plain record: IPv4 hosts and a topic of at most 127 bytes, which nearly all records are.

`protocol.record` owns the layout and does all the others. The hot loops of the store, appending, walking and checking,
spell out this one case; tests hold them against `protocol.record`.

  0 size 4 · 4 magic 4 · 8 body CRC 4 · 12 queue id 4 · 16 flag 4 · 20 queue offset 8 · 28 physical offset 8
  36 system flag 4 · 40 born time 8 · 48 born host 8 · 56 store time 8 · 64 store host 8 · 72 reconsume times 4
  76 prepared transaction offset 8 · 84 body length 4 · 88 body · topic length 1 · topic · properties length 2
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from pyromq import native
from pyromq.protocol.records.record import MAGIC_V1
from pyromq.protocol.records.sysflag import HOSTS_MASK

PREFIX: Final = Struct(">5i2qiq8sq8siqi")
"""Everything before the body, in the order above."""
FACTS: Final = Struct(">3ii4x2qi16xq20xi")
"""Size, magic, body CRC, queue id, queue offset, physical offset, system flag, store time, body length."""
PROPERTIES_LENGTH: Final = Struct(">h")
BODY: Final = PREFIX.size
PREPARED: Final = 76
MIN_SIZE: Final = BODY + 1 + PROPERTIES_LENGTH.size
MAX_TOPIC: Final = 127

_unpack_facts = FACTS.unpack_from
_unpack_size = Struct(">i").unpack_from


def is_plain(
    view: memoryview, at: int, size: int, place: int, queue_offset: int | None = None, verify_crc: bool = True
) -> bool:
    """Whether a sound plain record of `size` bytes, for `place` of the log, is at a position of the view.

    False means that a closer look is needed, not that it is damaged. Meant to be called positionally.
    """
    found_size, magic, crc, _, number, physical, sys_flag, _, body_size = _unpack_facts(view, at)
    topic_at = at + BODY + body_size
    end = at + size
    if found_size != size or magic != MAGIC_V1 or physical != place or sys_flag & HOSTS_MASK:
        return False
    if (queue_offset is not None and number != queue_offset) or body_size < 0 or topic_at + 3 > end:
        return False
    text_at = topic_at + view[topic_at] + 3
    if text_at > end or view[text_at - 2] << 8 | view[text_at - 1] != end - text_at:
        return False
    checksum: int = crc
    return not verify_crc or crc32(view[at + BODY : topic_at]) & 0x7FFFFFFF == checksum


@native.twin
def are_plain(
    view: memoryview, places: Sequence[int], sizes: Sequence[int], queue_offset: int, verify_crc: bool
) -> bool:
    """Whether the view holds sound plain records back to back, for these places of the log, numbered from an offset on.

    What `is_plain` does, for many: a reader may have to check all that it sends.
    """
    unpack, at = _unpack_facts, 0
    for place, size in zip(places, sizes, strict=True):
        found_size, magic, crc, _, number, physical, sys_flag, _, body_size = unpack(view, at)
        end = at + size
        body_at = at + BODY
        topic_at = body_at + body_size
        if (
            found_size != size
            or physical != place
            or number != queue_offset
            or magic != MAGIC_V1
            or sys_flag & HOSTS_MASK
            or not body_at <= topic_at <= end - 3
        ):
            return False
        text_at = topic_at + view[topic_at] + 3
        if text_at > end or view[text_at - 2] << 8 | view[text_at - 1] != end - text_at:
            return False
        if verify_crc and crc32(view[body_at:topic_at]) & 0x7FFFFFFF != crc:
            return False
        at = end
        queue_offset += 1
    return True


@native.twin
def pass_plain(view: memoryview, at: int, limit: int, place: int, largest: int) -> int:
    """The position behind the sound plain records that begin at `at` of a view whose first byte is for `place`.

    None of them is larger than `largest` or ends behind `limit`.
    """
    while at + MIN_SIZE <= limit:
        size: int = _unpack_size(view, at)[0]
        if not MIN_SIZE <= size <= largest or at + size > limit or not is_plain(view, at, size, place + at):
            break
        at += size
    return at
