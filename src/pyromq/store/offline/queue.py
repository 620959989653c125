"""Consume queues against the log: each record must be in its queue, and each entry must lead to its record."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq import disk
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.protocol.records.tags import tags_code
from pyromq.store.config import StoreConfig
from pyromq.store.index.keyhash import HASHED
from pyromq.store.log.damage import Damage
from pyromq.store.log.mappedfiles import MappedFiles, file_name
from pyromq.store.log.span import Span
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.queue.offsettime import FILLER_SIZE
from pyromq.store.save.manifest import Manifest

if TYPE_CHECKING:
    from pyromq.store.offline.check import Findings, Progress

_MAX_OPEN = 256
_MAX_TOLD = 1 << 16
_QUEUED = (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)
_ROLLBACK = sysflag.ROLLBACK

Queue = tuple[str, int]


class QueueCheck:
    """Compares while the log is walked (`see`), then looks at what is left (`check_entries`).

    `final` says that everything was written before the store was let go.
    """

    def __init__(
        self, config: StoreConfig, files: MappedFiles, manifest: Manifest | None, found: "Findings", *, final: bool
    ) -> None:
        self._root = config.consume_queue_dir
        self._size = config.mapped_file_size_consume_queue
        self._files = files
        self._manifest = manifest
        self._found = found
        self._final = final
        self._open: OrderedDict[Path, int] = OrderedDict()
        self._matched: dict[Queue, int] = {}
        self._known: dict[Queue, bool] = {}
        self._told: set[tuple[str, int, int]] = set()
        self.count = self.entries = self.pending = 0

    def see(self, record: LogRecord) -> int:
        """Hold a record of the log against its queue; returns how many keys it has in the index."""
        properties = record.properties()
        kind = record.sys_flag & sysflag.TRANSACTION_MASK
        if kind in _QUEUED and self._has_queue(record.topic, record.queue_id):
            self._compare(record, tags_code(properties.get(Property.TAGS)))
        if kind == _ROLLBACK or record.damaged:
            return 0
        words = [key for key in properties.get(Property.KEYS, "").split(" ") if key]
        return len(words) + bool(properties.get(Property.UNIQ_KEY))

    def see_span(self, span: Span) -> int | None:
        """`see` for records that have just the entries they should; None, and nothing is noted, when some do not."""
        matched: list[tuple[Queue, int]] = []
        for topic, queue_id, number, _, _, entries in span.lanes:
            if self._has_queue(topic, queue_id):
                found = self._entries(topic, queue_id, number, len(entries))
                if found != entries and not (topic == SCHEDULE_TOPIC and _places(found) == _places(entries)):
                    return None
                matched.append(((topic, queue_id), len(entries) // ENTRY_SIZE))
        for queue, count in matched:
            self._matched[queue] = self._matched.get(queue, 0) + count
        return len(span.keys) // HASHED.size if isinstance(span.keys, bytes) else len(span.keys)

    def check_entries(self, damage: Damage, progress: "Progress") -> None:
        """Look for entries that lead to no record, though no damage to the log is known there."""
        folders = [
            (topic.name, int(queue.name), queue)
            for topic in sorted(self._root.glob("*"))
            for queue in sorted(topic.glob("*"))
            if queue.name.isdigit() and queue.is_dir()
        ]
        self.count = len(folders)
        for number, (topic, queue_id, folder) in enumerate(folders):
            progress("queues", number, len(folders))
            self._check_queue(topic, queue_id, folder, damage)
        progress("queues", len(folders), len(folders))

    def close(self) -> None:
        while self._open:
            _close(self._open.popitem()[1])

    def _has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether a queue should exist: those of topics that were deleted do not, though the log still has records."""
        known = self._known.get((topic, queue_id))
        if known is None:
            listed = self._manifest is not None and queue_id in self._manifest.queues.get(topic, {})
            there = "/" not in topic and "\0" not in topic and (self._root / topic / str(queue_id)).is_dir()
            known = self._known[topic, queue_id] = listed or there or (self._manifest is None and self._final)
        return known

    def _compare(self, record: LogRecord, code: int) -> None:
        queue = record.topic, record.queue_id
        entry = self._entry(*queue, record.queue_offset)
        if entry is not None and entry[:2] == (record.offset, record.size):
            self._matched[queue] = self._matched.get(queue, 0) + 1
            if entry[2] != code and record.topic != SCHEDULE_TOPIC:
                self._add(queue, record.queue_offset, f"has the tags {entry[2]} instead of {code}")
            return
        if record.damaged:
            return
        if entry is None or entry[1] == 0:
            if not self._was_entered(record):
                self.pending += 1
            else:
                self._add(queue, record.queue_offset, f"is missing; the record is at {record.offset}")
        elif entry[1] == FILLER_SIZE:
            self._add(queue, record.queue_offset, f"is a filler, but the record is at {record.offset}")
        elif not self._is_right(queue, record.queue_offset, entry):
            self._add(queue, record.queue_offset, f"leads to {entry[0]}, but the record is at {record.offset}")

    def _was_entered(self, record: LogRecord) -> bool:
        """Whether an entry must be on disk."""
        if self._manifest is None:
            return self._final
        first, end = self._manifest.queues.get(record.topic, {}).get(record.queue_id, (0, 0))
        return first <= record.queue_offset < end

    def _check_queue(self, topic: str, queue_id: int, folder: Path, damage: Damage) -> None:
        real = sum(1 for _ in self._real_entries(folder))
        self.entries += real
        if real == self._matched.get((topic, queue_id), 0):
            return
        for number, entry in self._real_entries(folder):
            if entry[0] in damage:
                continue
            if (topic, queue_id, number) not in self._told and not self._is_right((topic, queue_id), number, entry):
                self._add((topic, queue_id), number, f"leads to {entry[0]}, where its message is not")

    def _real_entries(self, folder: Path) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """The entries of a queue that are for records which are still in the log, with their numbers."""
        begin = max(self._files.min_offset, 0)
        for file in disk.entries(folder):
            if not file.name.isdigit() or int(file.name) % self._size:
                continue
            data = Path(file.path).read_bytes().rstrip(b"\0")
            data += bytes(-len(data) % ENTRY_SIZE)
            for number, entry in enumerate(ENTRY.iter_unpack(data), int(file.name) // ENTRY_SIZE):
                if entry[1] != FILLER_SIZE and entry[0] >= begin:
                    yield number, entry

    def _is_right(self, queue: Queue, queue_offset: int, entry: tuple[int, int, int]) -> bool:
        """Whether an entry leads to a record that says it belongs there, damaged or not."""
        offset, size, _ = entry
        if size <= 0 or self._files.find(offset) is None:
            return False
        record = next(iter(Walker(self._files, offset, verify_crc=False, end=offset + size)), None)
        place = *queue, queue_offset, size
        return record is not None and (record.topic, record.queue_id, record.queue_offset, record.size) == place

    def _entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        data = self._entries(topic, queue_id, queue_offset, ENTRY_SIZE)
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def _entries(self, topic: str, queue_id: int, queue_offset: int, length: int) -> bytes:
        """Bytes of a queue from an offset on, as far as they are there."""
        position, pieces = queue_offset * ENTRY_SIZE, b""
        while length > 0:
            path = self._root / topic / str(queue_id) / file_name(position - position % self._size)
            fd = self._descriptor(path)
            wanted = min(length, self._size - position % self._size)
            data = disk.read_at(fd, wanted, position % self._size) if fd >= 0 <= position else b""
            pieces += data
            if len(data) < wanted:
                break
            position, length = position + wanted, length - wanted
        return pieces

    def _descriptor(self, path: Path) -> int:
        """For reading, and not through a mapping, since the end of a queue is a hole; -1 for no such file."""
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        while len(self._open) >= _MAX_OPEN:
            _close(self._open.popitem(last=False)[1])
        try:
            fd = disk.open_file(path)
        except (OSError, ValueError):  # a damaged topic may be no name of a folder
            fd = -1
        self._open[path] = fd
        return fd

    def _add(self, queue: Queue, queue_offset: int, fault: str) -> None:
        if len(self._told) < _MAX_TOLD:
            self._told.add((*queue, queue_offset))
        self._found.add("queue", f"{queue[0]} {queue[1]}", f"entry {queue_offset} {fault}")


def _close(fd: int) -> None:
    if fd >= 0:
        disk.close(fd)


def _places(entries: bytes) -> list[tuple[int, int]]:
    """Where whole entries lead to."""
    whole = len(entries) - len(entries) % ENTRY_SIZE
    return [(offset, size) for offset, size, _ in ENTRY.iter_unpack(entries[:whole])]
