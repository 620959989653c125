"""The records of the revive topic, in Apache's form: checkpoints, what acknowledges them, and positions."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType, field

from pyromq.protocol.bodies.base import Body, Int, Long

CHECKPOINT: Final = "ck"
ACK: Final = "ack"
BATCH_ACK: Final = "bAck"
POSITION: Final = "pos"
"""Not Apache's, which passes over tags that it does not know."""
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
