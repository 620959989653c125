"""How records get into the revive topic: as timed messages.

A checkpoint says which messages of a queue one pop gave out; it arrives in its revive queue a second before these
become visible again, what acknowledges some of them just then. So in each queue a checkpoint comes before its
acknowledgements.
"""

from collections.abc import Sequence
from typing import Final

from pyromq.broker.core import Core
from pyromq.broker.pop.records import ACK, BATCH_ACK, CHECKPOINT, POSITION, AckRecord, PopCheckpoint, PopPosition
from pyromq.broker.replication.succession.onward import Onward
from pyromq.protocol import names
from pyromq.protocol.handles.pop import PopHandle
from pyromq.protocol.properties import Property, encode_properties
from pyromq.protocol.records.host import pack_host
from pyromq.store.log.put import PutMessage, PutResult

EARLIER_MS: Final = 1_000
"""How long before it is due a checkpoint arrives."""


class ReviveLog:
    """Writes records. Whether they were stored, and are safe, is in the result; nothing is raised."""

    def __init__(self, core: Core, onward: Onward) -> None:
        self.topic = names.revive_topic(core.config.broker_cluster_name)
        self.queues = core.config.revive_queue_num
        self._store = core.store
        self._clock = core.clock
        self._onward = onward
        self._noted: dict[tuple[str, str], set[int]] = {}
        """Topic and group → queues whose positions a start would find in the log."""

    def noted(self, topic: str, group: str, *queue_ids: int) -> None:
        """The log has positions of a group in these queues."""
        self._noted.setdefault((topic, group), set()).update(queue_ids)

    def note(self, checkpoint: PopCheckpoint, revive_queue: int) -> PutResult:
        """Write a checkpoint."""
        ck = checkpoint
        key = f"{ck.topic}@{ck.queue_id}@{ck.start_offset}@{ck.group}@{ck.pop_time}@{ck.broker_name}@{CHECKPOINT}"
        self.noted(ck.topic, ck.group, ck.queue_id)
        return self._put(CHECKPOINT, key, ck.encode(), revive_queue, ck.due - EARLIER_MS)

    def acknowledge(self, handle: PopHandle, topic: str, group: str, offsets: Sequence[int]) -> PutResult:
        """Write that messages of a handle's checkpoint are done; `topic` is where they are stored."""
        record = AckRecord(
            broker_name=handle.broker_name,
            group=group,
            pop_time=handle.pop_time,
            queue_id=handle.queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        tag = ACK
        if len(offsets) == 1:
            record.acked_offset = offsets[0]
        else:
            tag, record.acked_offset, record.acked_offsets = BATCH_ACK, -1, list(offsets)
        key = f"{topic}@{handle.queue_id}@{record.acked_offset}@{group}@{handle.pop_time}@{handle.broker_name}@{ACK}"
        return self._put(tag, key, record.encode(), handle.revive_queue, handle.due)

    def reached(self, topic: str, group: str, queue_id: int, offset: int) -> PutResult:
        """Write that a group is so far, for a start that reads the end of the log."""
        self.noted(topic, group, queue_id)
        return self._place(topic, group, queue_id, offset)

    def void(self, topic: str, group: str, queue_id: int) -> None:
        """Write that what a group popped of a queue, or (-1) of all queues, no longer says where it is; if it popped.

        Should the store refuse that, a start within the next seconds may undo what was done by hand.
        """
        queues = self._noted.get((topic, group), set())
        for each in list(queues) if queue_id < 0 else queues & {queue_id}:
            queues.discard(each)
            self._place(topic, group, each, -1)
        if not queues:
            self._noted.pop((topic, group), None)

    def _place(self, topic: str, group: str, queue_id: int, offset: int) -> PutResult:
        position = PopPosition(group=group, offset=offset, queue_id=queue_id, topic=topic)
        return self._put(POSITION, f"{topic}@{queue_id}@{offset}@{group}@{POSITION}", position.encode(), 0)

    def _put(self, tag: str, key: str, body: bytes, revive_queue: int, deliver_at: int | None = None) -> PutResult:
        properties = {Property.TAGS: tag, Property.UNIQ_KEY: key, Property.WAIT: "true"}
        if deliver_at is not None:
            properties[Property.TIMER_DELIVER_MS] = str(deliver_at)
        return self._onward.put(
            PutMessage(
                self.topic,
                revive_queue,
                body,
                encode_properties(properties),
                properties,
                born_timestamp=self._clock(),
                born_host=pack_host(self._store.store_host),
            )
        )
