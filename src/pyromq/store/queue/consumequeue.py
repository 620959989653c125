"""One consume queue (S-09): 20-byte entries that say where in the log the messages of a topic's queue are.

The newest entries are kept in memory, the part of them not yet written is handed to the files when it has grown or at a
flush. Nothing here is irreplaceable: what a crash takes, recovery enters again from the log. Invariant: entry i is the
message with queue offset i; physical offsets grow along the queue, apart from filler entries, which are no messages.
"""

import logging
import struct
from collections.abc import Callable
from pathlib import Path

from pyromq import native
from pyromq.disk import Bytes
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.store.errors import StoreFormatError, ensure
from pyromq.store.queue.files import Descriptors, QueueFiles, sync_files
from pyromq.store.queue.offsettime import FILLER_SIZE

log = logging.getLogger(__name__)

Entry = tuple[int, int, int]
"""Physical offset and size of the record, tag code."""

_pack = ENTRY.pack
_PLACE = struct.Struct(">qi8x")
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)
_MAX_TAIL = 256 * ENTRY_SIZE  # bytes kept in memory; half of them after they were written
_AHEAD = 256  # entries read at a time for consumers, who want the next ones soon
_CHUNK = 1024  # entries read at a time when searching
_MAX_OFFSET = (1 << 63) // ENTRY_SIZE
_MAX_FILLERS = 1 << 16  # written at a time


@native.twin
def sound_entries(data: Bytes, last: int) -> tuple[int, int, int]:
    """How many entries at the beginning of `data` are sound: fillers, or records whose places grow from `last` on.

    Also place and size of the last record among them; `last` and 0 if there is none.
    """
    count = length = 0
    for place, size in _PLACE.iter_unpack(data):
        if size != FILLER_SIZE or place:
            if size <= 0 or place <= last:
                break
            last, length = place, size
        count += 1
    return count, last, length


class ConsumeQueue:
    """The entries [min_offset, max_offset) of one queue.

    `max_physical_offset` is the end of the record of the last entry, -1 without any. `unsynced` counts bytes written
    since the last sync was prepared.
    """

    __slots__ = (
        "_files",
        "_first_physical",
        "_tail",
        "_tail_start",
        "_written",
        "max_offset",
        "max_physical_offset",
        "min_offset",
        "queue_id",
        "topic",
        "unsynced",
    )

    def __init__(
        self, topic: str, queue_id: int, directory: Path | str, file_size: int, descriptors: Descriptors
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = self.max_offset = 0
        self.max_physical_offset = -1
        self.unsynced = 0
        self._files = QueueFiles(directory, file_size, descriptors)
        self._tail = bytearray()  # entries [_tail_start, max_offset)
        self._tail_start = 0
        self._written = 0  # entries below are in the files
        self._first_physical = -1  # of the record of the first entry, where that is known

    def __repr__(self) -> str:
        return f"<queue {self.queue_id} of {self.topic}: {self.min_offset} to {self.max_offset}>"

    @property
    def first_offset(self) -> int:
        """The offset with which the first file begins; at most `min_offset`."""
        return self._files.first // ENTRY_SIZE

    @property
    def per_file(self) -> int:
        """Entries of a file."""
        return self._files.size // ENTRY_SIZE

    @property
    def is_new(self) -> bool:
        """Whether it never had an entry, so that it may begin at any offset."""
        return self.max_offset == 0 and not self._files.exist

    @property
    def unwritten(self) -> int:
        """Bytes that are in memory only."""
        return (self.max_offset - self._written) * ENTRY_SIZE

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Enter a record; True when its entry is in place, also if it was already.

        Raises DiskFullError, the entry is not taken then, and StoreFormatError for an offset that cannot be right.
        """
        if (queue_offset != self.max_offset or physical_offset < self.max_physical_offset) and not self._make_room(
            queue_offset, physical_offset, size
        ):
            return True
        tail = self._tail
        if len(tail) >= _MAX_TAIL:
            self._spill()
        tail += _pack(physical_offset, size, tags_code)
        self.max_offset = queue_offset + 1
        self.max_physical_offset = physical_offset + size
        return True

    def extend(self, queue_offset: int, entries: bytes, begin: int, end: int) -> bool:
        """`append` for several records that lie behind each other in the log, from `begin` to `end`; False, and none is
        taken, when they do not simply follow.

        Raises DiskFullError, nothing is taken then.
        """
        if queue_offset != self.max_offset or begin < self.max_physical_offset:
            return False
        tail = self._tail
        if len(tail) >= _MAX_TAIL:
            self._spill()
        tail += entries
        self.max_offset = queue_offset + len(entries) // ENTRY_SIZE
        self.max_physical_offset = end
        return True

    def entries(self, start: int, count: int) -> bytes:
        """The entries [start, start + count) as far as they exist, 20 bytes each; b"" outside of the queue."""
        end = min(start + count, self.max_offset)
        if start < self.min_offset or start >= end:
            return b""
        return self._raw(start, end)

    def window(self, start: int, wanted: int, most: int) -> tuple[Bytes, int, int]:
        """Entries from `start` on, which is within the queue: bytes that hold them, to be read at once, where in them
        that entry is, counted in entries, and how many there are from there on.

        At least `wanted` unless the queue ends before, or a file has vanished; `most` if they have to be read anyway.
        """
        index = start - self._tail_start
        if index >= 0:
            return self._tail, index, min(most, self.max_offset - start)
        files = self._files
        wanted = min(wanted, self.max_offset - start)
        index = start - files.ahead_at // ENTRY_SIZE
        held = len(files.ahead) // ENTRY_SIZE - index
        if index < 0 or held < wanted:
            end = min(start + max(most, _AHEAD), self._tail_start)
            files.read_ahead(start * ENTRY_SIZE, end * ENTRY_SIZE)
            index, held = 0, len(files.ahead) // ENTRY_SIZE
            if held < wanted and start + held == self._tail_start:  # the others are in memory
                data = files.ahead + self._tail[: (most - held) * ENTRY_SIZE]
                return data, 0, len(data) // ENTRY_SIZE
        return files.ahead, index, min(most, held)

    def entry(self, index: int) -> Entry | None:
        """One entry; None outside of the queue."""
        data = self.entries(index, 1)
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def next_file(self, offset: int) -> int:
        """The first offset of the file after the one that holds `offset`."""
        return offset - offset % self.per_file + self.per_file

    def load(self) -> bool:
        """Take the files that exist, without looking into them; see `QueueFiles.load`. Call `recover` next."""
        whole = self._files.load()
        self.min_offset = self.first_offset
        self._restart(self._files.end // ENTRY_SIZE)
        return whole

    def recover(self) -> None:
        """Find the end of the entries: the first that is not sound, looking from the third file from the end on."""
        files = self._files
        index = first = max(files.first, files.end - 3 * files.size) // ENTRY_SIZE
        last, end = -1, None
        while data := files.read(index * ENTRY_SIZE, (index + _CHUNK) * ENTRY_SIZE):
            count, last, size = sound_entries(data, last)
            if index == first and count and _PLACE.unpack_from(data) != (0, FILLER_SIZE):
                self._first_physical = _PLACE.unpack_from(data)[0]
            if size:
                end = last + size
            index += count
            if count < len(data) // ENTRY_SIZE:
                break
        if first > self.first_offset:
            self._first_physical = -1
        self._cut(index, end)

    def truncate_to(self, physical_end: int) -> None:
        """Drop the entries of records that do not lie entirely below a place in the log."""
        if self.max_physical_offset > physical_end:
            self._cut(self._first_where(lambda offset, size: offset + size > physical_end))

    def cut_to(self, max_offset: int) -> None:
        """Drop the entries from an offset on, because they are not known to be right."""
        if max_offset < self.max_offset:
            self._cut(max(max_offset, self.first_offset))

    def reserve_to(self, max_offset: int) -> None:
        """Keep the offsets below `max_offset` for messages that are lost, however many. Raises DiskFullError."""
        if max_offset > self.max_offset:
            self._fill(max_offset)

    def skip_to(self, max_offset: int) -> None:
        """Go on numbering at an offset, because the messages up to it are gone. Raises DiskFullError."""
        if max_offset > self.max_offset:
            if max_offset - self.max_offset > self.per_file:  # nothing in between is worth keeping
                self.destroy()
            self._fill(max_offset)

    def correct_min(self, commit_log_min: int) -> None:
        """Set `min_offset` to the first entry whose record is still in the log; to `max_offset` when none is."""
        if self._first_physical >= commit_log_min:  # as found at the start: no need to look
            self.min_offset = self.first_offset
            return
        first = self._first_where(lambda offset, _: offset >= commit_log_min)
        self.min_offset = max(first, self.first_offset)

    def delete_before(self, commit_log_min: int) -> int:
        """Delete files, never the newest, all of whose records left the log, and correct `min_offset`."""
        files = self._files
        deleted = 0
        while files.end - files.first > files.size:
            last = files.read(files.first + files.size - ENTRY_SIZE, files.first + files.size)
            if len(last) == ENTRY_SIZE and _PLACE.unpack(last)[0] >= commit_log_min:
                break
            files.delete_first()
            self._first_physical = -1
            deleted += 1
        self.correct_min(commit_log_min)
        return deleted

    def write_out(self) -> None:
        """Hand everything to the files (not yet to the disk). Raises DiskFullError; nothing is lost then."""
        if self._written < self.max_offset:
            begin = self._written
            held = len(self._tail) // ENTRY_SIZE
            ensure(self._tail_start + held == self.max_offset, f"{self} has {held} entries from {self._tail_start} on")
            data = self._tail[(begin - self._tail_start) * ENTRY_SIZE :]
            self._files.write(begin * ENTRY_SIZE, data)
            self._written = self.max_offset
            self.unsynced += len(data)

    def take_touched(self) -> set[str]:
        """The paths to sync so that everything written so far is on disk. The caller now answers for them."""
        touched, self._files.touched, self.unsynced = self._files.touched, set(), 0
        return touched

    def give_back(self, paths: set[str]) -> None:
        """They could not be synced: they have to be taken again."""
        self._files.touched |= paths

    def flush(self) -> None:
        """Write and sync everything now. Raises DiskFullError or OSError."""
        self.write_out()
        sync_files(self.take_touched())

    def destroy(self) -> None:
        """Delete all files. The queue begins again at 0."""
        self._files.destroy()
        self._first_physical = -1
        self.min_offset = 0
        self._restart(0)

    def _spill(self) -> None:
        self.write_out()
        drop = len(self._tail) // ENTRY_SIZE // 2
        del self._tail[: drop * ENTRY_SIZE]
        self._tail_start += drop

    def _make_room(self, queue_offset: int, physical_offset: int, size: int) -> bool:
        """An append that does not simply follow: False when it is there already, else the queue ends at its offset."""
        if physical_offset + size <= self.max_physical_offset:
            return False
        if not 0 <= queue_offset < _MAX_OFFSET:
            raise StoreFormatError(f"record at {physical_offset} of {self} claims queue offset {queue_offset}")
        if queue_offset < self.max_offset:
            # The record lies behind all that this queue knows, so the log is right and the rest of the queue is not.
            log.warning("%s has entries from %d on that the log contradicts: entered again", self, queue_offset)
            self._cut(queue_offset)
        elif queue_offset > self.max_offset:
            if not self.is_new and queue_offset - self.max_offset > self.per_file:
                raise StoreFormatError(f"record at {physical_offset} of {self} claims queue offset {queue_offset}")
            self._fill(queue_offset)
        return True

    def _fill(self, queue_offset: int) -> None:
        """Put fillers up to an offset: in a queue that begins there, or where entries are lost for good."""
        begins = self.is_new
        start = queue_offset - queue_offset % self.per_file if begins else self.max_offset
        if not begins:
            log.warning("%s lost its entries up to %d, and so did the log: filled", self, queue_offset)
        self.write_out()
        while start < queue_offset:
            end = min(queue_offset, start + _MAX_FILLERS)
            self._files.write(start * ENTRY_SIZE, FILLER * (end - start))
            start = end
        self._restart(queue_offset)
        if begins:
            self.min_offset = queue_offset

    def _cut(self, end: int, physical: int | None = None) -> None:
        """Make `max_offset` equal to `end`, below which all is sound, and zero the rest.

        `physical` is the end of the last record entered below it, where that is known.
        """
        keep = end - self._tail_start
        if keep > 0:
            del self._tail[keep * ENTRY_SIZE :]
            self._written = min(self._written, end)
        else:
            self._restart(end)
        self._files.cut(end * ENTRY_SIZE)
        self.max_offset = end
        self.min_offset = min(self.min_offset, end)
        if end <= self.first_offset:
            self._first_physical = -1
        if physical is None:
            place = self._real_before(end)
            physical = -1 if place is None else place[0] + place[1]
        self.max_physical_offset = physical

    def _restart(self, index: int) -> None:
        """Everything below `index` is in the files, nothing in memory."""
        self._tail.clear()
        self._tail_start = self._written = self.max_offset = index

    def _first_where(self, wanted: Callable[[int, int], bool]) -> int:
        """The first entry for whose record (offset, size) the condition holds; it holds for all that follow."""
        low, high = self.first_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            place = self._real_before(middle + 1)
            if place is not None and wanted(*place):
                high = middle
            else:
                low = middle + 1
        return low

    def _real_before(self, end: int) -> tuple[int, int] | None:
        """Offset and size of the last record entered below `end`, passing over fillers; None without one."""
        first = self.first_offset
        count = 1
        while end > first:
            begin = max(first, end - count)
            for offset, size in reversed(list(_PLACE.iter_unpack(self._raw(begin, end)))):
                if size != FILLER_SIZE or offset:
                    return offset, size
            end, count = begin, _CHUNK
        return None

    def _raw(self, begin: int, end: int) -> bytes:
        """Entries [begin, end) whatever `min_offset` says; fewer if a file has vanished."""
        start = self._tail_start
        if begin >= start:
            return bytes(self._tail[(begin - start) * ENTRY_SIZE : (end - start) * ENTRY_SIZE])
        data = self._files.read(begin * ENTRY_SIZE, min(end, start) * ENTRY_SIZE)
        if end > start and len(data) == (start - begin) * ENTRY_SIZE:
            data += self._tail[: (end - start) * ENTRY_SIZE]
        return data[: len(data) - len(data) % ENTRY_SIZE]
