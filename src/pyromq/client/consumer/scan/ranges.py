"""From where to where a bounded read goes in each queue: offsets and times become one range for each."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pyromq.client.errors import ClientError
from pyromq.client.queries import Queries
from pyromq.protocol.message import MessageQueue

Place = Mapping[MessageQueue, int] | datetime | int
"""Offsets of single queues, or a time for all: a datetime, of UTC when it has no zone, or Unix milliseconds."""


class QueueRange(NamedTuple):
    """Messages [start, end) of a queue."""

    queue: MessageQueue
    start: int
    end: int


async def queue_ranges(
    queries: Queries, queues: Sequence[MessageQueue], start: Place | None, end: Place | None
) -> list[QueueRange]:
    """A range for each queue that has messages there. Raises ClientError.

    An end is exclusive, an offset behind the last message means the last one. An offset before the first message is an
    error: what was there is gone.
    """
    for name, place in (("start", start), ("end", end)):
        if isinstance(place, Mapping) and (unknown := sorted(place.keys() - set(queues))):
            raise ClientError(f"{name} names {unknown[0]}, which is none of the queues that are read")
    found = await asyncio.gather(*(_range(queries, queue, start, end) for queue in queues))
    return [each for each in found if each.start < each.end]


async def _range(queries: Queries, queue: MessageQueue, start: Place | None, end: Place | None) -> QueueRange:
    low, high, first, last = await asyncio.gather(
        queries.min_offset(queue), queries.max_offset(queue), _at(queries, queue, start), _at(queries, queue, end)
    )
    low = max(low, 0)  # empty queues have been seen to answer -1
    if isinstance(start, Mapping) and first is not None and first < low:
        raise ClientError(f"offset {first} of {queue} is gone: its first message is {low}")
    return QueueRange(queue, low if first is None else max(first, low), high if last is None else min(last, high))


async def _at(queries: Queries, queue: MessageQueue, place: Place | None) -> int | None:
    if isinstance(place, Mapping):
        return place.get(queue)
    return None if place is None else await queries.search_offset(queue, millis(place))


def millis(time: datetime | int) -> int:
    """A time as brokers count it."""
    if isinstance(time, int):
        return time
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def slices(ranges: Iterable[QueueRange], step: int) -> list[QueueRange]:
    """The ranges in pieces of at most `step` offsets, in order for each queue, those of several brokers in turn."""
    by_broker: dict[str, list[QueueRange]] = {}
    for queue, start, end in ranges:
        pieces = by_broker.setdefault(queue.broker_name, [])
        pieces += [QueueRange(queue, at, min(at + step, end)) for at in range(start, end, step)]
    most = max(map(len, by_broker.values()), default=0)
    return [pieces[turn] for turn in range(most) for pieces in by_broker.values() if turn < len(pieces)]
