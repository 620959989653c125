"""Ordered pops: of each queue a group has one batch at a time, and gets no more of it before that is dealt with.

No records are written: a queue's batch, what of it is acknowledged and how often each message was given out before are
kept here, in `config/consumerOrderInfo.json` and in memory. The consumer offset is that of the first message not done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from pyromq.broker.tables.periodicfile import PeriodicFile
from pyromq.configfile import read_config
from pyromq.protocol.bodies.pop import ConsumerOrderTable, OrderInfo

IDLE_MS = 24 * 3_600_000


class AckOutcome(Enum):
    """Why an acknowledgement moves no offset."""

    OUTDATED = "it belongs to an earlier batch"
    UNKNOWN = "the message is not in the batch"


class OrderedBatches:
    """`topic@group` → queue id → the last batch given out."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._file = PeriodicFile(path, "table", self._copies)
        self._clock = clock
        self._table: dict[str, dict[int, OrderInfo]] = {}

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._file.path, ConsumerOrderTable.decode)
        if stored is not None:
            self._table = stored.table
            self._file.start_with(self._table)

    def persist(self) -> None:
        """Write the file, if anything changed since the last time, without what nobody touched for a day. Blocks."""
        self._drop_idle()
        self._file.persist()

    async def save(self) -> None:
        """The same in a thread, with the batches as they are now."""
        self._drop_idle()
        await self._file.save()

    def _copies(self, keys: Iterable[str]) -> Mapping[str, dict[int, OrderInfo] | None]:
        there = {key: self._table[key] for key in keys if key in self._table}
        return dict.fromkeys(keys) | self._copied(there)

    @staticmethod
    def _copied(table: Mapping[str, dict[int, OrderInfo]]) -> dict[str, dict[int, OrderInfo]]:
        """For another thread. Members are replaced, never changed in place, so a shallow copy stays as it is."""
        return {
            key: {queue_id: msgspec.structs.replace(batch) for queue_id, batch in queues.items()}
            for key, queues in table.items()
        }

    def blocked_until(
        self, topic: str, group: str, queue_id: int, attempt_id: str | None = None, invisible_time: int = 0
    ) -> int | None:
        """When the next message of a batch that is not done becomes visible; None: the queue can be popped now.

        Whoever repeats the attempt that got the batch gets it again. `invisible_time` stands in for one that was not
        stored.
        """
        batch = self._get(topic, group, queue_id)
        if batch is None or not batch.offsets or (attempt_id and batch.attempt_id == attempt_id):
            return None
        now, invisible = self._clock(), batch.invisible_time or invisible_time
        times = batch.next_visible_times or {}
        visible = [
            times.get(offset, batch.pop_time + invisible)
            for index, offset in enumerate(_offsets(batch))
            if not batch.commit_bits >> index & 1
        ]
        # All of them have to be visible again, or the order of the rest would change.
        return max((time for time in visible if time > now), default=None)

    def popped(
        self,
        topic: str,
        group: str,
        queue_id: int,
        offsets: Sequence[int],
        pop_time: int,
        invisible_time: int,
        attempt_id: str | None = None,
    ) -> dict[int, int]:
        """Note a batch; returns how often its messages were given out before, of those that ever were."""
        key = f"{topic}@{group}"
        queues = self._table.setdefault(key, {})
        before = queues.get(queue_id)
        counts = {} if before is None else _counts(before, offsets, attempt_id)
        first = offsets[0]
        queues[queue_id] = OrderInfo(
            attempt_id=attempt_id,
            consumed_counts=counts,
            invisible_time=invisible_time,
            last_consume_timestamp=self._clock(),
            offsets=[first, *(offset - first for offset in offsets[1:])],
            pop_time=pop_time,
        )
        self._file.dirty.add(key)
        return counts

    def acknowledge(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> int | AckOutcome:
        """A message is done; returns the consumer offset to commit, or why there is none."""
        batch = self._get(topic, group, queue_id)
        if batch is None:
            return offset + 1
        offsets = _offsets(batch)
        if not offsets:
            return AckOutcome.UNKNOWN
        if pop_time != batch.pop_time:
            return AckOutcome.OUTDATED
        if offset not in offsets:
            return AckOutcome.UNKNOWN
        batch.commit_bits |= 1 << offsets.index(offset)
        batch.last_consume_timestamp = self._clock()
        self._file.dirty.add(f"{topic}@{group}")
        undone = (each for index, each in enumerate(offsets) if not batch.commit_bits >> index & 1)
        return next(undone, offsets[-1] + 1)

    def postpone(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible: int) -> None:
        """Change when a message of the batch becomes visible again."""
        batch = self._get(topic, group, queue_id)
        if batch is not None and batch.pop_time == pop_time and offset in _offsets(batch):
            batch.next_visible_times = {**(batch.next_visible_times or {}), offset: visible}
            self._file.dirty.add(f"{topic}@{group}")

    def table(self) -> ConsumerOrderTable:
        """The table as it is sent to slaves and persisted."""
        return ConsumerOrderTable(table=self._copied(self._table))

    def replace_all(self, table: ConsumerOrderTable) -> None:
        """Take over a master's table."""
        changed = {*self._table, *table.table}
        self._file.dirty.update(key for key in changed if self._table.get(key) != table.table.get(key))
        self._table = table.table

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """The group's position was set: the batch no longer counts."""
        if self._table.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self._file.dirty.add(f"{topic}@{group}")

    def hold_to(self, end: Callable[[str, int], int]) -> list[tuple[str, str, int]]:
        """Forget batches with messages beyond the end of their queue; topic, group and queue of each."""
        found = [
            (*_split(key), queue_id)
            for key, queues in self._table.items()
            for queue_id, batch in queues.items()
            if any(offset >= end(_split(key)[0], queue_id) for offset in _offsets(batch))
        ]
        for topic, group, queue_id in found:
            self.forget(topic, group, queue_id)
        return found

    def forget_topic(self, topic: str) -> None:
        """Drop everything of a topic."""
        self._forget(lambda name, _group: name == topic)

    def forget_group(self, group: str) -> None:
        """Drop everything of a group."""
        self._forget(lambda _topic, name: name == group)

    def _get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self._table.get(f"{topic}@{group}", {}).get(queue_id)

    def _forget(self, matches: Callable[[str, str], bool]) -> None:
        for key in [key for key in self._table if matches(*_split(key))]:
            del self._table[key]
            self._file.dirty.add(key)

    def _drop_idle(self) -> None:
        if not self._file.dirty:
            return
        limit = self._clock() - IDLE_MS
        for key, queues in list(self._table.items()):
            for queue_id in [each for each, batch in queues.items() if batch.last_consume_timestamp < limit]:
                del queues[queue_id]
                self._file.dirty.add(key)
            if not queues:
                del self._table[key]
                self._file.dirty.add(key)


def _offsets(batch: OrderInfo) -> list[int]:
    if not batch.offsets:
        return []
    first, *distances = batch.offsets
    return [first, *(first + distance for distance in distances)]


def _counts(before: OrderInfo, offsets: Sequence[int], attempt_id: str | None) -> dict[int, int]:
    known = before.consumed_counts or {}
    if attempt_id and before.attempt_id == attempt_id:
        return dict(known)
    again = set(_offsets(before))
    return {offset: known.get(offset, 0) + 1 for offset in offsets if offset in again}


def _split(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group
