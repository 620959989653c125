"""Marks: up to where a topic's queues hold what finished batches sent, kept as consumer offsets of private groups.

They are what lets a repeated batch look for its own messages without reading the whole topic. A crash can come after
the marks moved and before Spark noted the batch, which then runs again and must look from where it began. So there are
two groups, for even and for odd batches: batch n begins at the mark that batch n - 1 left, and n moves the other one.
A mark that is too old makes the search longer; it is never too new, since batch n + 1 starts only when n is noted.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import Property
from pyromq.spark.net.wire import Wire
from pyromq.spark.sink.lanes import Run
from pyromq.spark.sink.writabletopic import WritableTopic, commit, committed, max_offsets, messages_between

SOURCE = "PYROMQ_SRC"
SEQUENCE = "PYROMQ_SEQ"
PREFIX = "PYROMQ_SINK_"
_LONGEST_SINK = 40


class Marks(msgspec.Struct, frozen=True):
    """Offsets by parity of the batch that left them."""

    sides: tuple[dict[MessageQueue, int], dict[MessageQueue, int]]

    def before(self, batch: int) -> dict[MessageQueue, int]:
        """Where each queue stood when the batch before this one was finished."""
        return self.sides[(batch + 1) % 2]

    def newest(self) -> dict[MessageQueue, int]:
        """The furthest of each queue."""
        return {queue: max(offset, self.sides[1][queue]) for queue, offset in self.sides[0].items()}


def stem_of(query: str, sink: str) -> str:
    """What names of private groups begin with: short enough for any name of a sink."""
    short = (
        sink
        if len(sink) <= _LONGEST_SINK and sink.isascii() and sink.replace("-", "_").isidentifier()
        else (hashlib.blake2b(sink.encode(), digest_size=8).hexdigest())
    )
    return f"{query}_{short}"


def groups(wire: Wire, query: str, sink: str) -> tuple[str, str]:
    """The private groups of a query's sink, for even and for odd batches, by their names on the wire."""
    stem = f"{PREFIX}{stem_of(query, sink)}"
    return wire.options.wire_name(f"{stem}_0"), wire.options.wire_name(f"{stem}_1")


def read_marks(wire: Wire, target: WritableTopic, names: tuple[str, str], run: Run) -> Marks:
    """The marks; where there is none it becomes the sink's origin in that queue, before anything is sent to it.

    Brokers keep offsets in memory for some seconds: one that crashes may forget marks, but not origins. Where nobody
    knows the origin, it is the other mark or the present end, which is right unless a broker forgot a mark. A mark
    behind the end is of a queue that was made anew, or lost its end with the broker's power: it begins at 0 again.
    Only for the driver, before the tasks start: of two that set a first mark, one could pass over the other's messages.
    Raises RemotingError, ProtocolError or BrokerError.
    """
    even, odd = (committed(wire, target, name) for name in names)
    ends = max_offsets(wire, target)
    origins = {queue: origin for queue in target.queues if (origin := run.origin(queue)) is not None}
    for name, side, other in ((names[0], even, dict(odd)), (names[1], odd, dict(even))):
        found = {queue: side.get(queue, origins.get(queue, other.get(queue, ends[queue]))) for queue in target.queues}
        believed = {queue: offset if offset <= ends[queue] else 0 for queue, offset in found.items()}
        changed = {queue: offset for queue, offset in believed.items() if side.get(queue) != offset}
        if changed:
            commit(wire, target, name, changed)
            side.update(changed)
    return Marks((even, odd))


def peek_marks(wire: Wire, target: WritableTopic, names: tuple[str, str]) -> Marks:
    """The marks as they are, for tasks; a queue without any is looked at from its beginning. Raises as `read_marks`."""
    even, odd = (committed(wire, target, name) for name in names)
    return Marks(
        (
            {queue: even.get(queue, odd.get(queue, 0)) for queue in target.queues},
            {queue: odd.get(queue, even.get(queue, 0)) for queue in target.queues},
        )
    )


def move_marks(
    wire: Wire, target: WritableTopic, names: tuple[str, str], marks: Marks, batch: int, ends: dict[MessageQueue, int]
) -> None:
    """A batch is finished, and all that it sent is before `ends`. Raises as `read_marks`."""
    offsets = {queue: max(ends.get(queue, 0), offset) for queue, offset in marks.newest().items()}
    commit(wire, target, names[batch % 2], offsets)


def sequences_between(
    wire: Wire,
    target: WritableTopic,
    starts: dict[MessageQueue, int],
    ends: dict[MessageQueue, int],
    *,
    source: str,
    group: str,
) -> set[str]:
    """The sequences that messages of a source carry in [start, end) of each queue. Raises as `read_marks`."""
    return {
        message.properties[SEQUENCE]
        for queue, end in ends.items()
        if starts.get(queue, end) < end
        for message in messages_between(wire, target, queue, starts[queue], end, group)
        if message.properties.get(SOURCE) == source and SEQUENCE in message.properties
    }


def stamp(properties: dict[str, str], source: str, sequence: str) -> None:
    """Give a message its identity; the unique key follows from it, so that every repetition has the same."""
    properties[SOURCE] = source
    properties[SEQUENCE] = sequence
    properties[Property.UNIQ_KEY] = _identity(source, sequence)


def stamps(source: str, sequences: Sequence[str]) -> dict[str, pa.Array]:
    """The same of many messages, as columns of properties."""
    return {
        SOURCE: pa.repeat(source, len(sequences)),
        SEQUENCE: pa.array(sequences, pa.string()),
        Property.UNIQ_KEY: pa.array([_identity(source, sequence) for sequence in sequences], pa.string()),
    }


def _identity(source: str, sequence: str) -> str:
    return hashlib.blake2b(f"{source}\n{sequence}".encode(), digest_size=16).hexdigest().upper()
