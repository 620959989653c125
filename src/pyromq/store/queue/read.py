"""Reading by queue offset: which entries, which limits, which status. Nothing is decoded or copied here.

The limits keep one answer small and one call short: bytes and counts differ for records that are in memory and those
that probably have to come from disk.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import msgspec

from pyromq.disk import Bytes
from pyromq.protocol.headers.pullrun import Answered, PullRun, Voice
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import is_lmq
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.protocol.records.record import decode_records
from pyromq.store.config import BrokerRole, StoreConfig
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage, Stretch
from pyromq.store.log.soundness import SAMPLE, CrcOnRead, fault_of
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.offsettime import FILLER_SIZE
from pyromq.store.queue.scan import Limits, Run, TagCodes, answer_pulls, are_sound, gather, places, scan_entries
from pyromq.store.queue.table import ConsumeQueues

MAX_BYTES = 128 << 20
MIN_BYTES = 100
MAX_EXAMINED = 1 << 16
"""Queue entries looked at for one answer, however many messages somebody asks for."""
JOINED_MAX = 64 * 1024
"""Answers up to this size are copied into one piece: the transport would join their pieces anyway."""
JOINED_RUN = 8 * 1024
"""Larger ones, too, whose records lie about in pieces up to this size on average: a slice costs as much as a copy."""


class GetStatus(Enum):
    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"

    __hash__ = object.__hash__  # members are singletons; Enum's own is a call into Python for every look-up


_FOUND = GetStatus.FOUND


class GetResult(msgspec.Struct, gc=False):
    """What a read found. `chunks` are slices of mapped memory holding whole records, neighbours in one piece."""

    status: GetStatus
    next_offset: int
    min_offset: int = 0
    max_offset: int = 0
    chunks: list[memoryview] = []
    count: int = 0
    size: int = 0
    queue_offsets: list[int] = []
    """Queue offset of each message found."""
    sizes: Sequence[int] = ()
    """Bytes of each record, as its queue entry says: what a record says of itself may be damaged."""
    damaged: list[int] = []
    """Queue offsets whose records were left out, because no reader could make out where they end."""
    suggest_slave: bool = False
    """The reader is so far behind that its messages are no longer in memory."""
    runs: Sequence[Run] = ()
    """In place of `chunks`, `queue_offsets` and `sizes`, for `Reader.framed`: where the records are."""

    def records(self) -> Iterator[memoryview]:
        """Each record by itself."""
        sizes = iter(self.sizes)
        for chunk in self.chunks:
            position = 0
            while position < len(chunk):
                size = next(sizes)
                yield chunk[position : position + size]
                position += size

    def messages(self) -> list[ReceivedMessage]:
        """The messages, decoded. Raises RecordError if one cannot be."""
        return [message for chunk in self.chunks for message in decode_records(chunk)]


TagFilter = Callable[[int], bool]
"""Decides on the tag code of a queue entry, before the record is touched."""
RecordFilter = Callable[[memoryview], bool]
"""Decides on the whole record, after the tag filter."""


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Reader:
    """Reads queues of one store."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        damage: Damage,
        memory: int | None = None,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._damage = damage
        self._verifies_crc = config.check_crc_on_read is not CrcOnRead.NEVER
        self._check_each = {CrcOnRead.ALWAYS: 1, CrcOnRead.SAMPLED: SAMPLE}.get(config.check_crc_on_read, 0)
        """Of so many reads, one also checks records that this process wrote and probably has in memory; 0: none."""
        self._reads = 0
        self.written_before = 0
        """Where the log ended when it was opened: what lies below came back from a disk."""
        self._resident = (memory or _physical_memory()) * config.access_message_in_memory_max_ratio // 100
        self._min_examined = config.max_filter_message_size // ENTRY_SIZE
        self._in_memory = config.max_transfer_bytes_on_message_in_memory, config.max_transfer_count_on_message_in_memory
        self._on_disk = config.max_transfer_bytes_on_message_in_disk, config.max_transfer_count_on_message_in_disk
        self._correct_offsets = config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        tag_filter: TagFilter | None = None,
        record_filter: RecordFilter | None = None,
        sliced: bool = True,
    ) -> GetResult:
        """Messages of a queue from `offset` on; `max_bytes` takes the place of the configured limits.

        Unless it is `sliced`, the result may be good for nothing but `framed`, at once.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, self._corrected(offset, 0))
        low, high = queue.min_offset, queue.max_offset
        if low <= offset < high:
            near, far = self._in_memory, self._on_disk
            if max_bytes is not None:
                near = far = min(max(max_bytes, MIN_BYTES), MAX_BYTES), max_count
            found, check = None, self._check_each > 0 and self._reads % self._check_each == 0
            self._reads += 1
            if record_filter is None and (tag_filter is None or type(tag_filter) is TagCodes):
                found = self._scan(queue, offset, max_count, near, far, tag_filter, check, sliced)
            return found or self._collect(queue, offset, max_count, near, far, tag_filter, record_filter, check)
        if high == 0:
            status, following = GetStatus.NO_MESSAGE_IN_QUEUE, self._corrected(offset, 0)
        elif offset < low:
            status, following = GetStatus.OFFSET_TOO_SMALL, self._corrected(offset, low)
        elif offset == high:
            status, following = GetStatus.OFFSET_OVERFLOW_ONE, offset
        else:
            status, following = GetStatus.OFFSET_OVERFLOW_BADLY, self._corrected(offset, high)
        return GetResult(status, following, low, high)

    def answer(
        self, run: PullRun, queue: ConsumeQueue, codes: bytes | None, room: int, voice: Voice, max_bytes: int | None
    ) -> Answered | None:
        """The answers to the first pulls of a run, out of one file of the log: what `get` and `framed` come to for each
        that finds sound messages. None if the first one needs a closer look. See `answer_pulls`."""
        near, far, least, last = self._in_memory, self._on_disk, self._min_examined, self._log.last
        if max_bytes is not None:
            near = far = min(max(max_bytes, MIN_BYTES), MAX_BYTES), MAX_EXAMINED
        offset, span = run.span(near[1])
        if last is None or not queue.min_offset <= offset < queue.max_offset or is_lmq(queue.topic):
            return None
        entries, index, available = queue.window(offset, span, span if codes is None else span + least)
        if not available:
            return None
        place, files, file = int.from_bytes(entries[index * ENTRY_SIZE : index * ENTRY_SIZE + 8]), self._log.files, last
        if place < last.start:
            found = files.find(place)
            if found is None:
                return None
            file = found
        each = self._check_each
        answered = answer_pulls(
            run,
            room,
            entries,
            (index, available, queue.min_offset, queue.max_offset, least, MAX_EXAMINED),
            near,
            far,
            file.view(0, file.position),
            (file.start, files.files[0].start, last.start + last.position, self._resident, files.file_size),
            codes,
            (-self._reads % each if each else 0, each, self.written_before, self._verifies_crc),
            voice,
        )
        if answered is not None:
            self._reads += answered[0]
        return answered

    def in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message exists and is so near the end of the log that it counts as being in memory."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return False
        physical, _, _ = ENTRY.unpack(queue.entries(queue_offset, 1))
        return bool(self._log.max_offset - physical <= self._resident)

    def _corrected(self, asked: int, correct: int) -> int:
        """A slave may lag behind: it does not tell consumers to go elsewhere unless configured to."""
        return correct if self._correct_offsets else asked

    def _collect(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        near: Limits,
        far: Limits,
        tag_filter: TagFilter | None,
        record_filter: RecordFilter | None,
        check: bool,
    ) -> GetResult:
        entries = queue.entries(offset, min(max(self._min_examined, max_count), MAX_EXAMINED))
        result = GetResult(GetStatus.OFFSET_FOUND_NULL, offset, queue.min_offset, queue.max_offset, [], damaged=[])
        if not entries:
            result.next_offset = self._corrected(offset, queue.next_file(offset))
            return result
        result.status = GetStatus.NO_MATCHED_MESSAGE
        log_end, log_begin, file_size = self._log.max_offset, self._log.min_offset, self._log.file_size
        count = size = 0
        offsets: list[int] = []
        sizes: list[int] = []
        run_begin = run_end = last = -1  # records that follow each other in the log become one slice
        examined = offset
        for physical, record_size, code in ENTRY.iter_unpack(entries):
            byte_limit, count_limit = far if log_end - physical > self._resident else near
            if count and (count >= max_count or count >= count_limit or size + record_size > byte_limit):
                break
            examined += 1
            no_message = record_size == FILLER_SIZE or record_size <= 0
            if no_message or (tag_filter is not None and not tag_filter(code)):
                continue
            if physical < log_begin or physical + record_size > log_end:
                if not count:
                    result.status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if physical // file_size != (physical + record_size - 1) // file_size:
                continue
            checked = check or physical < self.written_before or log_end - physical > self._resident
            if checked or record_filter is not None:
                record = self._log.read(physical, record_size)
                if record is None:
                    continue
                if checked and not self._is_readable(queue, examined - 1, physical, record):
                    result.damaged.append(examined - 1)
                    continue
                if record_filter is not None and not record_filter(record):
                    continue
            if physical != run_end or physical % file_size == 0:
                self._add_chunk(result, run_begin, run_end)
                run_begin = physical
            last = run_end = physical + record_size
            offsets.append(examined - 1)
            sizes.append(record_size)
            count += 1
            size += record_size
        self._add_chunk(result, run_begin, run_end)
        result.next_offset = examined
        if count:
            result.status = GetStatus.FOUND
            result.count, result.size, result.queue_offsets, result.sizes = count, size, offsets, tuple(sizes)
            result.suggest_slave = log_end - last > self._resident
        return result

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        near: Limits,
        far: Limits,
        tag_filter: TagCodes | None,
        check: bool,
        sliced: bool,
    ) -> GetResult | None:
        """What `_collect` finds when all records are sound, as most are; else None."""
        log = self._log
        files, resident, end = log.files, self._resident, log.max_offset
        extent = max(files.min_offset, 0), end, resident, files.file_size
        codes = None if tag_filter is None else tag_filter.packed
        most = min(max(self._min_examined, max_count), MAX_EXAMINED)
        wanted = min(most, max(1, min(max_count, near[1])) + 1)
        entries, index, available = queue.window(offset, wanted, wanted if codes is None else most)
        picked = scan_entries(entries, index, available, max_count, near, far, extent, codes)
        if not picked[1] and available < most and offset + available < queue.max_offset:
            entries, index, available = queue.window(offset, most, most)
            picked = scan_entries(entries, index, available, max_count, near, far, extent, codes)
        examined, _, removing, count, size, oldest, last, runs, numbers = picked
        if not count:
            if not available:
                return None
            status = GetStatus.MESSAGE_WAS_REMOVING if removing else GetStatus.NO_MATCHED_MESSAGE
            return GetResult(status, offset + examined, queue.min_offset, queue.max_offset, [])
        behind = end - oldest > resident
        if (check or behind or oldest < self.written_before) and not self._are_sound(
            queue, offset, entries, index, numbers or range(count), runs
        ):
            return None
        result = GetResult(_FOUND, offset + examined, queue.min_offset, queue.max_offset, [], count, size)
        result.suggest_slave = behind and end - last > resident
        if not sliced:
            result.runs = runs
            return result
        for run in runs:
            self._add_chunk(result, *run)
        _, sizes = places(entries[index * ENTRY_SIZE : (index + examined) * ENTRY_SIZE])
        result.sizes = tuple([sizes[number] for number in numbers]) if numbers else sizes
        result.queue_offsets = (
            [offset + number for number in numbers] if numbers else list(range(offset, offset + count))
        )
        return result

    def framed(self, head: bytes, result: GetResult) -> bytes | list[bytes | memoryview]:
        """A head and behind it the records of a result that was found just now: in one piece if they are short, else
        as slices of the log."""
        runs = result.runs
        if not runs:
            return [head, *result.chunks]
        if result.size <= JOINED_MAX or result.size <= JOINED_RUN * len(runs):
            file = self._log.files.find(runs[0][0])
            if file is not None and (frame := gather(head, file.view(0, file.position), file.start, runs)) is not None:
                return frame
        for run in runs:
            self._add_chunk(result, *run)
        return [head, *result.chunks]

    def _are_sound(
        self,
        queue: ConsumeQueue,
        offset: int,
        entries: Bytes,
        index: int,
        numbers: Sequence[int],
        runs: Sequence[Run],
    ) -> bool:
        """Whether records are all plain and sound; if not, `_collect` looks at each more closely."""
        file = self._log.files.find(runs[0][0])
        if file is None or is_lmq(queue.topic):
            return False
        return are_sound(file.view(0, file.position), file.start, entries, index, offset, numbers, self._verifies_crc)

    def _is_readable(self, queue: ConsumeQueue, queue_offset: int, physical: int, record: memoryview) -> bool:
        """Whether a record can be sent; what is wrong with one is noted."""
        number = None if is_lmq(queue.topic) else queue_offset  # records of those carry the offsets of another queue
        fault = fault_of(record, physical, number, verify_crc=self._verifies_crc)
        if fault is None:
            return True
        end = physical + len(record)
        self._damage.add(Stretch(physical, end, fault.reason, queue.topic, queue.queue_id, queue_offset))
        return fault.framed

    def _add_chunk(self, result: GetResult, begin: int, end: int) -> None:
        if begin >= 0 and (chunk := self._log.read(begin, end - begin)) is not None:
            result.chunks.append(chunk)
