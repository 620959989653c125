"""The records of the revive topic, in Apache's form, and how they get there: as timed messages.

A checkpoint says which messages of a queue one pop gave out; it arrives in its revive queue a second before these
become visible again, what acknowledges some of them just then. So in each queue a checkpoint comes before its
acknowledgements.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType, field

from pyromq.broker.config import BrokerConfig
from pyromq.protocol import names
from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.handles.pop import PopHandle
from pyromq.protocol.properties import Property, encode_properties
from pyromq.protocol.records.host import pack_host
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.messagestore import MessageStore

CHECKPOINT: Final = "ck"
ACK: Final = "ack"
BATCH_ACK: Final = "bAck"
POSITION: Final = "pos"
"""Not Apache's, which passes over tags that it does not know."""
EARLIER_MS: Final = 1_000
"""How long before it is due a checkpoint arrives."""
MAX_MESSAGES: Final = 32
"""Of one checkpoint: its bits are a 32-bit number."""

PopCheckpointKey = tuple[str, str, int, int, int, str]
"""Topic, group, queue, start offset, pop time, broker: what tells two checkpoints apart."""

_encode = msgspec.json.Encoder().encode


class PopCheckpoint(Body):
    """What one pop gave out of one queue. `topic` is where the messages are stored, it may be a retry topic."""

    bits: Int = field(default=0, name="bm")
    """Bit i: message i is acknowledged already."""
    broker_name: str = field(default="", name="bn")
    group: str = field(default="", name="c")
    distances: list[Int] | UnsetType = field(default=UNSET, name="d")
    """Of each message to the start offset; without them, message i is at start + i."""
    invisible_time: Long = field(default=0, name="it")
    count: Int = field(default=0, name="n")
    pop_time: Long = field(default=0, name="pt")
    queue_id: Int = field(default=0, name="q")
    revive_offset: Long = field(default=0, name="ro")
    attempts: str | UnsetType = field(default=UNSET, name="rp")
    """How often it was written again because a message could not be brought back."""
    start_offset: Long = field(default=0, name="so")
    topic: str = field(default="", name="t")

    @property
    def due(self) -> int:
        """When its messages become visible again."""
        return self.pop_time + self.invisible_time

    @property
    def key(self) -> PopCheckpointKey:
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name

    def offsets(self) -> Sequence[int]:
        """The queue offset of each message; never more than there are bits."""
        if isinstance(self.distances, UnsetType):
            return range(self.start_offset, self.start_offset + min(max(self.count, 0), MAX_MESSAGES))
        return [self.start_offset + distance for distance in self.distances[:MAX_MESSAGES]]

    def encode(self) -> bytes:
        return _encode(self)


class AckRecord(Body):
    """Acknowledges messages of a checkpoint: one, or in a batch several, and then `acked_offset` is -1."""

    acked_offset: Long = field(default=0, name="ao")
    acked_offsets: list[Long] | UnsetType = field(default=UNSET, name="aol")
    broker_name: str = field(default="", name="bn")
    group: str = field(default="", name="c")
    pop_time: Long = field(default=0, name="pt")
    queue_id: Int = field(default=0, name="q")
    start_offset: Long = field(default=0, name="so")
    topic: str = field(default="", name="t")

    @property
    def key(self) -> PopCheckpointKey:
        """Of the checkpoint."""
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name

    def offsets(self) -> list[int]:
        return [self.acked_offset] if isinstance(self.acked_offsets, UnsetType) else self.acked_offsets

    def encode(self) -> bytes:
        return _encode(self)


class PopPosition(Body):
    """How far a group is in a queue for certain; -1: what was popped so far no longer says so."""

    group: str = field(default="", name="c")
    offset: Long = field(default=-1, name="o")
    queue_id: Int = field(default=0, name="q")
    topic: str = field(default="", name="t")

    def encode(self) -> bytes:
        return _encode(self)


class ReviveLog:
    """Writes records. Whether they were stored, and are safe, is in the result; nothing is raised."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        clock: Callable[[], int],
        put: Callable[[PutMessage], PutResult] | None = None,
    ) -> None:
        self.topic = names.revive_topic(config.broker_cluster_name)
        self.queues = config.revive_queue_num
        self._store = store
        self._clock = clock
        self._put_message = put
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
        return (self._put_message or self._store.put)(
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
