"""Acknowledging popped messages, and the file in which a broker keeps the state of ordered pops.

A set of acknowledged messages is a bit set, least significant bit first: bit i of byte n stands for the offset
`start_offset + 8 * n + i`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bounds import ResourceName, declared
from pyromq.protocol.errors import BodyError

MAX_ACK_SPAN = 1 << 20  # offsets one acknowledgement may span


def ack_bits(positions: Iterable[int]) -> bytes:
    """The bit set of positions counted from the start offset.

    >>> ack_bits([0, 2, 9]).hex()
    '0502'

    Raises `BodyError` for a position below 0 or beyond `MAX_ACK_SPAN`.
    """
    bits = bytearray()
    for position in positions:
        if not 0 <= position < MAX_ACK_SPAN:
            raise BodyError(f"position {position} is outside of an acknowledgement (0 to {MAX_ACK_SPAN - 1})")
        index, bit = divmod(position, 8)
        if index >= len(bits):
            bits.extend(bytes(index + 1 - len(bits)))
        bits[index] |= 1 << bit
    return bytes(bits)


def ack_positions(bits: bytes) -> Iterator[int]:
    """The positions in a bit set, ascending. Raises `BodyError` when it spans more than `MAX_ACK_SPAN`."""
    if len(bits) > MAX_ACK_SPAN // 8:
        raise BodyError(f"acknowledgement of {len(bits)} bytes spans more than {MAX_ACK_SPAN} offsets")
    return (8 * index + bit for index, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1)


class BatchAck(Body):
    """Messages of one checkpoint that are done. Long member names are read as well."""

    renamed: ClassVar[Mapping[str, str]] = {
        "bitSet": "b",
        "consumerGroup": "c",
        "invisibleTime": "it",
        "popTime": "pt",
        "queueId": "q",
        "retry": "r",
        "reviveQueueId": "rq",
        "startOffset": "so",
        "topic": "t",
    }

    bits: Annotated[bytes, declared(bounds.ACK_BITS)] = field(default=b"", name="b")
    consumer_group: ResourceName = field(default="", name="c")
    invisible_time: Long = field(default=0, name="it")
    pop_time: Long = field(default=0, name="pt")
    queue_id: Int = field(default=0, name="q")
    retry: ResourceName = field(default="0", name="r")
    revive_queue_id: Int = field(default=0, name="rq")
    start_offset: Long = field(default=0, name="so")
    topic: ResourceName = field(default="", name="t")

    def offsets(self) -> Iterator[int]:
        """The queue offsets that are acknowledged, ascending."""
        return (self.start_offset + position for position in ack_positions(self.bits))


class BatchAckBody(Body):
    renamed: ClassVar[Mapping[str, str]] = BatchAck.renamed

    acks: Annotated[list[BatchAck], declared(bounds.ACKS)] = field(default_factory=list)
    broker_name: ResourceName | None = None


class OrderInfo(Body):
    """One ordered pop: each entry of `offsets` after the first is the distance to the first."""

    attempt_id: str | None = field(default=None, name="a")
    commit_bits: Long = field(default=0, name="cm")
    consumed_counts: dict[Long, Int] | None = field(default=None, name="oc")
    invisible_time: Long | None = field(default=None, name="i")
    last_consume_timestamp: Long = field(default=0, name="l")
    next_visible_times: dict[Long, Long] | None = field(default=None, name="ot")
    offsets: list[Long] = field(default_factory=list, name="o")
    pop_time: Long = 0


class ConsumerOrderTable(Body):
    """`topic@group` to queue id to the last ordered pop: file `consumerOrderInfo.json`."""

    table: dict[str, dict[Int, OrderInfo]] = field(default_factory=dict)
