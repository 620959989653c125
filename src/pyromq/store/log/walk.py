"""Walking the log record by record: what recovery and the dispatch of replicated bytes have in common.

Tight on purpose: an abnormal start reads everything that may not have reached the disk. Records with IPv4 hosts, which
are nearly all, are taken apart here; the rest goes through `protocol.record`, which owns the layout.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import TypeVar
from zlib import crc32

import msgspec

from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, Blank, RecordError, check_record
from pyromq.store.log.damage import Damage, Stretch
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.mappedfiles import MappedFiles
from pyromq.store.log.plainrecord import BODY, FACTS, MAX_TOPIC, MIN_SIZE, PREPARED
from pyromq.store.log.resync import next_record, whereabouts
from pyromq.store.log.span import Span, span_at

T = TypeVar("T")

_MAX_TOPICS = 1 << 14
_ORIGIN = Struct(">q")
# By the bits of the system flag that say which host is an IPv6 address, twelve bytes longer.
_ORIGIN_AT = {
    born | store: PREPARED + 12 * bool(born) + 12 * bool(store)
    for born in (0, sysflag.BORN_V6)
    for store in (0, sysflag.STORE_V6)
}
_HEAD = Struct(">ii20xq")
"""Size, magic and place of a record."""


class LogRecord(msgspec.Struct, gc=False):
    """Where a record is and whose it is; its properties are read only when asked for."""

    file: MappedFile
    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties_at: int
    """Position in the file at which the text of the properties begins; it reaches to the end of the record."""
    damaged: bool = False
    """Its body does not match its checksum."""

    @property
    def origin(self) -> int:
        """Its prepared transaction offset: of which other record in the log it is the outcome, 0 for none."""
        hosts = self.sys_flag & sysflag.HOSTS_MASK
        return int(_ORIGIN.unpack_from(self.file.raw, self.offset - self.file.start + _ORIGIN_AT[hosts])[0])

    def properties(self) -> dict[str, str]:
        end = self.offset - self.file.start + self.size
        return decode_properties(self.file.raw[self.properties_at : end])


class Walker:
    """Iterates over the sound records from `start` on, file after file, up to `end` or the first that is not sound.

    With `damage`, what is not sound is noted there and stepped over as long as a sound record follows anywhere behind
    it, or `known_end` says that the log was on disk up to there. A record of which only the body is damaged is still
    given, marked as such. `growing` says that the last record may still be on its way.

    Afterwards `position` is the end of the last record (behind a blank: the start of the next file), and `fault` says
    in words why the walk ended there, None at the end of the log.
    """

    def __init__(
        self,
        files: MappedFiles,
        start: int,
        *,
        verify_crc: bool,
        end: int | None = None,
        damage: Damage | None = None,
        known_end: int = 0,
        growing: bool = False,
    ) -> None:
        self._files = files
        self._verify_crc = verify_crc
        self._end = end
        self._damage = damage
        self._growing = growing
        self._sound: int | None = -1  # the next sound record behind the damage looked at last; -1: not looked yet
        self.known_end = known_end
        self.skipped = 0
        """Bytes of damage stepped over."""
        self._topics: dict[bytes, str] = {}
        self.position = start
        self.fault: str | None = None
        self.last_timestamp = 0
        """Store time of the last record seen."""

    def __iter__(self) -> Iterator[LogRecord]:
        return self._walk(self._quickly)

    def spans(self) -> Iterator[Span | LogRecord]:
        """The same records, but those that are plain and follow each other come together."""
        return self._walk(self._together)

    def one_by_one(self, span: Span) -> Iterator[LogRecord]:
        """The records of a span that this walk has found."""
        return iter(Walker(self._files, span.begin, verify_crc=False, end=span.end))

    def _walk(self, quickly: Callable[[MappedFile, memoryview, int], Iterator[T]]) -> Iterator[T | LogRecord]:
        while True:
            file = self._files.find(self.position)
            if file is None or (self._end is not None and self.position >= self._end):
                return
            limit = file.position if self._end is None else min(file.position, self._end - file.start)
            yield from self._walk_file(file, limit, quickly)
            if self.position == file.end:
                continue
            if self._damage is None or self.position >= file.start + limit:
                return
            before = self.position
            damaged = self._step_over(file, limit, self._damage)
            if self.position == before:
                return
            if damaged is not None:
                self.last_timestamp = damaged.store_timestamp
                yield damaged

    def _walk_file(
        self, file: MappedFile, limit: int, quickly: Callable[[MappedFile, memoryview, int], Iterator[T]]
    ) -> Iterator[T | LogRecord]:
        view = file.view(0, limit)
        owned = 0
        while self.position < file.start + limit:
            if self.position - file.start >= owned:
                owned = file.owned(self.position - file.start, limit)
            yield from quickly(file, view, owned)
            at = self.position - file.start
            if at >= limit:
                return
            record = self._slowly(file, view, at, limit)
            if record is None:
                return
            self.position = record.offset + record.size
            self.last_timestamp = record.store_timestamp
            yield record

    def _quickly(self, file: MappedFile, view: memoryview, limit: int) -> Iterator[LogRecord]:
        """Plain records, up to the first that is anything else."""
        raw, start = file.raw, file.start
        verify_crc, topics = self._verify_crc, self._topics
        unpack = FACTS.unpack_from
        at = self.position - start
        while at + MIN_SIZE <= limit:
            size, magic, crc, queue_id, queue_offset, physical, sys_flag, timestamp, body_size = unpack(raw, at)
            end = at + size
            topic_at = at + BODY + body_size
            if (
                magic != MAGIC_V1
                or physical != start + at
                or sys_flag & sysflag.HOSTS_MASK
                or end > limit
                or body_size < 0
                or topic_at + 3 > end
            ):
                return
            topic_size = raw[topic_at]
            text_at = topic_at + topic_size + 3
            if topic_size > MAX_TOPIC or text_at > end:
                return
            if raw[text_at - 2] << 8 | raw[text_at - 1] != end - text_at:
                return
            if verify_crc and crc32(view[at + BODY : topic_at]) & 0x7FFFFFFF != crc:
                return
            name = raw[topic_at + 1 : text_at - 2]
            topic = topics.get(name)
            if topic is None:
                try:
                    topic = self._topic(name)
                except UnicodeDecodeError:
                    return
            self.position = start + end
            self.last_timestamp = timestamp
            yield LogRecord(file, physical, size, topic, queue_id, queue_offset, sys_flag, timestamp, text_at)
            at = end

    def _together(self, file: MappedFile, _view: memoryview, limit: int) -> Iterator[Span]:
        """What `_quickly` gives, as spans."""
        while (span := span_at(file, self.position - file.start, limit, self._verify_crc)) is not None:
            self.position = span.end
            self.last_timestamp = span.timestamp
            yield span

    def _slowly(self, file: MappedFile, view: memoryview, at: int, limit: int) -> LogRecord | None:
        """What is at a place where no plain record is: another kind of record, the end of the file, or nothing."""
        data, begin, end = whereabouts(file, view, at, limit)
        try:
            found = check_record(data, begin, end, verify_crc=self._verify_crc)
        except RecordError as error:
            torn = "" if data is view else f"what begins at {at} ends in a hole: "
            self.fault = torn + str(error) if any(data[begin : begin + 8]) else None
            return None
        if isinstance(found, Blank):
            if limit == file.size:  # otherwise its filler has not all arrived: the walk goes on from here then
                self.position = file.end
            return None
        if found.physical_offset != file.start + at:
            self.fault = f"the record at {file.start + at} says it belongs to {found.physical_offset}"
            return None
        text_at = at + found.size - len(found.properties)
        return LogRecord(
            file,
            found.physical_offset,
            found.size,
            found.topic,
            found.queue_id,
            found.queue_offset,
            found.sys_flag,
            found.store_timestamp,
            text_at,
        )

    def _step_over(self, file: MappedFile, limit: int, damage: Damage) -> LogRecord | None:
        """Move behind what is not sound, if it is more than a torn end; returns the record that it may still be."""
        begin, at = self.position, self.position - file.start
        view = file.view(0, limit)
        if self._growing and _is_unfinished(file, view, at, limit):
            return None
        record = self._with_bad_body(file, view, at, limit)
        after = record.offset + record.size if record is not None else begin + 1
        sound = self._next_sound(after)
        reason = self.fault or "zeros"
        if record is not None and (sound is not None or after <= self.known_end):
            self.position = after
            found = Stretch(begin, after, reason, record.topic, record.queue_id, record.queue_offset)
        elif sound is not None or begin < self.known_end:
            self.position = sound if sound is not None else self.known_end
            record, found = None, Stretch(begin, self.position, reason)
        else:
            return None
        self.fault = None
        self.skipped += self.position - begin
        damage.add(found)
        return record

    def _with_bad_body(self, file: MappedFile, view: memoryview, at: int, limit: int) -> LogRecord | None:
        verify, fault = self._verify_crc, self.fault
        self._verify_crc = False
        try:
            record = self._slowly(file, view, at, limit)
        finally:
            self._verify_crc, self.fault = verify, fault
        if record is not None:
            record.damaged = True
        return record

    def _next_sound(self, begin: int) -> int | None:
        """The first sound record at or after an offset, looked for once for all the damage before it."""
        if self._sound is not None and self._sound < begin:
            self._sound = next_record(self._files, begin, self._end)
        return self._sound

    def _topic(self, name: bytes) -> str:
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        topic = self._topics[name] = name.decode()
        return topic


def _is_unfinished(file: MappedFile, view: memoryview, at: int, limit: int) -> bool:
    """Whether the last of bytes that still arrive may be the beginning of a record: then the rest will come."""
    if at + _HEAD.size > limit:
        return True
    size, magic, place = _HEAD.unpack_from(view, at)
    if magic == MAGIC_BLANK:
        return True
    return magic in (MAGIC_V1, MAGIC_V2) and place == file.start + at and limit < at + size <= file.size
