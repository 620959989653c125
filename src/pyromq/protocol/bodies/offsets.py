"""Offsets: the broker's tables and files, resets, what clients report, what a writer is told.

Maps keyed by `MessageQueue` are written with the queue object as key. A client's local `offsets.json` has the shape of
`ResetOffsetBody` in pretty form.
"""

from typing import Annotated, ClassVar

import msgspec
from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bounds import LOOKED_AT, TABLE, Bound, ResourceName, declared
from pyromq.protocol.lenient import dumps
from pyromq.protocol.message import MessageQueue


class WriterQueues(Body):
    """Body of the answer to OPEN_WRITER: offsets of the topic's queues on that broker."""

    ends: dict[int, int] = field(default_factory=dict)
    """Behind everything that attempts before this one can ever have stored."""
    origins: dict[int, int] = field(default_factory=dict)
    """Before everything that any run of the writer has stored."""


class QueueRun(Body):
    """Queues of one topic, numbered from `first` on."""

    topic: ResourceName = ""
    first: Int = 0
    count: Int = 0
    ends: Annotated[list[Long], declared(LOOKED_AT)] = field(default_factory=list)
    """Where the asker is in each of them; to wait until one has more."""
    queues: list[Int] = field(default_factory=list)
    offsets: list[Long] = field(default_factory=list)
    """Queues and offsets of messages whose store times are wanted."""


class PlainBody(Body):
    """One that only PyroMQ reads, so the quick encoder will do: there may be ten thousands of numbers in it."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class QueueLook(PlainBody):
    """Body of LOOK_AT_QUEUES."""

    size: ClassVar[Bound] = TABLE

    runs: Annotated[list[QueueRun], declared(LOOKED_AT)] = field(default_factory=list)


class RunBounds(Body):
    """For each queue of a run its first offset and the one after its last; for each message its store time, or -1."""

    lows: list[Long] = field(default_factory=list)
    highs: list[Long] = field(default_factory=list)
    times: list[Long] = field(default_factory=list)


class QueueBounds(PlainBody):
    """Body of the answer to LOOK_AT_QUEUES: the runs in the order of the question."""

    runs: list[RunBounds] = field(default_factory=list)


class ConsumerOffsetTable(Body):
    """`topic@group` to queue id to offset: answer of 43 and file `consumerOffset.json` (without version before 5.0)."""

    data_version: DataVersion | None = None
    offset_table: dict[str, dict[Int, Long]] = field(default_factory=dict)


class DelayOffsetTable(Body):
    """Delay level to next queue offset: answer of 45 and file `delayOffset.json`."""

    data_version: DataVersion | None = None
    offset_table: dict[Int, Long] = field(default_factory=dict)


class QueueOffset(Body):
    """A queue and an offset in one object, as C++ clients want it."""

    broker_name: str = ""
    offset: Long = 0
    queue_id: Int = 0
    topic: str = ""


class _QueueOffsetList(Body):
    offset_table: list[QueueOffset] = field(default_factory=list)


class ResetOffsetBody(Body):
    """Where each queue continues after a reset."""

    offset_table: dict[MessageQueue, Long] = field(default_factory=dict)

    def encode_list(self) -> bytes:
        """The list form, for C++ clients."""
        rows = [
            QueueOffset(broker_name=queue.broker_name, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
            for queue, offset in self.offset_table.items()
        ]
        return dumps(_QueueOffsetList(offset_table=rows))


class ConsumerStatusBody(Body):
    """Offsets of a group: a client fills `message_queue_table`, the broker `consumer_table` by client id."""

    consumer_table: dict[str, dict[MessageQueue, Long]] = field(default_factory=dict)
    message_queue_table: dict[MessageQueue, Long] = field(default_factory=dict)


class CorrectionOffsets(Body):
    correction_offsets: dict[Int, Long] = field(default_factory=dict)
