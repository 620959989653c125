"""What the offsets of a finished batch tell: messages read, messages and seconds behind, losses. Pure.

Spark's progress has three offsets of each source: where the batch began, where it ended, and how far the queues reached
when it was planned. That is enough; no broker is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import LostRange, OptionError
from pyromq.spark.source.offsets import Offset, Positions, losses, ranges


@dataclass(frozen=True)
class StreamProgress:
    """One batch of a stream over topics."""

    messages: int
    """Offsets that it read; a filter may have left rows out."""
    lag_by_queue: Positions = field(default_factory=dict)
    """Messages of each queue beyond this batch, as far as was known when it was planned."""
    known: bool = True
    """Whether that was known of all queues: of a batch that Spark repeats after a crash it asks nobody."""
    reached: dict[MessageQueue, int] = field(default_factory=dict)
    """When the last message that was read of some queues was stored, Unix milliseconds."""
    losses: Sequence[LostRange] = ()
    """What was gone before it was read; while it was read, only tasks and their log know."""

    @property
    def lag(self) -> int | None:
        """Messages behind, in all queues; None when not all are known."""
        return sum(self.lag_by_queue.values()) if self.known else None

    @property
    def lost(self) -> int:
        """Messages that were gone, as far as anybody knows how many."""
        return sum(each.messages for each in self.losses)

    def seconds_behind(self, now: float) -> float | None:
        """Age of what was read last, in the queue that is furthest behind in time; 0 when nothing waits, None when no
        queue that is behind has told. `now` is in Unix seconds."""
        if self.lag == 0:
            return 0.0
        times = [time for queue, time in self.reached.items() if self.lag_by_queue.get(queue)]
        return max(0.0, now - min(times) / 1000) if times else None


def stream_progress(source: Mapping[str, Any]) -> StreamProgress | None:
    """From one of the `sources` in Spark's progress; None for a source that is not ours, or without an end."""
    start, end, latest = (source_offset(source, key) for key in ("startOffset", "endOffset", "latestOffset"))
    if end is None:
        return None
    begin = start or Offset(end.init)
    reached = {} if latest is None else latest.positions
    known = latest is not None and end.positions.keys() <= latest.positions.keys() | latest.gone
    return StreamProgress(
        messages=sum(each.messages for each in ranges(begin, end)),
        lag_by_queue={queue: max(0, last - end.positions.get(queue, 0)) for queue, last in reached.items()},
        known=known,
        reached={queue: mark.stored for queue, mark in end.marks.items()},
        losses=losses(begin, end),
    )


def source_offset(source: Mapping[str, Any], key: str) -> Offset | None:
    """An offset of a source; None where it is not told, or not in a form of ours."""
    value = source.get(key)
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.MsgspecError:
            return None
    if not isinstance(value, dict):
        return None
    try:
        return Offset.parse(value)
    except OptionError:
        return None
