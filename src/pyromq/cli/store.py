"""`pyromq store`: look at a store on disk, and repair it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyromq.cli.output import Parts, Record, Rows, show
from pyromq.cli.servers.flags import fail
from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.store.config import StoreConfig
    from pyromq.store.offline.check import Report
    from pyromq.store.offline.repair import Plan, Step

SOUND, DAMAGED, UNREADABLE = 0, 1, 2
"""Exit codes."""
SHOWN = 50
"""Findings that people are shown."""

app = typer.Typer(no_args_is_help=True, help="Look at a store on disk, and repair it.")

Root = Annotated[Path, typer.Argument(help="The store's folder: storePathRootDir.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The broker's property file, where its store has other settings."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("check")
def check(root: Root, config: Config = None, json: Json = False) -> None:
    """Read a whole store and change nothing: log, checksums, queues and index against the log.

    The broker may be running, and the folder may be a backup. Exit code 0: all is sound; 1: damage was found; 2: it
    cannot be read.
    """
    from pyromq.store.offline.check import check_store  # noqa: PLC0415 - --help needs no store

    with _progress(quiet=json) as progress:
        try:
            report = check_store(_settings(root, config), progress)
        except (PyroMQError, OSError) as error:
            fail(str(error), code=UNREADABLE)
    show(_report(report, everything=json), json=json)
    sys.exit(SOUND if report.sound else DAMAGED)


@app.command("repair")
def repair(
    root: Root,
    config: Config = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Also do what loses something; it is shown first.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    json: Json = False,
) -> None:
    """Repair a store that no broker has open, after showing what is to be done and what would be lost.

    Queues and index are made again from the log; missing pieces of the log become holes that readers step over; what
    is replaced is set aside, not deleted. Nothing is lost without --accept-loss. Exit code 0: nothing is left to do; 1:
    something is; 2: the store cannot be read.
    """
    from pyromq.store.offline.repair import plan_repair  # noqa: PLC0415 - --help needs no store
    from pyromq.store.offline.repair import repair as carry_out  # noqa: PLC0415

    settings = _settings(root, config)
    with _progress(quiet=json) as progress:
        try:
            plan = plan_repair(settings, progress)
            if not json:
                show(_plan(plan))
            done = [] if dry_run else carry_out(settings, plan, accept_loss=accept_loss)
        except (PyroMQError, OSError) as error:
            fail(str(error), code=UNREADABLE)
    left = [step for step in plan.steps if step not in done]
    if json:
        show(Record({"root": plan.root, "steps": plan.steps, "done": done, "left": left}), json=True)
    else:
        _tell(plan, done, left, dry_run=dry_run)
    sys.exit(DAMAGED if left else SOUND)


def _settings(root: Path, file: Path | None) -> "StoreConfig":
    import dataclasses  # noqa: PLC0415

    from pyromq.store.config import StoreConfig  # noqa: PLC0415

    if file is None:
        return StoreConfig(store_path_root_dir=root)
    from pyromq.broker.config import BrokerConfig  # noqa: PLC0415

    try:
        found = BrokerConfig.load(file=file, environ=os.environ).store_config()
        return dataclasses.replace(found, store_path_root_dir=root)
    except PyroMQError as error:
        fail(str(error), code=UNREADABLE)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Bars on a terminal, nothing elsewhere."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TaskID  # noqa: PLC0415

    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda _what, _done, _total: None
        return
    with Progress(console=screen, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=max(total, 1))

        yield update


def _report(report: "Report", *, everything: bool) -> Parts:
    facts = {
        "store": report.root,
        "state": report.state,
        "log": f"{report.log_begin} to {report.log_end}",
        "records": report.records,
        "queues": report.queues,
        "entries": report.entries,
        "pending": report.pending,
        "index files": report.index_files,
        "keys": report.keys,
        "damage": report.counts or "none",
    }
    listed = report.findings if everything else report.findings[:SHOWN]
    rows = Rows(("Part", "Place", "Fault"), [(each.kind, each.place, each.fault) for each in listed])
    parts: dict[str, Record | Rows] = {"summary": Record(facts)}
    if listed or everything:
        parts["findings"] = rows
    return Parts(parts)


def _plan(plan: "Plan") -> Rows | Record:
    if not plan.steps:
        kept = len(plan.report.damaged) if plan.report is not None else 0
        return Record({"store": plan.root, "to do": "nothing", "damage that is kept and skipped": kept})
    return Rows(("Step", "Why", "Loses"), [(each.what, each.why, each.loses or "nothing") for each in plan.steps])


def _tell(plan: "Plan", done: list["Step"], left: list["Step"], *, dry_run: bool) -> None:
    if done:
        typer.echo(f"\n{len(done)} of {len(plan.steps)} steps done.")
    if plan.files and done:
        typer.echo("Run it again: the rest of the store could not be looked at before.")
    if left and dry_run:
        typer.echo("\nNothing was changed.")
    elif left:
        typer.echo("\nNot done without --accept-loss: " + "; ".join(step.what for step in left))
