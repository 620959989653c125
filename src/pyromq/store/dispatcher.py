"""From the log to queues, index and whoever waits: in log order, each record once.

The append hands over what it already knows, so records are not parsed again. With SYNC_FLUSH a record waits here until
it is on disk, because nobody may see a message that a crash could still take back. Invariant: `position` is the end of
the last record dispatched; everything below it is in its queue, nothing above it is.
"""

import logging
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.store.arrival import Arrival, Arrived, Run, Sends, Waiting, Walked, Watcher, code_of, due_entries
from pyromq.store.errors import DiskFullError, StoreFormatError, ensure
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage
from pyromq.store.log.plainrecord import MIN_SIZE
from pyromq.store.log.span import Lane, Span
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.queue.table import ConsumeQueues

log = logging.getLogger(__name__)

_TRANSACTION = sysflag.TRANSACTION_MASK
_COMMIT = sysflag.COMMIT
_ROLLBACK = sysflag.ROLLBACK


class Dispatcher:
    """Feeds queues and `index` (None: no index). `watchers` may be added to at any time."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        flags: RunningFlags,
        damage: Damage,
        delays: Mapping[int, int],
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._flags = flags
        self._damage = damage
        self._delays = delays
        self.watchers: list[tuple[Watcher, Collection[str] | None]] = []
        """Each with the topics it wants to hear of, which may change; None: all."""
        self.waiting: deque[Waiting] = deque()
        """Records that may not be seen yet, or could not be entered."""
        self.backlog = 0
        """How many records wait."""
        self.position = 0
        self.last_timestamp = 0
        """Store time of the last record dispatched."""
        self.growing = False
        """The log gets pieces of another one, whose last record may still be on its way."""
        self.skipped = 0
        """Bytes of damage stepped over before `position`, in which messages of any queue may have been."""
        self.stuck = False
        """A queue could not be written, for want of disk space; `advance` tries again from there."""
        self._advancing = False
        self._asked = -1

    def hold(self, runs: Sequence[Waiting], count: int) -> None:
        """Have records, `count` of them, wait until `advance` lets them be seen."""
        self.waiting.extend(runs)
        self.backlog += count

    def advance(self, end: int) -> None:
        """Dispatch what ends at or below an offset of the log: what waits and, if nothing does, what the log has.

        A slave's log is walked, and one whose recovery ran out of disk space. Not nested: what a listener asks for that
        waits for the disk is done when the present call is through, else records would be dispatched twice, or never.
        """
        self._asked = max(self._asked, end)
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._asked >= 0:
                end, self._asked = self._asked, -1
                self._enter_waiting(end)
                if not self.waiting and self.position < end:
                    self._enter_log(end)
        finally:
            self._advancing, self._asked = False, -1

    def enter(self, arrival: Arrival) -> bool:
        """Enter a record that may be seen into queue and index, and tell who listens. Out of turn if others wait.

        False when that takes space that the disk does not have.
        """
        topic, offset, size, timestamp = arrival.topic, arrival.physical_offset, arrival.size, arrival.store_timestamp
        kind = arrival.sys_flag & _TRANSACTION
        queued = not kind or kind == _COMMIT
        try:
            if queued:
                arrival.queue.append(arrival.queue_offset, offset, size, arrival.tags_code)
            if self._index is not None and kind != _ROLLBACK:
                find = arrival.properties.get
                self._index.add(topic, find("UNIQ_KEY"), find("KEYS"), offset, timestamp)
        except (DiskFullError, OSError) as error:
            return self._halt(arrival, error)
        except StoreFormatError as error:
            log.error("the record at %d is left out of its queue: %s", offset, error)  # noqa: TRY400
        self.position = offset + size
        self.last_timestamp = timestamp
        if self.stuck:
            self._resume()
        if queued:
            for watcher, topics in self.watchers:
                if topics is None or topic in topics:
                    watcher(arrival)
        return True

    def enter_run(self, run: Run | Sends) -> bool:
        """`enter` for the records of a batch or of several sends, as one. False when they must be entered one by one,
        again if need be."""
        try:
            if not run.enter(self._index):
                return False
        except (DiskFullError, OSError, StoreFormatError):
            return False
        self.position = run.physical_offset + run.size
        self.last_timestamp = run.store_timestamp
        if self.stuck:
            self._resume()
        self._tell(run)
        return True

    def _tell(self, arrived: Arrived) -> None:
        there = arrived.topics
        for watcher, topics in self.watchers:
            if topics is None or (topics and any(map(topics.__contains__, there))):
                watcher(arrived)

    def enter_group(self, group: Sequence[Arrival]) -> bool:
        """`enter` for each, step by step for all, which is a tenth quicker: loops so short that the processor keeps
        them at hand. False when they must be entered one by one, again if need be."""
        try:
            for each in group:
                each.queue.append(each.queue_offset, each.physical_offset, each.size, each.tags_code)
            if self._index is not None:
                self._index.add_many(group)
        except (DiskFullError, OSError, StoreFormatError):
            return False
        last = group[-1]
        self.position = last.physical_offset + last.size
        self.last_timestamp = last.store_timestamp
        there = {each.topic for each in group}
        for watcher, topics in self.watchers:
            if topics is None or any(topic in topics for topic in there):
                for each in group:
                    if topics is None or each.topic in topics:
                        watcher(each)
        return True

    def recover(self, record: LogRecord, skipped: int) -> bool:
        """Enter a record of the log unless it is there already. False when the disk is full.

        Behind `skipped` bytes of damage its queue may lack more messages than it takes for granted: it keeps their
        offsets.
        """
        properties = record.properties()
        try:
            queue = self._queues.get_or_create(record.topic, record.queue_id)
        except StoreFormatError as error:
            log.warning("the record at %d is left out of its queue: %s", record.offset, error)
            return True
        arrival = Arrival(
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.offset,
            record.size,
            code_of(record.topic, properties, record.store_timestamp, self._delays),
            record.store_timestamp,
            record.sys_flag,
            properties,
            queue,
        )
        gap = record.queue_offset - queue.max_offset
        behind = arrival.queued and record.offset + record.size > queue.max_physical_offset
        if behind and queue.per_file < gap <= skipped // MIN_SIZE:
            try:
                queue.reserve_to(record.queue_offset)
            except (DiskFullError, OSError) as error:
                return self._halt(arrival, error)
        return self.enter(arrival)

    def enter_span(self, span: Span) -> int | None:
        """`recover` for plain records of the log, as one; returns how many of them their queues lacked.

        None when one of them must be looked at by itself: they do not all follow what is there, somebody wants to hear
        of delayed ones, or there is no space. Each may be entered again then.
        """
        lacking = self._lacking(span)
        if lacking is None:
            return None
        count, queues, index = 0, self._queues, self._index
        try:
            for topic, queue_id, number, begin, end, plain in lacking:
                entries = self._due(span, plain, end) if topic == SCHEDULE_TOPIC else plain
                if not queues.get_or_create(topic, queue_id).extend(number, entries, begin, end):
                    return None
                count += len(entries) // ENTRY_SIZE
            if index is not None:
                index.add_rest(span.keys, span.last)
        except (DiskFullError, OSError, StoreFormatError):
            return None
        self.position = span.end
        self.last_timestamp = span.timestamp
        if self.stuck:
            self._resume()
        self._tell(Walked(span, queues.get))
        return count

    def _due(self, span: Span, entries: bytes, end: int) -> bytes:
        """Entries of delayed messages in a span, the last of which ends at `end`."""
        start = span.file.start
        return due_entries(entries, span.file.view(0, end - start), start, self._delays)

    def _lacking(self, span: Span) -> list[Lane] | None:
        """Of a span what the queues do not have yet; None when it does not simply follow what they have."""
        lacking: list[Lane] = []
        reached: dict[tuple[str, int], tuple[int, int]] = {}
        for lane in span.lanes:
            topic, queue_id, number, begin, end, entries = lane
            if topic == SCHEDULE_TOPIC and any(topics is None or topic in topics for _, topics in self.watchers):
                return None
            if (reach := reached.get((topic, queue_id))) is None:
                queue = self._queues.get(topic, queue_id)
                reach = (queue.max_physical_offset, queue.max_offset) if queue is not None else (-1, 0)
            if end <= reach[0]:
                continue
            if begin < reach[0] or number != reach[1]:
                return None
            reached[topic, queue_id] = end, number + len(entries) // ENTRY_SIZE
            lacking.append(lane)
        return lacking

    def check(self) -> None:
        """What must hold between two calls: the invariant above, as far as it shows without reading."""
        ensure(self.position <= self._log.max_offset, f"dispatched up to {self.position}, behind the end of the log")
        ensure(bool(self.waiting) == (self.backlog > 0), f"{len(self.waiting)} entries wait, counted {self.backlog}")
        if self.waiting and not self._advancing:
            first = self.waiting[0].physical_offset
            ensure(first >= self.position, f"the record at {first} waits, dispatched up to {self.position}")

    def forget(self, offset: int) -> None:
        """The log was cut to `offset`."""
        waiting = self.waiting
        while waiting and waiting[-1].physical_offset + waiting[-1].size > offset:
            last = waiting.pop()
            self.backlog -= last.count
            left = [each for each in last.arrivals() if each.physical_offset + each.size <= offset]
            self.hold(left, len(left))  # the first records of a run
        self.position = min(self.position, offset)

    def _enter_waiting(self, end: int) -> None:
        """What waits, as far as it ends at or below an offset: messages together, else one run after the other."""
        waiting, together = self.waiting, not self.stuck
        while waiting and waiting[0].physical_offset + waiting[0].size <= end:
            if together and len(group := self._group(end)) > 1:
                together = self.enter_group(group)
                if together:
                    self.backlog -= len(group)
                    for _ in group:
                        waiting.popleft()
                continue
            run = waiting[0]
            if not isinstance(run, Arrival) and not self.enter_run(run):
                waiting.popleft()
                waiting.extendleft(reversed(run.arrivals()))  # as many as there is space for
                continue
            if isinstance(run, Arrival) and not self.enter(run):
                return
            waiting.popleft()
            self.backlog -= run.count

    def _group(self, end: int) -> list[Arrival]:
        """The first of those that wait, as far as they are messages for consumers that may be seen."""
        group: list[Arrival] = []
        for run in self.waiting:
            if not isinstance(run, Arrival) or run.sys_flag & _TRANSACTION or run.physical_offset + run.size > end:
                break
            group.append(run)
        return group

    def _enter_log(self, end: int) -> None:
        start = max(self.position, self._log.min_offset)
        walker = Walker(self._log.files, start, verify_crc=False, end=end, damage=self._damage, growing=self.growing)
        for record in self._left_over(walker):
            if not self.recover(record, self.skipped + walker.skipped):
                self.position = record.offset
                break
        else:
            self.position = max(self.position, walker.position)
        self.skipped += walker.skipped

    def _left_over(self, walker: Walker) -> Iterator[LogRecord]:
        """The records of a walk that are not entered together with others."""
        for found in walker.spans():
            if isinstance(found, LogRecord):
                yield found
            elif self.enter_span(found) is None:
                yield from walker.one_by_one(found)

    def _halt(self, record: Arrival, error: Exception) -> bool:
        """There is no space to enter a record: have `advance` try again, and messages refused until then. False."""
        if not self.stuck:
            self.stuck = True
            self._flags.set(Flag.LOGIC_DISK_FULL)
            log.error(
                "queue %d of topic %s or the index cannot take offset %d: %s; messages are refused until it can",
                record.queue_id,
                record.topic,
                record.queue_offset,
                error,
            )
        return False

    def _resume(self) -> None:
        self.stuck = False
        self._flags.clear(Flag.LOGIC_DISK_FULL)
        log.info("consume queues can be written again, dispatching resumes at %d", self.position)
