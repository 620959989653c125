"""How far each group has popped each queue: checkpoints that hold back its consumer offset, from oldest to newest.

A queue is popped from behind its newest checkpoint. The consumer offset follows once the oldest one is certain: on
disk, or fully acknowledged before it was even stored. So a crash may give messages out again, but never skips one.

With `enablePopBufferMerge` a checkpoint is not stored at once; most are acknowledged meanwhile and never are.
"""

import heapq
import itertools
from collections import deque
from dataclasses import dataclass

from pyromq.broker.core import Core
from pyromq.broker.pace import Paced
from pyromq.broker.pop.records import PopCheckpoint, PopCheckpointKey
from pyromq.broker.pop.revivelog import ReviveLog

QueueKey = tuple[str, str, int]
"""Topic, group, queue."""

TRY_AGAIN_MS = 100
"""After which a checkpoint is written again that the store refused."""
LOOK_AGAIN = 0.02
"""Seconds between looks at how far the disk has got."""


@dataclass(slots=True, eq=False)
class _Pending:
    """A checkpoint and the offset that the group has reached with it; without one, only messages that were passed."""

    key: QueueKey
    next_offset: int
    checkpoint: PopCheckpoint | None
    revive_queue: int
    bits: int = 0
    """Messages acknowledged here."""
    end: int = -1
    """Where its record ends in the log, once it was written."""

    def certain(self, flushed: int) -> bool:
        if self.checkpoint is None:
            return True
        return self.end <= flushed if self.end >= 0 else self.all_done

    @property
    def all_done(self) -> bool:
        return self.checkpoint is not None and self.bits == (1 << self.checkpoint.count) - 1


class PopBuffer:
    """`step` does what is due; see `pace.Step`."""

    def __init__(self, core: Core, log: ReviveLog) -> None:
        self._config = core.config
        self._store = core.store
        self._offsets = core.offsets
        self._clock = core.clock
        self._log = log
        self.pace = Paced(self.step)
        self._queues: dict[QueueKey, deque[_Pending]] = {}
        self._by_key: dict[PopCheckpointKey, _Pending] = {}
        self._to_store: list[tuple[int, int, _Pending]] = []
        self._to_flush: deque[_Pending] = deque()
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._by_key)

    def next_offset(self, key: QueueKey) -> int | None:
        """Behind the newest checkpoint of a queue; None when none is pending."""
        pending = self._queues.get(key)
        return pending[-1].next_offset if pending else None

    def full(self, key: QueueKey) -> bool:
        """Whether so much of a queue is uncertain that no more should be given out."""
        return len(self._queues.get(key, ())) >= self._config.pop_ck_offset_max_queue_size

    def add(self, checkpoint: PopCheckpoint, next_offset: int, revive_queue: int) -> bool:
        """Note what is about to be given out; False when the very same is pending, then it must not be."""
        if checkpoint.key in self._by_key:
            return False
        key = checkpoint.topic, checkpoint.group, checkpoint.queue_id
        pending = _Pending(key, next_offset, checkpoint, revive_queue)
        self._by_key[checkpoint.key] = pending
        self._queues.setdefault(key, deque()).append(pending)
        stays = self._stays_until(checkpoint)
        if stays is None:
            self._keep(pending)
        else:
            self._keep_later(pending, stays)
        self.pace.wake()
        return True

    def skip(self, key: QueueKey, next_offset: int) -> None:
        """Nothing up to an offset was wanted: the group is past it, as soon as what is pending before is certain."""
        pending = self._queues.get(key)
        if pending:
            pending.append(_Pending(key, next_offset, None, 0))
        else:
            self._commit(key, next_offset)

    def acknowledge(self, key: PopCheckpointKey, offset: int) -> bool:
        """Messages of checkpoints that were not stored are acknowledged here; False: it must be written."""
        pending = self._by_key.get(key)
        if pending is None or pending.end >= 0 or pending.checkpoint is None:
            return False
        offsets = pending.checkpoint.offsets()
        if offset not in offsets:
            return False
        pending.bits |= 1 << offsets.index(offset)
        if pending.all_done:
            self._settle(pending.key)
        return True

    def forget(self, key: QueueKey) -> None:
        """The group's position was set: what is pending no longer says anything about it."""
        for pending in self._queues.pop(key, ()):
            if pending.checkpoint is not None:
                self._by_key.pop(pending.checkpoint.key, None)
                if pending.end < 0 and not pending.all_done:
                    self._write(pending)

    def forget_topic(self, topic: str) -> None:
        """The same for all queues of a topic that is deleted."""
        for key in [key for key in self._queues if key[0] == topic]:
            self.forget(key)

    def step(self) -> float | None:
        """Store what has been kept long enough, and move offsets to what is on disk by now."""
        now = self._clock()
        while self._to_store and self._to_store[0][0] <= now:
            _, _, pending = heapq.heappop(self._to_store)
            if self._wants_storing(pending):
                self._keep(pending)
        flushed = self._store.progress.flushed
        while self._to_flush and self._to_flush[0].end <= flushed:
            self._settle(self._to_flush.popleft().key)
        if self._to_flush:
            return LOOK_AGAIN
        return max(self._to_store[0][0] - now, 1) / 1000 if self._to_store else None

    def store_all(self) -> None:
        """Store what is only here, for a stop in order."""
        kept, self._to_store = self._to_store, []
        for _, _, pending in sorted(kept):
            if self._wants_storing(pending):
                self._keep(pending)

    def _stays_until(self, checkpoint: PopCheckpoint) -> int | None:
        """When a checkpoint is stored at the latest; None for at once."""
        config, now = self._config, self._clock()
        if not config.enable_pop_buffer_merge or len(self._to_store) >= config.pop_ck_max_buffer_size:
            return None
        until = min(now + config.pop_ck_stay_buffer_time, checkpoint.due - config.pop_ck_stay_buffer_time_out)
        return until if until > now else None

    def _keep(self, pending: _Pending) -> None:
        if self._write(pending):
            self._to_flush.append(pending)
        else:
            self._keep_later(pending, self._clock() + TRY_AGAIN_MS)

    def _write(self, pending: _Pending) -> bool:
        checkpoint = pending.checkpoint
        if checkpoint is None:
            return True
        # A Java int: the highest of 32 bits is its sign.
        checkpoint.bits = pending.bits - (1 << 32) if pending.bits >= 1 << 31 else pending.bits
        result = self._log.note(checkpoint, pending.revive_queue)
        if result.stored:
            pending.end = result.end
        return result.stored

    def _keep_later(self, pending: _Pending, when: int) -> None:
        heapq.heappush(self._to_store, (when, next(self._numbers), pending))

    def _wants_storing(self, pending: _Pending) -> bool:
        if pending.checkpoint is None or pending.end >= 0 or pending.all_done:
            return False
        return self._by_key.get(pending.checkpoint.key) is pending

    def _settle(self, key: QueueKey) -> None:
        """Move a group's offset behind the oldest checkpoints that are certain."""
        queue = self._queues.get(key)
        if queue is None:
            return
        flushed, reached = self._store.progress.flushed, -1
        while queue and queue[0].certain(flushed):
            pending = queue.popleft()
            reached = pending.next_offset
            if pending.checkpoint is not None:
                self._by_key.pop(pending.checkpoint.key, None)
        if not queue:
            del self._queues[key]
        if reached >= 0:
            self._commit(key, reached)

    def _commit(self, key: QueueKey, offset: int) -> None:
        topic, group, queue_id = key
        self._offsets.commit(group, topic, queue_id, offset)
