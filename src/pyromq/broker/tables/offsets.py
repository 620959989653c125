"""Where each group stands in each queue: `config/consumerOffset.json` in memory, saved every few seconds.

Offsets may move backwards: a client or an admin is allowed to. A reset asked for by an admin waits here until the
consumer pulls; until then commits of that queue are ignored, since they stem from before the reset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from pyromq.broker.errors import Refused
from pyromq.broker.tables.periodicfile import PeriodicFile
from pyromq.configfile import read_config
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.codes import ResponseCode

MAX_KEYS = 1_000_000


class ConsumerOffsets:
    """`topic@group` → queue id → next offset to consume."""

    def __init__(self, path: Path, clock: Callable[[], int], *, version_step: int = 500, follows: bool = False) -> None:
        self._file = PeriodicFile(path, "offsetTable", self._copies)
        self._clock = clock
        self._version_step = version_step
        self._commits = 0
        self._table: dict[str, dict[int, int]] = {}
        self._pulled: dict[str, dict[int, int]] = {}
        self.resets: dict[str, dict[int, int]] = {}
        """Those that were not picked up, by the same keys."""
        self.version = DataVersion(timestamp=clock())
        self.listeners: list[Callable[[str, str, int], None]] = []
        """Told when a group begins again at an earlier place of a queue, or (-1) of all queues of a topic."""
        self.unshared: dict[str, dict[int, int]] | None = {} if follows else None
        """On a slave: what consumers committed here and its master has not been told; None where there is no master."""

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._file.path, ConsumerOffsetTable.decode)
        if stored is not None:
            self.replace_all(stored)
            self._file.start_with(self._table)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The stored offset, or a reset that was not picked up yet; None when there is neither."""
        key = f"{topic}@{group}"
        reset = self.resets.get(key)
        if reset is not None and queue_id in reset:
            return reset[queue_id]
        queues = self._table.get(key)
        return None if queues is None else queues.get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store an offset that a consumer reports; False when a pending reset makes it void."""
        key = f"{topic}@{group}"
        reset = self.resets.get(key)
        if reset is not None and queue_id in reset:
            return False
        self._set(key, queue_id, offset)
        if self.unshared is not None:
            self.unshared.setdefault(key, {})[queue_id] = offset
        return True

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember how far the group has pulled, which runs ahead of what it committed."""
        self.pulled_at(f"{topic}@{group}", queue_id, offset)

    def pulled_at(self, key: str, queue_id: int, offset: int) -> None:
        """The same with the key of its topic and group, `topic@group`."""
        queues = self._pulled.get(key)
        if queues is None:
            if len(self._pulled) >= MAX_KEYS:
                return
            queues = self._pulled[key] = {}
        queues[queue_id] = offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """How far the group has pulled since the broker started."""
        return self._pulled.get(f"{topic}@{group}", {}).get(queue_id)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move the group; its next pull of the queue is told to resume here."""
        key = f"{topic}@{group}"
        self._set(key, queue_id, offset)
        self.resets.setdefault(key, {})[queue_id] = offset

    def has(self, key: str) -> bool:
        """Whether there are offsets of a topic and group, `topic@group`."""
        return key in self._table

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The pending reset of the queue, which is thereby picked up."""
        if not self.resets:
            return None
        key = f"{topic}@{group}"
        pending = self.resets.get(key)
        if pending is None:
            return None
        offset = pending.pop(queue_id, None)
        if not pending:
            del self.resets[key]
        return offset

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """All stored offsets of a group in a topic."""
        return dict(self._table.get(f"{topic}@{group}", {}))

    def topics_of(self, group: str) -> set[str]:
        """Topics the group has offsets in."""
        return {topic for topic, owner in self.pairs() if owner == group}

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have offsets in the topic."""
        return {owner for name, owner in self.pairs() if name == topic}

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give the target group the source's offsets in the topic."""
        for queue_id, offset in self.queues(source, topic).items():
            self._set(f"{topic}@{target}", queue_id, offset)

    def forget_group(self, group: str) -> None:
        """Drop everything of a group."""
        self._forget(lambda _topic, owner: owner == group)

    def forget_topic(self, topic: str) -> None:
        """Drop everything in a topic."""
        self._forget(lambda name, _owner: name == topic)

    def table(self) -> ConsumerOffsetTable:
        """The table as it is persisted and sent to slaves."""
        return ConsumerOffsetTable(
            offset_table={key: dict(queues) for key, queues in self._table.items()}, data_version=self.version
        )

    def replace_all(self, table: ConsumerOffsetTable) -> None:
        """Take over a stored or a master's table."""
        self._file.dirty.update(self._table, table.offset_table)
        self._table = {key: dict(queues) for key, queues in table.offset_table.items()}
        self.version = table.data_version or self.version

    def raise_to(self, table: ConsumerOffsetTable, bound: Callable[[str, int], int]) -> int:
        """Take over what was committed elsewhere where that is further on, but not beyond `bound`; how much that is.

        For a master that was away: a message that was consumed meanwhile is not consumed again, and none is skipped.
        """
        raised = 0
        for key, queues in table.offset_table.items():
            known, (topic, _) = self._table.get(key, {}), _split(key)
            for queue_id, offset in queues.items():
                within = min(offset, bound(topic, queue_id))
                if within > known.get(queue_id, -1):
                    self._set(key, queue_id, within)
                    raised += 1
        return raised

    def hold_to(self, end: Callable[[str, str, int], int]) -> list[tuple[str, str, int, int, int]]:
        """Set back what is beyond the end of its queue; topic, group, queue, offset and end of each."""
        found = []
        for key, queues in self._table.items():
            topic, group = _split(key)
            for queue_id, offset in queues.items():
                last = end(topic, group, queue_id)
                if offset > last:
                    found.append((topic, group, queue_id, offset, last))
        for topic, group, queue_id, _, last in found:
            self._set(f"{topic}@{group}", queue_id, last)
        return found

    def take_unshared(self, limit: int) -> list[tuple[str, str, int, int]]:
        """Some of what the master has not been told: topic, group, queue and offset."""
        pending = self.unshared or {}
        taken: list[tuple[str, str, int, int]] = []
        while pending and len(taken) < limit:
            key = next(iter(pending))
            topic, group = _split(key)
            taken += [(topic, group, queue_id, offset) for queue_id, offset in pending.pop(key).items()]
        return taken

    def merge(self, table: ConsumerOffsetTable) -> None:
        """Take over what a master knows; what only this broker knows stays."""
        for key, queues in table.offset_table.items():
            known = self._table.get(key)
            if known is None:
                known = self._table[key] = {}
            if any(known.get(queue_id) != offset for queue_id, offset in queues.items()):
                known.update(queues)
                self._file.dirty.add(key)
        self.version = table.data_version or self.version

    def persist(self) -> None:
        """Write the file, if anything changed since the last time. Blocks. Raises OSError."""
        self._file.persist(self.version)

    async def save(self) -> None:
        """The same in a thread, with the offsets as they are now. A failure leaves them to be written next time."""
        await self._file.save(self.version)

    def _copies(self, keys: Iterable[str]) -> Mapping[str, dict[int, int] | None]:
        table = self._table
        return {key: dict(queues) if (queues := table.get(key)) is not None else None for key in keys}

    def _set(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._table.get(key)
        if queues is None:
            if len(self._table) >= MAX_KEYS:
                raise Refused(
                    ResponseCode.SYSTEM_BUSY,
                    f"offsets of {MAX_KEYS} topics and groups are stored already: delete groups that are not used",
                )
            queues = self._table[key] = {}
        if offset < queues.get(queue_id, 0):
            self._set_back(key, queue_id)
        queues[queue_id] = offset
        self._file.dirty.add(key)
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.version = self.version.next(self._clock())

    def _set_back(self, key: str, queue_id: int) -> None:
        for listener in self.listeners:
            listener(*_split(key), queue_id)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Topic and group of everything stored."""
        for key in self._table:
            topic, separator, group = key.partition("@")
            if separator:
                yield topic, group

    def _forget(self, matches: Callable[[str, str], bool]) -> None:
        for table in (self._table, self._pulled, self.resets):
            for key in [key for key in table if matches(*_split(key))]:
                del table[key]
                self._file.dirty.add(key)
                if table is self._table:
                    self._set_back(key, -1)


def _split(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group
