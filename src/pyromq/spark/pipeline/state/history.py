"""The last batches of a pipeline, from Spark's checkpoint and the sinks' reports."""

from typing import Any

import msgspec

from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.source.offsets import Offset, losses, ranges
from pyromq.spark.source.queuetable import nest


class BatchHistory(msgspec.Struct, kw_only=True):
    """One batch."""

    batch: int
    time: float
    seconds: float | None
    messages: int
    lost: int
    """Messages that were gone before it read them."""
    rows: dict[str, int]
    end: dict[str, Any]


def read_history(definition: Definition, limit: int) -> list[BatchHistory]:
    """Newest last. Raises StateError."""
    state = State(definition.checkpoint, definition.storage)
    found = []
    for entry in SparkCheckpoint(state.checkpoint).history(limit):
        begin = entry.start or Offset(entry.end.init)
        report = state.reported(entry.batch)
        found.append(
            BatchHistory(
                batch=entry.batch,
                time=entry.time,
                seconds=entry.seconds,
                messages=sum(each.messages for each in ranges(begin, entry.end)),
                lost=max(
                    sum(each.messages for each in losses(begin, entry.end)),
                    report.lost if report is not None else 0,
                ),
                rows=report.rows if report is not None else {},
                end=nest(entry.end.positions),
            )
        )
    return found
