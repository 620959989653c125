"""`pyromq pipeline`: run, check and look after data pipelines on Spark. Presentation only."""

import json as jsonlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from pyromq.cli.flags import fail
from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.spark.pipeline.definition import Definition
    from pyromq.spark.pipeline.progress import Progress

app = typer.Typer(no_args_is_help=True)
dlq = typer.Typer(no_args_is_help=True, help="Dead letters: look at them, retry them, drop them.")
app.add_typer(dlq, name="dlq")


@app.callback()
def pipeline() -> None:
    """Data pipelines on Spark: from topics to files, tables and topics."""


File = Annotated[Path, typer.Argument(help="The pipeline file (YAML).", exists=True, dir_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def _said() -> Iterator[None]:
    """Say what is wrong in a sentence, not in a stack trace."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"{error}; pipelines need pip install 'pyromq[spark]'")
    except (PyroMQError, OSError) as error:
        fail(str(error))


def _load(file: Path) -> "Definition":
    from pyromq.spark.pipeline.yamlfile import load  # noqa: PLC0415 - only for commands that need it

    sys.path.insert(0, str(file.resolve().parent))
    return load(file)


@app.command()
def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="End when everything that is there now is through.")] = False,
    grace: Annotated[float, typer.Option(help="Seconds that a stop waits for the batch under way.")] = 60.0,
    metrics_port: Annotated[int, typer.Option(help="Serve Prometheus metrics here; 0 takes a free port.")] = -1,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each batch.")] = False,
) -> None:
    """Run a pipeline until SIGTERM or SIGINT, which end it after the batch under way."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.metrics import Metrics  # noqa: PLC0415 - as above
        from pyromq.spark.pipeline.runner import PipelineRun  # noqa: PLC0415 - as above

        metrics = Metrics(definition.name)
        if metrics_port >= 0:
            typer.echo(f"Metrics at http://127.0.0.1:{metrics.serve(metrics_port)}/metrics", err=True)
        with _screen(json=json) as show:

            def on_progress(progress: "Progress") -> None:
                metrics.observe(progress)
                show(progress)

            def on_restart(reason: str, pause: float) -> None:
                metrics.restarted()
                typer.echo(f"pyromq: {reason}; next try in {pause:.0f} s", err=True)

            made = PipelineRun(definition, on_progress=on_progress, on_restart=on_restart, grace=grace)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: made.stop())
            totals = made.run(once=once)
        if not json:
            rows = ", ".join(f"{count} rows to {sink}" for sink, count in totals.rows.items())
            typer.echo(f"{totals.messages} messages in {totals.batches} batches: {rows or 'nothing new'}.")


@contextmanager
def _screen(*, json: bool) -> "Iterator[Callable[[Progress], None]]":
    if json:
        yield lambda progress: typer.echo(msgspec.json.encode(progress).decode())
        return
    console = Console()
    if not console.is_terminal:
        yield lambda progress: typer.echo(_line(progress))
        return
    with Live(console=console, transient=True) as live:
        yield lambda progress: live.update(_board(progress))


def _line(progress: "Progress") -> str:
    rows = " ".join(f"{sink}={count}" for sink, count in progress.rows.items())
    return (
        f"batch {progress.batch}: {progress.messages} messages in {progress.duration_ms} ms, {progress.lag} behind, "
        f"{progress.bad} bad, {progress.duplicates} repeated, {rows}"
    )


def _board(progress: "Progress") -> Table:
    table = Table(title=f"{progress.pipeline}, batch {progress.batch}", caption=f"{progress.lag} messages behind")
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
    table.add_row("duration", f"{progress.duration_ms} ms", "")
    if progress.state_rows:
        table.add_row("state", f"{progress.state_rows:,} rows", f"{progress.state_bytes:,} bytes")
    return table


@app.command()
def check(
    file: File,
    plan: Annotated[bool, typer.Option(help="Also let Spark plan it, which needs Java and the brokers.")] = True,
) -> None:
    """Check a pipeline without running it: the file, then columns, types and SQL."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.plan import source_options  # noqa: PLC0415 - as above

        source_options(definition)
        if plan:
            from pyromq.spark.pipeline.dryrun import dry_run  # noqa: PLC0415 - as above

            for name, kind in dry_run(definition).items():
                typer.echo(f"  {name:24} {kind}")
    typer.echo(f"{file}: pipeline {definition.name} is well defined.")


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    topic: Annotated[str, typer.Option(help="Topic to read.")] = "orders",
    namesrv: Annotated[str, typer.Option("--namesrv", "-n", help="Name servers.")] = "127.0.0.1:9876",
) -> None:
    """Write a pipeline to start from."""
    from pyromq.spark.pipeline.template import render  # noqa: PLC0415 - as above

    if file.exists():
        fail(f"{file} exists already")
    with _said():
        file.write_text(render(file.stem, topic, namesrv))
    typer.echo(f"Wrote {file}. Next: pyromq pipeline check {file}")


@app.command()
def status(file: File, json: Json = False) -> None:
    """Where a pipeline stands, whether it runs or not."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.status import read_status  # noqa: PLC0415 - as above

        found = read_status(definition)
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    age = "never" if found.last_commit_seconds is None else f"{found.last_commit_seconds:.0f} s ago"
    typer.echo(f"{found.pipeline}: {'running' if found.running else 'not running'}, batch {found.batch} done {age}")
    if found.unfinished:
        typer.echo("  the batch after it was begun and will run again")
    if found.progress is not None:
        typer.echo(f"  {_line(found.progress)}")
    for name, table in found.tables.items():
        mean = f"{table.mean_bytes:,} bytes each"
        typer.echo(f"  {name}: {table.rows:,} rows in {table.files} files, {mean}, at {table.path}")


@app.command()
def lag(file: File, json: Json = False) -> None:
    """How far each queue is behind."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.position import lag as read_lag  # noqa: PLC0415 - as above

        found = read_lag(definition)
    if json:
        facts = [{**msgspec.to_builtins(each), "lag": each.lag} for each in found]
        typer.echo(jsonlib.dumps(facts))
        return
    table = Table("topic", "broker", "queue", "position", "end", "behind")
    for each in found:
        behind = "-" if each.lag is None else str(each.lag)
        position = "-" if each.position is None else str(each.position)
        table.add_row(each.topic, each.broker, str(each.queue), position, str(each.end), behind)
    Console().print(table)
    typer.echo(f"{sum(each.lag or 0 for each in found)} messages behind.")


@app.command()
def history(
    file: File,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many batches.")] = 20,
    json: Json = False,
) -> None:
    """The last batches: when, how long, how many messages, how many rows to which sink."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.history import read_history  # noqa: PLC0415 - as above

        found = read_history(definition, limit)
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    table = Table("batch", "began", "took", "messages", "rows", "ends at")
    for each in found:
        took = "not done" if each.seconds is None else f"{each.seconds:.2f} s"
        rows = " ".join(f"{sink}={count}" for sink, count in each.rows.items())
        table.add_row(str(each.batch), _when(each.time), took, str(each.messages), rows, jsonlib.dumps(each.end))
    Console().print(table)


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


@app.command()
def replay(
    file: File,
    start: Annotated[str, typer.Option("--from", help="First moment: ISO 8601 or Unix ms.")],
    end: Annotated[str, typer.Option("--to", help="The moment after the last.")],
    into: Annotated[str, typer.Option(help="A new folder for Parquet files, or topic:NAME.")],
) -> None:
    """Send a stretch of time through the same stages into an output of its own."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.replay import replay as replay_now  # noqa: PLC0415 - as above

        rows = replay_now(definition, start=start, end=end, into=into)
    typer.echo(f"{sum(rows.values())} rows to {into}")


@app.command()
def rewind(file: File, to: Annotated[str, typer.Option(help="earliest, latest, a time, or JSON of offsets.")]) -> None:
    """Let the next run begin elsewhere; for pipelines that are not running and keep no state."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.position import rewind as rewind_now  # noqa: PLC0415 - as above

        batch, offset = rewind_now(definition, to)
    typer.echo(f"The next run is batch {batch + 1} and begins at {jsonlib.dumps(offset.render()['q'])}.")


@app.command()
def compact(
    file: File,
    older_than: Annotated[str, typer.Option(help="Leave younger files alone.")] = "10 minutes",
    grace: Annotated[str, typer.Option(help="Keep merged files for readers so long.")] = "1 hour",
) -> None:
    """Merge small Parquet files of the pipeline's tables; it may run meanwhile."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.definition import ParquetTarget  # noqa: PLC0415 - as above
        from pyromq.spark.pipeline.units import parse_bytes, parse_seconds  # noqa: PLC0415 - as above
        from pyromq.spark.sink.compaction import compact as compact_now  # noqa: PLC0415 - as above

        for _, _, target in definition.targets:
            if isinstance(target, ParquetTarget):
                done = compact_now(
                    Path(target.path),
                    target=parse_bytes(target.target_file),
                    older_than=parse_seconds(older_than),
                    grace=parse_seconds(grace),
                    clock=time.time,
                )
                typer.echo(f"{target.path}: {done.before} files became {done.after}; {done.deleted} old ones deleted")


@app.command("export-sdp")
def export_sdp(file: File, folder: Annotated[Path, typer.Argument(help="An empty or new folder.")]) -> None:
    """Write the pipeline as a project of Spark Declarative Pipelines."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.sdp import export  # noqa: PLC0415 - as above

        for path in export(definition, folder):
            typer.echo(str(path))


@dlq.command("show")
def dlq_show(
    file: File,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    json: Json = False,
) -> None:
    """The dead letters that nobody dealt with yet."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            found = list(letters.waiting(limit))
    if json:
        for message in found:
            facts: dict[str, Any] = {
                name: value for name, value in message.properties.items() if name.startswith("DLQ_")
            }
            typer.echo(jsonlib.dumps({**facts, "body": message.body.decode(errors="replace")}))
        return
    table = Table("from", "offset", "error", "body")
    for message in found:
        facts = message.properties
        origin = f"{facts.get('DLQ_TOPIC')} {facts.get('DLQ_BROKER')}/{facts.get('DLQ_QUEUE')}"
        body = message.body[:60].decode(errors="replace")
        table.add_row(origin, facts.get("DLQ_OFFSET", ""), facts.get("DLQ_ERROR", ""), body)
    Console().print(table)


@dlq.command("retry")
def dlq_retry(file: File) -> None:
    """Send all of them to the topics they came from again."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            typer.echo(f"{letters.retry()} messages sent again")


@dlq.command("drop")
def dlq_drop(file: File) -> None:
    """Take all of them as dealt with; they stay in the topic until it expires them."""
    with _said():
        definition = _load(file)
        from pyromq.spark.pipeline.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            typer.echo(f"{letters.drop()} messages passed over")
