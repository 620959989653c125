"""How `pyromq pipeline` shows what it found out: progress, status, lag, history, dead letters."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from pyromq.cli.output import Lines, Output, Parts, Rows

if TYPE_CHECKING:
    from pyromq.protocol.message import ReceivedMessage
    from pyromq.spark.pipeline.run.progress import Progress
    from pyromq.spark.pipeline.state.history import BatchHistory
    from pyromq.spark.pipeline.state.position import QueueLag
    from pyromq.spark.pipeline.state.status import Status

NONE = "-"


@contextmanager
def screen(*, json: bool) -> "Iterator[Callable[[Progress], None]]":
    """Where progress goes: lines of JSON, lines, or on a terminal a board that is drawn anew."""
    if json:
        yield lambda progress: typer.echo(msgspec.json.encode(progress).decode())
        return
    console = Console()
    if not console.is_terminal:
        yield lambda progress: typer.echo(line(progress))
        return
    with Live(console=console, transient=True) as live:
        yield lambda progress: live.update(board(progress))


def line(progress: "Progress") -> str:
    """A batch in a line."""
    rows = "".join(f", {sink}={count}" for sink, count in progress.rows.items())
    lost = f", {progress.lost} lost" if progress.lost else ""
    return (
        f"batch {progress.batch}: {progress.messages} messages ({size(progress.bytes)}) in {progress.duration_ms} ms, "
        f"{_behind(progress)}, {progress.bad} bad, {progress.duplicates} repeated{lost}{rows}"
    )


def board(progress: "Progress") -> Table:
    """A batch and the totals on a terminal."""
    table = Table(title=f"{progress.pipeline}, batch {progress.batch}", caption=_behind(progress))
    table.add_column("")
    table.add_column("batch", justify="right")
    table.add_column("total", justify="right")
    totals = progress.totals
    for name, now, all_ in (
        ("messages", progress.messages, totals.messages),
        ("bad", progress.bad, totals.bad),
        ("repeated", progress.duplicates, totals.duplicates),
        ("lost", progress.lost, totals.lost),
        *((f"→ {sink}", rows, totals.rows.get(sink, 0)) for sink, rows in progress.rows.items()),
    ):
        table.add_row(name, f"{now:,}", f"{all_:,}")
    table.add_row("read", size(progress.bytes), size(totals.bytes))
    table.add_row("duration", f"{progress.duration_ms} ms", "")
    if progress.state_rows:
        table.add_row("state", f"{progress.state_rows:,} rows", size(progress.state_bytes))
    for sink, each in progress.tables.items():
        table.add_row(f"{sink} has", f"{each.files:,} files", f"{size(each.mean_bytes)} each")
    return table


def _behind(progress: "Progress") -> str:
    if progress.lag is None:
        return "lag not known"
    oldest = max(progress.lag_seconds_by_queue.values(), default=0.0)
    return f"{progress.lag} behind" + (f" (for {duration(oldest)})" if progress.lag and oldest else "")


def status_view(found: "Status") -> Output:
    """Sentences, then the tables and what was lost."""
    runs = "running" if found.running else "not running"
    done = (
        "no batch is done yet"
        if found.last_commit_seconds is None
        else f"batch {found.batch} was done {duration(found.last_commit_seconds)} ago"
    )
    lines = [f"{found.pipeline}: {runs}, {done}"]
    if found.unfinished:
        lines.append("  the batch after it was begun and will run again")
    if found.progress is not None:
        lines.append(f"  {line(found.progress)}")
    if found.loss_table is not None:
        lines.append(f"  {found.lost:,} messages were gone before they were read: {found.loss_table}")
    parts: dict[str, Output] = {"status": Lines(lines)}
    if found.tables:
        parts["tables"] = Rows(
            ("sink", "rows", "files", "bytes", "mean file", "at"),
            [
                (sink, each.rows, each.files, size(each.bytes), size(each.mean_bytes), each.path)
                for sink, each in found.tables.items()
            ],
        )
    if found.losses:
        parts["losses"] = Rows(
            ("lost in batch", "topic", "broker", "queue", "first", "end", "messages", "reason"),
            [
                (each.batch, each.topic, each.broker, each.queue, each.first, each.end, each.messages, each.reason)
                for each in found.losses
            ],
        )
    return Parts(parts)


def lag_view(found: "Sequence[QueueLag]") -> Output:
    """A row for each queue, and the sum."""
    rows = [
        (
            each.topic,
            each.broker,
            each.queue,
            NONE if each.position is None else each.position,
            each.end,
            NONE if each.lag is None else each.lag,
            NONE if each.seconds is None else duration(each.seconds),
            each.lost,
        )
        for each in found
    ]
    if all(each.lag is None for each in found):
        said = "No batch is done yet, so nothing is read."
    else:
        oldest = max((each.seconds or 0.0 for each in found), default=0.0)
        since = f", the first of them for {duration(oldest)}" if oldest else ""
        said = f"{sum(each.lag or 0 for each in found)} messages behind{since}."
    lost = sum(each.lost for each in found)
    if lost:
        said += f" {lost} more are gone: failOnDataLoss says whether the next batch fails or passes over them."
    table = Rows(("topic", "broker", "queue", "position", "end", "behind", "for", "lost"), rows)
    return Parts({"queues": table, "sum": Lines([said])})


def history_view(found: "Sequence[BatchHistory]") -> Output:
    """A row for each batch."""
    return Rows(
        ("batch", "began", "took", "messages", "lost", "rows", "ends at"),
        [
            (
                each.batch,
                datetime.fromtimestamp(each.time, UTC).isoformat(timespec="seconds"),
                "not done" if each.seconds is None else f"{each.seconds:.2f} s",
                each.messages,
                each.lost,
                " ".join(f"{sink}={count}" for sink, count in each.rows.items()),
                each.end,
            )
            for each in found
        ],
    )


def letters_view(found: "Sequence[ReceivedMessage]") -> Output:
    """A row for each dead letter."""
    rows = []
    for message in found:
        facts = message.properties
        origin = f"{facts.get('DLQ_TOPIC')} {facts.get('DLQ_BROKER')}/{facts.get('DLQ_QUEUE')}"
        body = message.body[:60].decode(errors="replace").replace("\n", " ")
        rows.append((origin, facts.get("DLQ_OFFSET", ""), facts.get("DLQ_ERROR", ""), body))
    return Rows(("from", "offset", "error", "body"), rows)


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(7.25), duration(90), duration(7300), duration(200_000)
    ('7.2 s', '1 min 30 s', '2 h 1 min', '2 d 7 h')
    """
    for name, unit, below, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name} {int(seconds % unit // part)} {below}"
    return f"{seconds:.1f} s"


def size(count: int) -> str:
    """Bytes as people say them.

    >>> size(999), size(1500), size(2_000_000)
    ('999 B', '1.5 kB', '2.0 MB')
    """
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}"
    return f"{count} B"
