"""What a slave checks before it writes: whole records, in their place, with the right checksum.

A master cuts its blocks anywhere, so the beginning of a record waits here until the rest has come. Invariant: what
`take` returns ends where a record ends, or within the filler behind the last record of a file.

A body that comes damaged is asked for again. When it comes the same way a second time, it is damaged on the master: it
is taken as it is and noted, or nothing behind it would ever be copied.
"""

import logging
from struct import Struct
from zlib import crc32

from pyromq.protocol.errors import MessageError
from pyromq.protocol.records.record import MAGIC_BLANK, RecordError, RecordSummary, check_record
from pyromq.store.log.damage import Damage, Stretch
from pyromq.store.log.plainrecord import MIN_SIZE, is_plain, pass_plain

log = logging.getLogger(__name__)

MAX_RECORD = 64 << 20
_HEAD = Struct(">ii")


class Suspect:
    """The last record whose body came damaged, for the next time it comes; outlives connections."""

    def __init__(self, damage: Damage) -> None:
        self._damage = damage
        self._seen: tuple[int, int] | None = None

    def is_the_masters(self, record: memoryview, place: int, found: RecordSummary, reason: str) -> bool:
        """Whether this very damage came before."""
        seen = (place, crc32(record))
        if self._seen != seen:
            self._seen = seen
            return False
        stretch = Stretch(place, place + found.size, reason, found.topic, found.queue_id, found.queue_offset)
        log.error("the master's record at %d (%s) is damaged there: copied as it is", place, stretch.place)
        self._damage.add(stretch)
        return True


class RecordStream:
    """Checks the bytes of a log from `position` on, which is where a record begins."""

    def __init__(self, position: int, file_size: int, suspect: Suspect | None = None) -> None:
        self._suspect = suspect
        self.position = position
        """Everything below was handed out."""
        self._file_size = file_size
        self._pending = bytearray()
        self._filler = 0

    @property
    def end(self) -> int:
        """Where the next bytes belong."""
        return self.position + len(self._pending)

    def take(self, data: bytes) -> bytes:
        """Add bytes; returns those, from `position` on, that may be written. Raises MessageError.

        What was sound before a fault is lost with it: the caller starts over from what it has written.
        """
        pending = self._pending
        pending += data
        size = self._sound()
        self.position += size
        sound = bytes(memoryview(pending)[:size])
        del pending[:size]
        return sound

    def _sound(self) -> int:
        """How many of the pending bytes are whole records or filler."""
        pending = self._pending
        limit = len(pending)
        at = 0
        with memoryview(pending) as view:
            while at < limit:
                if self._filler:
                    skipped = min(self._filler, limit - at)
                    self._filler -= skipped
                    at += skipped
                    continue
                room = self._file_size - (self.position + at) % self._file_size
                end = min(limit, at + room - _HEAD.size)
                if at < (sound := pass_plain(view, at, end, self.position, MAX_RECORD)):
                    at = sound
                    continue
                size = self._record(view, at, limit)
                if not size:
                    break
                at += size
        return at

    def _record(self, view: memoryview, at: int, limit: int) -> int:
        """The size of the record at a place, 0 when it is not complete. A blank counts its head; filler follows."""
        left = limit - at
        if left < _HEAD.size:
            return 0
        size, magic = _HEAD.unpack_from(view, at)
        place = self.position + at
        room = self._file_size - place % self._file_size
        if magic == MAGIC_BLANK:
            if size != room:
                raise MessageError(
                    f"the file ends after {size} bytes at {place}, here it has {room} left: "
                    "mappedFileSizeCommitLog must be what the master has"
                )
            self._filler = size - _HEAD.size
            return _HEAD.size
        if not MIN_SIZE <= size <= min(room - _HEAD.size, MAX_RECORD):
            raise MessageError(f"no record begins at {place}: {size} bytes where {room} are left in the file")
        if size > left:
            return 0
        if not is_plain(view, at, size, place):
            self._check(view, at, size, place)
        return int(size)

    def _check(self, view: memoryview, at: int, size: int, place: int) -> None:
        try:
            found = check_record(view, at, at + size, verify_crc=False)
        except RecordError as error:
            raise MessageError(f"the record for {place} is damaged: {error}") from error
        physical = getattr(found, "physical_offset", -1)
        if physical != place or not isinstance(found, RecordSummary):
            raise MessageError(f"the record for {place} says it belongs to {physical}")
        if crc32(view[found.body_start : found.body_end]) & 0x7FFFFFFF == found.body_crc:
            return
        reason = f"the body does not match its checksum {found.body_crc}"
        with view[at : at + size] as record:
            if self._suspect is None or not self._suspect.is_the_masters(record, place, found, reason):
                raise MessageError(f"the record for {place} is damaged: {reason}; it is asked for again")
