"""`pyromq pipeline`: run, check and maintain data pipelines on Spark. Presentation only."""

import json as jsonlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from pyromq.cli import output
from pyromq.cli.pipeline.view import history_view, lag_view, letters_view, screen, status_view
from pyromq.cli.plaintext import counted
from pyromq.cli.servers.flags import fail
from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.spark.pipeline.definition.definition import Definition
    from pyromq.spark.pipeline.run.progress import Progress

F = TypeVar("F")

app = typer.Typer(
    no_args_is_help=True, epilog="Example: pyromq pipeline init orders.yaml && pyromq pipeline run orders.yaml --once"
)
dlq = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: look at them, retry them, drop them.",
    epilog="Example: pyromq pipeline dlq show orders.yaml",
)
app.add_typer(dlq, name="dlq")


@app.callback()
def pipeline() -> None:
    """Data pipelines on Spark: from topics to files, tables and topics.

    A pipeline is a YAML file. `init` writes one to start from, `check` says what is wrong with it, `run` runs it: once
    more after whatever ended it, without a row lost or twice. `status`, `lag` and `history` tell how it goes, `replay`
    and `rewind` read again, `dlq` has what could not be parsed, `compact` merges small files.
    """


File = Annotated[Path, typer.Argument(help="The pipeline file (YAML).", exists=True, dir_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AllowTypeChange = Annotated[
    bool,
    typer.Option(
        "--allow-type-change",
        help="Accept columns with other types than in the last run. Tables that hold rows need a new path besides.",
    ),
]


@contextmanager
def _loaded(file: Path) -> Iterator["Definition"]:
    """The pipeline of a file. What is wrong with it, and in the block, is said in a sentence, not in a stack trace."""
    try:
        from pyromq.spark.pipeline.definition.yamlfile import load  # noqa: PLC0415 - only for commands that need it

        sys.path.insert(0, str(file.resolve().parent))
        yield load(file)
    except ModuleNotFoundError as error:
        fail(f"{error}; pipelines need pip install 'pyromq[spark]'")
    except (PyroMQError, OSError) as error:
        fail(str(error))


def _show(found: F, view: Callable[[F], output.Output], *, json: bool) -> None:
    if json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        output.show(view(found))


@app.command(epilog="Example: pyromq pipeline run orders.yaml --metrics-port 9200")
def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="End when everything that is there now is through.")] = False,
    grace: Annotated[float, typer.Option(help="Seconds that a stop waits for the batch under way.")] = 60.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve Prometheus metrics on this port of 127.0.0.1; 0 takes a free one."),
    ] = None,
    allow_type_change: AllowTypeChange = False,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each batch.")] = False,
) -> None:
    """Run a pipeline until SIGTERM or Ctrl-C, which end it after the batch under way.

    What passes by itself, as a broker that is away, leads to another try; anything else ends the run with a sentence.
    The next run resumes where this one left off, however it ended.
    """
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.run.metrics import Metrics  # noqa: PLC0415 - as above
        from pyromq.spark.pipeline.run.runner import PipelineRun  # noqa: PLC0415 - as above

        metrics = Metrics(definition.name)
        if metrics_port is not None:
            typer.echo(f"Metrics at http://127.0.0.1:{metrics.serve(metrics_port)}/metrics", err=True)
        with screen(json=json) as show:

            def on_progress(progress: "Progress") -> None:
                metrics.observe(progress)
                show(progress)

            def on_restart(reason: str, pause: float) -> None:
                metrics.restarted()
                typer.echo(f"pyromq: {reason}; next try in {pause:.0f} s", err=True)

            made = PipelineRun(
                definition,
                on_progress=on_progress,
                on_restart=on_restart,
                grace=grace,
                allow_type_change=allow_type_change,
            )
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: made.stop())
            totals = made.run(once=once)
        if not json:
            rows = ", ".join(f"{count} rows to {sink}" for sink, count in totals.rows.items())
            lost = f" {totals.lost} messages were gone before they were read." if totals.lost else ""
            typer.echo(f"{totals.messages} messages in {totals.batches} batches: {rows or 'nothing new'}.{lost}")


@app.command(epilog="Example: pyromq pipeline check orders.yaml --no-plan")
def check(
    file: File,
    plan: Annotated[bool, typer.Option(help="Also let Spark plan it, which needs Java and the brokers.")] = True,
    allow_type_change: AllowTypeChange = False,
) -> None:
    """Check a pipeline without running it: the file, then columns, types and SQL; prints the columns of its output."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.definition.plan import source_options  # noqa: PLC0415 - as above

        source_options(definition)
        if plan:
            from pyromq.spark.pipeline.run.dryrun import dry_run  # noqa: PLC0415 - as above

            for name, kind in dry_run(definition, allow_type_change=allow_type_change).items():
                typer.echo(f"  {name:24} {kind}")
    typer.echo(f"{file}: pipeline {definition.name} is well defined.")


@app.command(epilog="Example: pyromq pipeline init orders.yaml --topic orders")
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    topic: Annotated[str, typer.Option(help="Topic to read.")] = "orders",
    namesrv: Annotated[str, typer.Option("--namesrv", "-n", help="Name servers.")] = "127.0.0.1:9876",
) -> None:
    """Write a pipeline to start from."""
    from pyromq.spark.pipeline.definition.template import render  # noqa: PLC0415 - as above

    if file.exists():
        fail(f"{file} exists already")
    try:
        file.write_text(render(file.stem, topic, namesrv))
    except OSError as error:
        fail(str(error))
    typer.echo(f"Wrote {file}. Next: pyromq pipeline check {file}")


@app.command(epilog="Example: pyromq pipeline status orders.yaml --json")
def status(file: File, json: Json = False) -> None:
    """Where a pipeline stands, whether it runs or not: its last batch, its tables, the messages it lost.

    Comes from files alone: it asks no broker and starts no Spark.
    """
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.status import read_status  # noqa: PLC0415 - as above

        found = read_status(definition)
    _show(found, status_view, json=json)


@app.command(epilog="Example: pyromq pipeline lag orders.yaml")
def lag(file: File, json: Json = False) -> None:
    """How far each queue is behind, in messages and in time; asks the brokers."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.position import lag as read_lag  # noqa: PLC0415 - as above

        found = read_lag(definition)
    _show(found, lag_view, json=json)


@app.command(epilog="Example: pyromq pipeline history orders.yaml --limit 5")
def history(
    file: File,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many batches.")] = 20,
    json: Json = False,
) -> None:
    """The last batches: when, how long, how many messages, how many rows to which sink."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.history import read_history  # noqa: PLC0415 - as above

        found = read_history(definition, limit)
    _show(found, history_view, json=json)


@app.command(epilog="Example: pyromq pipeline replay orders.yaml --from 2026-01-30 --to 2026-01-31 --into lake/fixed")
def replay(
    file: File,
    start: Annotated[str, typer.Option("--from", help="First moment: ISO 8601 or Unix ms.")],
    end: Annotated[str, typer.Option("--to", help="The moment after the last.")],
    into: Annotated[str, typer.Option(help="A new folder for Parquet files, or topic:NAME.")],
) -> None:
    """Send a stretch of time through the same stages into an output of its own."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.run.replay import replay as replay_now  # noqa: PLC0415 - as above

        rows = replay_now(definition, start=start, end=end, into=into)
    typer.echo(f"{counted(sum(rows.values()), 'row')} to {into}")


@app.command(epilog="Example: pyromq pipeline rewind orders.yaml --to 2026-01-31T00:00:00Z")
def rewind(file: File, to: Annotated[str, typer.Option(help="earliest, latest, a time, or JSON of offsets.")]) -> None:
    """Let the next run begin elsewhere; for pipelines that are not running and keep no state."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.position import rewind as rewind_now  # noqa: PLC0415 - as above

        batch, offset = rewind_now(definition, to)
    typer.echo(f"The next run is batch {batch + 1} and begins at {jsonlib.dumps(offset.render()['q'])}.")


@app.command(epilog="Example: pyromq pipeline compact orders.yaml --older-than '1 hour'")
def compact(
    file: File,
    older_than: Annotated[str, typer.Option(help="Leave younger files alone.")] = "10 minutes",
    grace: Annotated[str, typer.Option(help="Keep merged files for readers so long.")] = "1 hour",
) -> None:
    """Merge small Parquet files of the pipeline's tables; it may run meanwhile."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.definition.definition import ParquetTarget  # noqa: PLC0415 - as above
        from pyromq.spark.sink.table.compaction import compact as compact_now  # noqa: PLC0415 - as above
        from pyromq.spark.storage.place import open_store  # noqa: PLC0415 - as above
        from pyromq.spark.units import parse_bytes, parse_seconds  # noqa: PLC0415 - as above

        for _, _, target in definition.targets:
            if isinstance(target, ParquetTarget):
                done = compact_now(
                    open_store(target.path, definition.storage, shared=True),
                    target=parse_bytes(target.target_file),
                    older_than=parse_seconds(older_than),
                    grace=parse_seconds(grace),
                    clock=time.time,
                )
                typer.echo(f"{target.path}: {done.before} files became {done.after}; {done.deleted} old ones deleted")


@app.command("export-sdp", epilog="Example: pyromq pipeline export-sdp orders.yaml project")
def export_sdp(file: File, folder: Annotated[Path, typer.Argument(help="An empty or new folder.")]) -> None:
    """Write the pipeline as a project of Spark Declarative Pipelines."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.definition.sdp import export  # noqa: PLC0415 - as above

        for path in export(definition, folder):
            typer.echo(str(path))


@dlq.command("show")
def dlq_show(
    file: File,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    json: Json = False,
) -> None:
    """The dead letters that nobody dealt with yet."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            found = list(letters.waiting(limit))
    if json:
        for message in found:
            facts: dict[str, Any] = {
                name: value for name, value in message.properties.items() if name.startswith("DLQ_")
            }
            typer.echo(jsonlib.dumps({**facts, "body": message.body.decode(errors="replace")}))
        return
    output.show(letters_view(found))


@dlq.command("retry")
def dlq_retry(file: File) -> None:
    """Send all of them to the topics they came from again."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            typer.echo(f"{counted(letters.retry(), 'message')} sent again")


@dlq.command("drop")
def dlq_drop(file: File) -> None:
    """Take all of them as dealt with; they stay in the topic until it expires them."""
    with _loaded(file) as definition:
        from pyromq.spark.pipeline.state.letters import Letters  # noqa: PLC0415 - as above

        with Letters(definition) as letters:
            typer.echo(f"{counted(letters.drop(), 'message')} passed over")
