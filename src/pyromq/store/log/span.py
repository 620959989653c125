"""Plain records that lie behind each other in the log, taken together: what recovery enters as one.

What is not plain ends a span, and so does a record that no queue is to have; the walk looks at those one by one.
"""

from mmap import mmap
from typing import Final
from zlib import crc32

import msgspec

from pyromq import native
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.records.record import MAGIC_V1
from pyromq.protocol.records.tags import tags_code
from pyromq.store.index.keyhash import Key, Keys
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.plainrecord import BODY, FACTS, MAX_TOPIC, MIN_SIZE

MOST: Final = 1 << 13
"""Records of a span, so that it takes little memory."""
_QUEUED = (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)

Lane = tuple[str, int, int, int, int, bytes]
"""Records of one queue with consecutive numbers: topic, queue id, number of the first, place of the first, end of the
last, queue entries."""
Gathered = tuple[int, int, int, int, list[Lane], Keys]


class Span(msgspec.Struct, gc=False):
    """So many records, from `begin` to `end` of the log; of the last one `last` is the place."""

    file: MappedFile
    begin: int
    end: int
    last: int
    timestamp: int
    count: int
    lanes: list[Lane]
    keys: Keys
    """In the order of the log: hashed ones of the core, plain ones of Python."""


def span_at(file: MappedFile, at: int, limit: int, verify_crc: bool) -> Span | None:
    """The span that begins at a position of a file and ends at or below `limit`; None when no plain record does."""
    end, last, timestamp, count, lanes, keys = gather_plain(file.raw, at, limit, file.start, verify_crc, MOST)
    return Span(file, file.start + at, file.start + end, last, timestamp, count, lanes, keys) if count else None


@native.twin
def gather_plain(raw: mmap | bytes, at: int, limit: int, start: int, verify_crc: bool, most: int) -> Gathered:
    """At most `most` plain records for consumers, from a position of a file, whose first byte is at `start`, on.

    Returns the position behind them, place and store time of the last one, how many there are, them by queues, in the
    order in which those appear, and their keys.
    """
    unpack, pack = FACTS.unpack_from, ENTRY.pack
    lanes: list[tuple[str, int, int, int, list[bytes]]] = []
    current: dict[tuple[bytes, int], int] = {}
    following: list[int] = []  # of each lane the next number
    ends: list[int] = []
    keys: list[Key] = []
    last, timestamp, count = -1, 0, 0
    with memoryview(raw) as view:
        while count < most and at + MIN_SIZE <= limit:
            size, magic, crc, queue_id, number, physical, sys_flag, stored, body_size = unpack(raw, at)
            end = at + size
            topic_at = at + BODY + body_size
            if (
                magic != MAGIC_V1
                or physical != start + at
                or sys_flag & sysflag.HOSTS_MASK
                or sys_flag & sysflag.TRANSACTION_MASK not in _QUEUED
                or end > limit
                or body_size < 0
                or topic_at + 3 > end
            ):
                break
            topic_size = raw[topic_at]
            text_at = topic_at + topic_size + 3
            if topic_size > MAX_TOPIC or text_at > end or raw[text_at - 2] << 8 | raw[text_at - 1] != end - text_at:
                break
            if verify_crc and crc32(view[at + BODY : topic_at]) & 0x7FFFFFFF != crc:
                break
            name = raw[topic_at + 1 : text_at - 2]
            lane = current.get((name, queue_id), -1)
            if lane < 0 or following[lane] != number:
                try:
                    topic = name.decode()
                except UnicodeDecodeError:
                    break
                lane = current[name, queue_id] = len(lanes)
                lanes.append((topic, queue_id, number, physical, []))
                following.append(number)
                ends.append(physical)
            topic, _, _, _, entries = lanes[lane]
            find = decode_properties(raw[text_at:end]).get
            entries.append(pack(physical, size, tags_code(find("TAGS"))))
            if unique := find("UNIQ_KEY"):
                keys.append((topic, unique, physical, stored))
            if words := find("KEYS"):
                keys += [(topic, word, physical, stored) for word in words.split(" ") if word]
            following[lane] = number + 1
            ends[lane] = physical + size
            last, timestamp, count, at = physical, stored, count + 1, end
    found = [(*lane[:4], end, b"".join(lane[4])) for lane, end in zip(lanes, ends, strict=True)]
    return at, last, timestamp, count, found, keys
