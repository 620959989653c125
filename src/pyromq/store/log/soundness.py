"""Whether the record that a queue entry names is what it should be, before it is sent to anybody.

Two kinds of damage differ in what a reader can do: a body that does not match its checksum is sent as it is, since the
frame around it holds and clients check bodies themselves; a record without a frame is left out, since no client finds
the next record behind it.
"""

from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from pyromq.protocol.records.record import RecordError, RecordSummary, check_record
from pyromq.store.log.plainrecord import MIN_SIZE, is_plain


class CrcOnRead(StrEnum):
    """Which bodies are checked when they are read. Frames of records on disk are checked in any case."""

    NEVER = "never"
    SAMPLED = "sampled"
    """All that an earlier process wrote or that is probably no longer in memory, and a sample of the others."""
    ALWAYS = "always"


SAMPLE = 64
"""Of the reads whose records this process wrote and the page cache still has, one in so many is checked."""


class Fault(NamedTuple):
    """What is wrong with a record; a `framed` one can be sent all the same."""

    reason: str
    framed: bool


def fault_of(record: memoryview, place: int, queue_offset: int | None, *, verify_crc: bool) -> Fault | None:
    """What is wrong with the record that should lie at `place` of the log and be the entry `queue_offset` of its queue.

    `record` is as long as the queue entry says; without `queue_offset` any will do.
    """
    size = len(record)
    if size >= MIN_SIZE and is_plain(record, 0, size, place, queue_offset, verify_crc):
        return None
    try:
        found = check_record(record, 0, size, verify_crc=False)
    except RecordError as error:
        return Fault(str(error), framed=False)
    if not isinstance(found, RecordSummary):
        return Fault("a file ends where a record should begin", framed=False)
    if found.size != size:
        return Fault(f"it has {found.size} bytes, its queue entry says {size}", framed=False)
    if found.physical_offset != place:
        return Fault(f"it says that it belongs to {found.physical_offset}", framed=False)
    if queue_offset is not None and found.queue_offset != queue_offset:
        return Fault(f"it says that it is message {found.queue_offset} of its queue", framed=False)
    if verify_crc and crc32(record[found.body_start : found.body_end]) & 0x7FFFFFFF != found.body_crc:
        return Fault(f"the body does not match its checksum {found.body_crc}", framed=True)
    return None
