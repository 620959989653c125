"""Revival: reads the revive queues, and brings back what was given out and not acknowledged in time.

A checkpoint is dealt with when everything timed for up to two seconds after it is due has arrived and was read: its
acknowledgements are known then. The stored offset of a revive queue is the last entry dealt with, and it is stored when
what was brought back is on disk; so a crash may bring messages back twice, but forgets none.
"""

import logging
from collections import deque

import msgspec

from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.pace import Paced
from pyromq.broker.pop.comeback import CannotReturnError, Comeback, StoreBusyError, TopicUnsavedError
from pyromq.broker.pop.records import ACK, BATCH_ACK, CHECKPOINT, AckRecord, PopCheckpoint, PopCheckpointKey
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.protocol import names
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.properties import Property, find_property
from pyromq.protocol.records.record import peek_record
from pyromq.store.queue.read import GetStatus

log = logging.getLogger(__name__)

GRACE_MS = 2_000
"""How long after its time an acknowledgement still counts."""
READ_AT_ONCE = 32
MAX_CHECKPOINTS = 50_000
"""Of one queue that wait to be dealt with; no more is read then."""
LOOK_AGAIN = 0.2
AFTER_REFUSAL = 1.0
UNTIL_SAVED = 0.05
LONGEST_NAP = 1.0
AGAIN_AFTER_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How much longer what could not be brought back stays invisible, by attempt."""


class _Entry:
    """A checkpoint that was read, with what is done of it."""

    __slots__ = ("checkpoint", "end", "offsets", "revive_offset", "undone")

    def __init__(self, checkpoint: PopCheckpoint, revive_offset: int) -> None:
        self.checkpoint = checkpoint
        self.revive_offset = revive_offset
        self.offsets: set[int] = set()
        self.undone: set[int] = set()
        self.end = 0
        """Where the last record written for it ends in the log."""
        self.add(checkpoint)

    def add(self, checkpoint: PopCheckpoint) -> None:
        """Take in what a checkpoint of this key gave out; what is known already stays as it is."""
        offsets = checkpoint.offsets()
        undone = {offset for index, offset in enumerate(offsets) if not checkpoint.bits >> index & 1}
        self.undone |= undone - self.offsets
        self.offsets.update(offsets)


class ReviveQueue:
    """One queue of the revive topic."""

    def __init__(
        self, queue_id: int, core: Core, revive_log: ReviveLog, comeback: Comeback, timer: TimerDelivery
    ) -> None:
        self._queue_id = queue_id
        self._config = core.config
        self._store = core.store
        self._offsets = core.offsets
        self._log = revive_log
        self._comeback = comeback
        self._timer = timer
        self._entries: dict[PopCheckpointKey, _Entry] = {}
        self._finished: deque[_Entry] = deque()
        self._early: dict[PopCheckpointKey, set[int]] = {}
        """On a slave that acts for its master: what is acknowledged of checkpoints that have not come yet."""
        self._seen_until = 0
        """Everything timed for before this was read."""
        self._mark: tuple[int, int] | None = None
        self.reload()

    def reload(self) -> None:
        """Begin where the stored offset is, with nothing in mind."""
        self._entries.clear()
        self._finished.clear()
        self._early.clear()
        stored = self._offsets.get(names.REVIVE_GROUP, self._log.topic, self._queue_id)
        self._committed = -1 if stored is None else stored
        self._next = self._committed + 1

    @property
    def waiting(self) -> int:
        """Checkpoints that were read and not dealt with."""
        return len(self._entries)

    @property
    def oldest_due(self) -> int | None:
        """When the messages of the first checkpoint become visible that was not dealt with."""
        return min((entry.checkpoint.due for entry in self._entries.values()), default=None)

    def behind(self) -> int:
        """Entries not read yet."""
        return max(0, self._store.max_offset(self._log.topic, self._queue_id) - self._next)

    def step(self) -> float | None:
        """Read some entries, or deal with a checkpoint; see `pace.Step`."""
        if self.behind() and len(self._entries) < MAX_CHECKPOINTS:
            self._read()
            return 0.0
        self._look_at_time()
        self._commit()
        entry = next(iter(self._entries.values()), None)
        if entry is not None and self._seen_until - entry.checkpoint.due > GRACE_MS:
            return self._deal_with(entry)
        return LOOK_AGAIN if self._entries or self._finished else None

    def _read(self) -> None:
        result = self._store.get(self._log.topic, self._queue_id, self._next, READ_AT_ONCE)
        if result.status is GetStatus.FOUND:
            for record, offset in zip(result.records(), result.queue_offsets, strict=True):
                self._note(record, offset)
        elif result.next_offset == self._next:
            raise StoreBusyError(f"revive queue {self._queue_id} cannot be read at {self._next}: {result.status.name}")
        self._next = result.next_offset

    def _note(self, record: memoryview, offset: int) -> None:
        try:
            summary = peek_record(record, 0)
            tag = find_property(summary.properties, Property.TAGS)
        except ProtocolError as error:
            log.warning("entry %d of revive queue %d is passed over: %s", offset, self._queue_id, error)
            return
        self.note(tag, record[summary.body_start : summary.body_end], offset)

    def note(self, tag: str | None, body: bytes | bytearray | memoryview, offset: int | None = None) -> None:
        """Take in an entry; without an offset, one that a slave which acts for its master cannot store."""
        early = offset is None and len(self._early) < MAX_CHECKPOINTS
        offset = self._committed if offset is None else offset
        try:
            if tag == CHECKPOINT:
                checkpoint = PopCheckpoint.decode(body)
                entry = self._entries.get(checkpoint.key)
                if entry is None:
                    self._entries[checkpoint.key] = _Entry(checkpoint, offset)
                else:
                    # Delivered again by the timer after a crash; or given out again in the very same millisecond.
                    entry.add(checkpoint)
                self._entries[checkpoint.key].undone.difference_update(self._early.pop(checkpoint.key, ()))
            elif tag in (ACK, BATCH_ACK):
                ack = AckRecord.decode(body)
                entry = self._entries.get(ack.key)
                if entry is not None:
                    entry.undone.difference_update(ack.offsets())
                elif early:
                    self._early.setdefault(ack.key, set()).update(ack.offsets())
        except ProtocolError as error:
            log.warning("entry %d of revive queue %d is passed over: %s", offset, self._queue_id, error)

    def _look_at_time(self) -> None:
        """Find out up to when everything timed was read: delivered first, then visible, then read."""
        if self._mark is None:
            self._mark = self._timer.read_time, self._store.max_physical_offset
        until, end = self._mark
        if self._store.progress.dispatched >= end and (not self.behind() or len(self._entries) >= MAX_CHECKPOINTS):
            self._seen_until, self._mark = until, None  # less than before when the clock was set back

    def _deal_with(self, entry: _Entry) -> float:
        checkpoint = entry.checkpoint
        if self._comeback.wanted(checkpoint):
            try:
                for offset in sorted(entry.undone):
                    entry.end = max(entry.end, self._bring_back(checkpoint, offset))
                    entry.undone.discard(offset)
            except TopicUnsavedError:
                return UNTIL_SAVED
            except StoreBusyError as error:
                log.warning("messages of %s wait to be brought back: %s", checkpoint.topic, error)
                return AFTER_REFUSAL
        del self._entries[checkpoint.key]
        self._finished.append(entry)
        return 0.0

    def _bring_back(self, checkpoint: PopCheckpoint, offset: int) -> int:
        try:
            return self._comeback(checkpoint, offset)
        except CannotReturnError as error:
            reason = str(error)
        text = str(checkpoint.attempts)
        attempts = min(int(text[:9]), len(AGAIN_AFTER_S)) if text.isascii() and text.isdecimal() else 0
        log.error(
            "message %d in queue %d of %s cannot be brought back to %s, attempt %d: %s",
            offset, checkpoint.queue_id, checkpoint.topic, checkpoint.group, attempts + 1, reason,
        )  # fmt: skip
        if attempts >= len(AGAIN_AFTER_S) and self._config.skip_when_ck_re_put_reach_max_times:
            return 0
        longer = AGAIN_AFTER_S[min(attempts, len(AGAIN_AFTER_S) - 1)] * 1000
        again = msgspec.structs.replace(
            checkpoint,
            bits=0,
            distances=[0],
            invisible_time=checkpoint.invisible_time + longer,
            count=1,
            revive_offset=0,
            attempts=str(attempts + 1),
            start_offset=offset,
        )
        written = self._log.note(again, self._queue_id)
        if not written.stored:
            raise StoreBusyError(f"{written.status.name}: {written.reason}")
        return written.end

    def _commit(self) -> None:
        """Store how far it got, as far as that is on disk."""
        reached, flushed = self._committed, self._store.progress.flushed
        while self._finished and self._finished[0].end <= flushed:
            reached = max(reached, self._finished.popleft().revive_offset)
        if not self._entries and not self._finished:
            reached = self._next - 1  # nothing but acknowledgements that nobody waits for
        if reached != self._committed and reached >= 0:
            self._committed = reached
            self._offsets.commit(names.REVIVE_GROUP, self._log.topic, self._queue_id, reached)


class Revive:
    """All revive queues of a broker, one after the other."""

    def __init__(self, queues: list[ReviveQueue]) -> None:
        self._queues = queues
        self._turn = 0
        self.pace = Paced(self.step, longest_nap=LONGEST_NAP)

    @property
    def waiting(self) -> int:
        """Checkpoints that were read and not dealt with."""
        return sum(queue.waiting for queue in self._queues)

    @property
    def oldest_due(self) -> int | None:
        """When the messages of the first checkpoint become visible that was not dealt with."""
        return min((due for queue in self._queues if (due := queue.oldest_due) is not None), default=None)

    def reload(self) -> None:
        """Begin where the stored offsets are."""
        for queue in self._queues:
            queue.reload()

    def note(self, queue_id: int, tag: str | None, body: bytes | bytearray | memoryview) -> None:
        """Take in an entry that a slave which acts for its master cannot store."""
        if 0 <= queue_id < len(self._queues):
            self._queues[queue_id].note(tag, body)
        self.pace.wake()

    def step(self) -> float | None:
        """One step of the first queue that has work, beginning behind the last one that had; see `pace.Step`."""
        pauses: list[float] = []
        for number in range(len(self._queues)):
            turn = (self._turn + number) % len(self._queues)
            pause = self._queues[turn].step()
            if pause is not None and pause <= 0:
                self._turn = (turn + 1) % len(self._queues)
                return 0.0
            if pause is not None:
                pauses.append(pause)
        return min(pauses, default=None)
