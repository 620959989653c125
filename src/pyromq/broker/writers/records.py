"""What is written down about writers: decisions one by one, and the whole table in as many records as it takes."""

import logging
from collections.abc import Iterator

import msgspec

from pyromq.broker.writers.table import Lane, QueueProgress, Writer, WriterTable
from pyromq.protocol.message import ReceivedMessage

log = logging.getLogger(__name__)

PART = 512 << 10
"""Bytes of a record of the table, unless messages must be smaller."""


class Began(msgspec.Struct, tag=True):
    topic: str
    name: str
    run: int
    used: int
    origins: dict[int, int]


class Opened(msgspec.Struct, tag=True):
    topic: str
    name: str
    run: int
    lane: int
    attempt: int
    used: int


class Closed(msgspec.Struct, tag=True):
    topic: str
    name: str


Decision = Began | Opened | Closed


class TableRecord(msgspec.Struct):
    """One of `parts` records that are the table together."""

    part: int
    parts: int
    decisions: int
    """The next offset in the queue of decisions."""
    writers: list[Writer]
    latest: int = 0
    """The highest number of a run."""


def decoded(message: ReceivedMessage | None) -> TableRecord | None:
    """The table, or part of it, in a message; None when there is none."""
    try:
        return msgspec.json.decode(message.body, type=TableRecord) if message is not None else None
    except msgspec.MsgspecError as error:
        log.warning("a table of writers cannot be read: %s", error)
        return None


def parts_of(table: WriterTable, limit: int) -> Iterator[list[Writer]]:
    """The writers in portions that take no more bytes than about a limit; a large one is in several, a piece in each.

    What is added to `size` is the most that something can take.
    """
    part: list[Writer] = []
    size = 0
    for writer in table:
        head = 200 + 4 * (len(writer.topic) + len(writer.name))
        piece = msgspec.structs.replace(writer, lanes={})
        if size > limit:
            yield part
            part, size = [], 0
        part.append(piece)
        size += head + 40 * len(writer.origins)
        for number, lane in writer.lanes.items():
            left = list(lane.queues.items())
            while True:
                if size > limit:
                    yield part
                    piece = msgspec.structs.replace(writer, origins={}, lanes={})
                    part, size = [piece], head
                room = max(1, (limit - size) // 130)
                piece.lanes[number] = Lane(lane.attempt, {queue: _shortened(tail) for queue, tail in left[:room]})
                size += 80 + 130 * min(room, len(left))
                left = left[room:]
                if not left:
                    break
    if part:
        yield part


def _shortened(tail: QueueProgress) -> QueueProgress:
    return QueueProgress(tail.next, tail.end, tail.stretches[-1:])
