"""One index file (S-12): 40-byte header, hash slots, entries. Knows hashes and offsets, not topics or keys.

An entry holds the number of the one before it in the same slot, a slot the number of its newest entry, 0 ends a chain.
The slots of a file that is being written live in memory and reach the file with `sync`; entries are written as they
come. Invariant: the header in the file counts only what was synced before it, so after a crash the entries up to its
count are whole, `rebuild` restores the slots from them, and what came later is indexed again from the log.
"""

import mmap
import struct
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self, Union

from pyromq import disk, durable, native
from pyromq.store.errors import StoreFormatError
from pyromq.store.index.keyhash import HASHED, Key
from pyromq.store.space import translated, write_at

# begin and end store time, begin and end physical offset, slots in use, number of the next entry (the first is 1)
HEADER = struct.Struct(">qqqqii")
# hash, physical offset, seconds since the file's begin time, previous entry of the slot
ENTRY = struct.Struct(">iqii")
_NUMBER = struct.Struct(">I")
SLOT_SIZE = 4
_MAX_SECONDS = 0x7FFFFFFF
_PIECE = 1 << 14  # slots written at a time
_CHUNK = 1 << 15  # entries checked at a time


Slots = Union["array[int]", "memoryview[int]"]


class Layout(NamedTuple):
    """Where things are, by the configured numbers of slots and entries."""

    slots: int
    entries: int

    @property
    def first_entry(self) -> int:
        return HEADER.size + self.slots * SLOT_SIZE

    @property
    def size(self) -> int:
        return self.first_entry + self.entries * ENTRY.size

    def at(self, number: int) -> int:
        """Position of an entry by its number."""
        return HEADER.size + self.slots * SLOT_SIZE + number * ENTRY.size


class IndexFile:
    """An index file with its header as attributes. `count` is the number of the next entry; 1 in an empty file.

    `synced` says that file and attributes agree. Belongs to the owner's thread, except `sync`.
    """

    __slots__ = (
        "_fd",
        "_map",
        "_slots",
        "begin_offset",
        "begin_timestamp",
        "count",
        "end_offset",
        "end_timestamp",
        "layout",
        "path",
        "slots_used",
        "synced",
    )

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.layout = layout
        self.begin_timestamp = self.end_timestamp = 0
        self.begin_offset = self.end_offset = 0
        self.slots_used = 0
        self.count = 1
        self.synced = False
        self._fd = -1
        self._map: mmap.mmap | None = None
        self._slots: Slots | None = None  # None: those in the file are right

    @classmethod
    def create(cls, path: Path, layout: Layout, after: "IndexFile | None") -> Self:
        """Make an empty file of full length that follows `after`. Raises DiskFullError, nothing is left then."""
        index = cls(path, layout)
        if after is not None:
            index.begin_timestamp = index.end_timestamp = after.end_timestamp
            index.begin_offset = index.end_offset = after.end_offset
        durable.make_folder(path.parent)
        fd = disk.open_file(path, writable=True, fresh=True)
        try:
            disk.set_length(fd, layout.size)
            index._fd = fd
            index._write_header(index.end_timestamp, index.end_offset, 1)
            durable.sync_folder(path.parent)
        except OSError as error:
            index.destroy()
            raise translated(error, path) from error
        except BaseException:
            index.destroy()
            raise
        # Of the system, page by page as they are used: to make and touch them all at once takes a turn of 20 ms.
        index._slots = memoryview(disk.zeros(layout.slots * SLOT_SIZE)).cast("I")
        return index

    @classmethod
    def load(cls, path: Path, layout: Layout) -> tuple[Self, bool]:
        """Read the header of an existing file; the flag says whether the file had been cut and was stretched.

        Raises StoreFormatError for a file that is too long for this layout: it was written with other settings.
        """
        length = path.stat().st_size
        if length > layout.size:
            raise StoreFormatError(
                f"{path} has {length} bytes, expected {layout.size}: set the maxHashSlotNum and maxIndexNum it was "
                f"written with, or move the file away"
            )
        cut = length < layout.size
        index = cls(path, layout)
        fd = disk.open_file(path, writable=cut)
        try:
            if cut:
                disk.set_length(fd, layout.size)
            fields = HEADER.unpack(disk.read_at(fd, HEADER.size, 0))
        finally:
            disk.close(fd)
        index.begin_timestamp, index.end_timestamp, index.begin_offset, index.end_offset, slots, count = fields
        index.slots_used = max(slots, 0)
        index.count = min(max(count, 1), layout.entries)
        index.synced = True
        return index, cut

    @property
    def full(self) -> bool:
        return self.count >= self.layout.entries

    @property
    def empty(self) -> bool:
        return self.count <= 1

    def add(self, hashes: Sequence[int], keys: Sequence[Key]) -> int:
        """Append an entry for each key and its hash, as many as fit; returns how many those are.

        Raises DiskFullError, nothing is changed then.
        """
        count, used = self.count, self.slots_used
        room = self.layout.entries - count
        if len(keys) > room:
            hashes, keys = hashes[:room], keys[:room]
        if not keys:
            return 0
        if count <= 1:
            _, _, self.begin_offset, self.begin_timestamp = keys[0]
        begin = self.begin_timestamp
        slots = self._slots or self._load_slots()
        slot_count, pack = self.layout.slots, ENTRY.pack
        entries: list[bytes] = []
        last, seconds = begin, 0
        for key_hash, (_, _, physical_offset, timestamp) in zip(hashes, keys, strict=True):
            if timestamp != last:
                last, seconds = (
                    timestamp,
                    min((timestamp - begin) // 1000, _MAX_SECONDS) if timestamp > begin > 0 else 0,
                )
            slot = key_hash % slot_count
            previous = slots[slot]
            slots[slot] = count
            if previous == 0:
                used += 1
            elif previous >= count:  # stale, from before a crash of another writer
                previous = 0
            entries.append(pack(key_hash, physical_offset, seconds, previous))
            count += 1
        self._write_entries(b"".join(entries), slots, used, physical_offset, timestamp)
        return len(keys)

    def add_hashed(self, keys: bytes | bytearray) -> int:
        """`add` for keys that are hashed already."""
        room = self.layout.entries - self.count
        if len(keys) > room * HASHED.size:
            keys = keys[: room * HASHED.size]
        if not keys:
            return 0
        if self.count <= 1:
            _, self.begin_offset, self.begin_timestamp = HASHED.unpack_from(keys)
        slots = self._slots or self._load_slots()
        entries, fresh = link_keys(keys, memoryview(slots).cast("B"), self.count, self.begin_timestamp)
        _, offset, timestamp = HASHED.unpack_from(keys, len(keys) - HASHED.size)
        self._write_entries(entries, slots, self.slots_used + fresh, offset, timestamp)
        return len(keys) // HASHED.size

    def _write_entries(self, entries: bytes, slots: "Slots", used: int, end: int, timestamp: int) -> None:
        """Append entries to which `slots` lead already; if that fails, they no longer do."""
        try:
            write_at(self._descriptor(), entries, self.layout.at(self.count), self.path)
        except BaseException:
            for key_hash, _, _, previous in reversed(list(ENTRY.iter_unpack(entries))):
                slots[key_hash % len(slots)] = previous
            raise
        # In this order: a sync in another thread that sees the new end must also see the new count.
        self.synced = False
        self.slots_used = used
        self.count += len(entries) // ENTRY.size
        self.end_offset, self.end_timestamp = end, timestamp

    def find(self, key_hash: int, begin: int, end: int, limit: int) -> list[int]:
        """Physical offsets of at most `limit` entries with this hash stored in [begin, end], newest first.

        Entries know seconds only, so one that may lie within the range is taken: the caller looks at the record.
        """
        data = self._mapped()
        slot = key_hash % self.layout.slots
        number = self._slots[slot] if self._slots else self._read_slot(slot)
        found: list[int] = []
        newer = self.count
        while 0 < number < newer:
            entry_hash, physical_offset, seconds, previous = ENTRY.unpack_from(data, self.layout.at(number))
            time = self.begin_timestamp + seconds * 1000
            if seconds < 0 or time + 999 < begin:
                break
            if entry_hash == key_hash and time <= end:
                found.append(physical_offset)
                if len(found) >= limit:
                    break
            newer, number = number, previous  # chains only lead back, so a damaged link cannot make a circle
        return found

    def sync(self) -> None:
        """Put entries and slots on disk, then the header that counts them. May run beside `add` in another thread."""
        if self.synced:
            return
        fd = self._descriptor()
        self.synced = True  # an `add` from here on takes it back
        try:
            end_timestamp, end_offset = self.end_timestamp, self.end_offset
            count = self.count  # after the end: a record indexed twice is harmless, one left out is not
            self._write_slots()
            disk.sync_data(fd)
            self._write_header(end_timestamp, end_offset, count)
            disk.sync_data(fd)
        except BaseException:
            self.synced = False
            raise
        if count >= self.layout.entries:
            self._slots = None

    def rebuild(self) -> int:
        """After a crash: keep the entries that make sense, point the slots at them, return how many were dropped."""
        data = memoryview(self._mapped())
        claimed, layout = self.count, self.layout
        slots = array("I", bytes(layout.slots * SLOT_SIZE))
        count, last_offset, last_seconds = 1, self.begin_offset, 0
        for begin in range(1, claimed, _CHUNK):
            chunk = data[layout.at(begin) : layout.at(min(claimed, begin + _CHUNK))]
            for key_hash, physical_offset, seconds, previous in ENTRY.iter_unpack(chunk):
                slot = key_hash % layout.slots
                ordered = last_offset <= physical_offset <= self.end_offset
                if not ordered or key_hash < 0 or seconds < 0 or previous != slots[slot]:
                    break
                slots[slot] = count
                count, last_offset, last_seconds = count + 1, physical_offset, seconds
            else:
                continue
            break
        if count < claimed or last_offset < self.end_offset:  # entries are believed, the header is not
            self.end_offset = last_offset
            self.end_timestamp = self.begin_timestamp + last_seconds * 1000
        self.count = count
        self.slots_used = layout.slots - slots.count(0)
        self._slots = slots
        self.synced = False
        return claimed - count

    def close(self) -> None:
        """Give file and memory back until they are needed again. Only for a file that is synced."""
        if self._map is not None:
            self._map.close()
            self._map = None
        if self._fd >= 0:
            disk.close(self._fd)
            self._fd = -1
        self._slots = None

    def destroy(self) -> None:
        self.close()
        disk.delete(self.path)

    def _descriptor(self) -> int:
        if self._fd < 0:
            self._fd = disk.open_file(self.path, writable=True)
        return self._fd

    def _mapped(self) -> mmap.mmap:
        """The file for reading entries that were written.

        Writes go through the descriptor, where a full disk is an error and not a signal, and so does reading slots,
        most of which may be holes.
        """
        if self._map is None:
            self._map = disk.map_file(self._descriptor(), self.layout.size)
        return self._map

    def _read_slot(self, slot: int) -> int:
        place = HEADER.size + slot * SLOT_SIZE
        return int(_NUMBER.unpack(disk.read_at(self._descriptor(), SLOT_SIZE, place))[0])

    def _load_slots(self) -> "array[int]":
        slots = array("I", disk.read_at(self._descriptor(), self.layout.first_entry - HEADER.size, HEADER.size))
        if sys.byteorder == "little":
            slots.byteswap()
        self._slots = slots
        return slots

    def _write_slots(self) -> None:
        slots, fd = self._slots, self._descriptor()
        if slots is None:
            return
        for begin in range(0, len(slots), _PIECE):
            piece = array("I", memoryview(slots)[begin : begin + _PIECE].tobytes())
            if sys.byteorder == "little":
                piece.byteswap()
            position = HEADER.size + begin * SLOT_SIZE
            text = piece.tobytes()
            if disk.read_at(fd, len(text), position) != text:
                write_at(fd, text, position, self.path)

    def _write_header(self, end_timestamp: int, end_offset: int, count: int) -> None:
        fields = self.begin_timestamp, end_timestamp, self.begin_offset, end_offset, self.slots_used, count
        write_at(self._descriptor(), HEADER.pack(*fields), 0, self.path)


@native.twin
def link_keys(keys: bytes | bytearray, slots: memoryview, count: int, begin: int) -> tuple[bytes, int]:
    """Entries for hashed keys, numbered from `count` on, and how many slots were not in use before.

    `slots`, in the byte order of the machine, are those of a file that begins with the time `begin`; they lead to the
    new entries afterwards.
    """
    table, pack = slots.cast("I"), ENTRY.pack
    slot_count = len(table)
    entries: list[bytes] = []
    last, seconds, fresh = begin, 0, 0
    for number, (key_hash, physical_offset, timestamp) in enumerate(HASHED.iter_unpack(keys), count):
        if timestamp != last:
            last = timestamp
            seconds = min((timestamp - begin) // 1000, _MAX_SECONDS) if timestamp > begin > 0 else 0
        slot = key_hash % slot_count
        previous = table[slot]
        table[slot] = number
        if previous == 0:
            fresh += 1
        elif previous >= number:  # stale, from before a crash of another writer
            previous = 0
        entries.append(pack(key_hash, physical_offset, seconds, previous))
    return b"".join(entries), fresh
