"""What a pipeline tells about each batch: counted from Spark's progress and from what the sinks reported."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pyromq.protocol.message import MessageQueue
from pyromq.spark.pipeline.run.stages import KEPT, PARSED
from pyromq.spark.pipeline.state.folder import BatchReport
from pyromq.spark.pipeline.state.tables import TableSize
from pyromq.spark.source.offsets import Offset
from pyromq.spark.streamprogress import StreamProgress, source_offset, stream_progress


class Totals(msgspec.Struct, kw_only=True):
    """Since the runner started."""

    batches: int = 0
    messages: int = 0
    bytes: int = 0
    bad: int = 0
    duplicates: int = 0
    lost: int = 0
    restarts: int = 0
    rows: dict[str, int] = {}


class Progress(msgspec.Struct, kw_only=True):
    """One batch."""

    pipeline: str
    batch: int
    time: float
    messages: int
    bytes: int = 0
    """Of the messages in their stores, without those left out by a filter or dropped as bad bodies."""
    bad: int
    duplicates: int
    lost: int
    rows: dict[str, int]
    duration_ms: int
    lag: int | None
    """Messages that the source has beyond this batch; None when not all queues are known."""
    lag_by_queue: dict[str, int]
    """Of the queues that are known."""
    lag_seconds_by_queue: dict[str, float] = {}
    """Since the next message to read was stored."""
    state_rows: int
    state_bytes: int
    tables: dict[str, TableSize] = {}
    totals: Totals


def read_progress(pipeline: str, event: Mapping[str, Any], report: BatchReport | None, totals: Totals) -> Progress:
    """From Spark's JSON of a finished batch; adds to the totals."""
    stream = stream_progress((event.get("sources") or [{}])[0]) or StreamProgress(messages=0, known=False)
    lag = {queue_name(queue): behind for queue, behind in stream.lag_by_queue.items()}
    observed = event.get("observedMetrics") or {}
    parsed, kept = observed.get(PARSED) or {}, observed.get(KEPT) or {}
    rows = dict(report.rows) if report is not None else {}
    bad = int(parsed.get("bad") or 0)
    states = event.get("stateOperators") or []
    made = Progress(
        pipeline=pipeline,
        batch=int(event["batchId"]),
        time=report.time if report is not None else 0.0,
        messages=stream.messages,
        bytes=int(parsed.get("bytes") or 0),
        bad=bad,
        duplicates=max(0, int(parsed.get("rows") or 0) - bad - int(kept.get("rows") or 0)) if kept else 0,
        lost=max(stream.lost, report.lost if report is not None else 0),
        rows=rows,
        duration_ms=int((event.get("durationMs") or {}).get("triggerExecution", 0)),
        lag=stream.lag,
        lag_by_queue=lag,
        state_rows=sum(int(each.get("numRowsTotal", 0)) for each in states),
        state_bytes=sum(int(each.get("memoryUsedBytes", 0)) for each in states),
        totals=totals,
    )
    _add(totals, made)
    return made


def queue_name(queue: MessageQueue) -> str:
    """As metrics call it."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def _add(totals: Totals, made: Progress) -> None:
    totals.batches += 1
    totals.messages += made.messages
    totals.bytes += made.bytes
    totals.bad += made.bad
    totals.duplicates += made.duplicates
    totals.lost += made.lost
    for name, count in made.rows.items():
        totals.rows[name] = totals.rows.get(name, 0) + count


def event_offset(event: Mapping[str, Any], key: str) -> Offset | None:
    """An offset of the only source of a batch; None where it is not told, or not in a form of ours."""
    return source_offset((event.get("sources") or [{}])[0], key)
