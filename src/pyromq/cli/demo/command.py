"""The command: runs the steps, shows what each does and which command does it alone, checks the books."""

import asyncio
import random
import shutil
import signal
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyromq.aio import Admin
from pyromq.broker.standalone import Standalone
from pyromq.cli.demo import orders, steps
from pyromq.cli.demo.orders import BROKEN, ORDERS, REVENUE, Ledger
from pyromq.cli.report import Report, bars, lines
from pyromq.cli.servers.flags import fail

if TYPE_CHECKING:
    from pyromq.spark.pipeline.run.progress import Progress as BatchProgress

app = typer.Typer()

QUEUES = 8


@dataclass(slots=True)
class Outcome:
    """What came out at the end of the pipeline."""

    windows: steps.Windows = field(default_factory=Counter)
    duplicates: int = 0
    broken: int = 0
    stored: int = 0
    sent_again: int = 0
    """Sends that were repeated because no answer came; each may have left a copy."""
    dead_letters: int = 0
    results: int = 0
    parquet: steps.Windows | None = None
    batches: list[tuple[float, float]] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)


@app.command("demo")
def demo(
    messages: Annotated[int, typer.Option(min=10, max=10_000_000, help="How many orders to make.")] = 50_000,
    seed: Annotated[int, typer.Option(help="Same seed, same orders.")] = 7,
    spark: Annotated[
        bool | None, typer.Option(help="Run the Spark pipeline. Default: when Spark and Java are there.")
    ] = None,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("pyromq-demo.html"),
    browse: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Show the main job: orders in, a Spark pipeline, revenue out, and the books checked."""
    console = Console()
    if spark is None:
        spark = find_spec("pyspark") is not None and shutil.which("java") is not None
        if not spark:
            console.print(
                "[yellow]no Spark here[/] (pip install 'pyromq\\[spark]', and Java 17): a consumer group counts"
            )
    ledger = Ledger()
    outcome = Outcome()
    with _interruptible() as interrupt, tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        made = orders.stream(messages, random.Random(seed), ledger)

        async def run() -> None:
            interrupt.watch()
            await _demo(Path(folder), messages, made, ledger, outcome, console, spark=spark)

        asyncio.run(run())
    console.print(_table(ledger, outcome))
    checks = _checks(ledger, outcome)
    for text, held in checks:
        console.print(f"  [green]✔[/] {text}" if held else f"  [red]✘ {text}[/]")
    _report(ledger, outcome, checks, spark=spark).write(report)
    console.print(f"report: {report}")
    if browse:
        webbrowser.open(report.resolve().as_uri())
    if not all(held for _, held in checks):
        fail("a check failed, see above")


class _Interrupt:
    """Ctrl-C or SIGTERM: ends the demo in order, with servers stopped and files removed."""

    def __init__(self) -> None:
        self.number: int | None = None

    def watch(self) -> None:
        """Have either signal cancel the task that calls this."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def interrupt(number: int) -> None:
            self.number = number
            if task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt, number)


@contextmanager
def _interruptible() -> Iterator[_Interrupt]:
    """Say that it was interrupted, whatever error that left behind."""
    interrupt = _Interrupt()
    try:
        yield interrupt
    except BaseException:
        if interrupt.number is None:
            raise
        fail("the demo was interrupted; its servers are stopped and its files removed", code=128 + interrupt.number)


async def _demo(
    folder: Path,
    count: int,
    made: Iterator[orders.Order],
    ledger: Ledger,
    outcome: Outcome,
    console: Console,
    *,
    spark: bool,
) -> None:
    server = Standalone(folder / "server", namesrv_port=0, broker_port=0)
    await server.start()
    try:
        namesrv = server.namesrv_address
        _say(console, 1, f"name server {namesrv}, broker {server.broker_address}", "pyromq standalone")
        async with Admin(namesrv=namesrv) as admin:
            for topic in (ORDERS, BROKEN, REVENUE):
                await admin.create_topic(topic, queues=QUEUES)
                await admin.wait_for_topic(topic)
        _say(
            console,
            2,
            f"topics {ORDERS}, {REVENUE}, {BROKEN}",
            f"pyromq admin updateTopic -c DefaultCluster -t {ORDERS} -r 8 -w 8",
        )
        with _progress(console) as progress:
            task = progress.add_task("sending orders", total=count)

            def again() -> None:
                outcome.sent_again += 1

            outcome.rates = await steps.produce(namesrv, ORDERS, made, lambda: progress.advance(task), again)
        _say(
            console,
            3,
            f"{ledger.messages} messages sent, each on disk before it was acknowledged: {ledger.repeated} repeated, "
            f"{ledger.late} late, {ledger.broken} broken",
            f"pyromq send {ORDERS} FILE",
        )
        if outcome.sent_again:
            console.print(
                f"  [yellow]{outcome.sent_again} sends had no answer in time and were repeated;[/] the copies that "
                "this left are removed like all repetitions"
            )
        if spark:
            await _run_pipeline(namesrv, folder, ledger, outcome, console)
        else:
            await _count(namesrv, ledger, outcome, console)
        outcome.stored = await steps.stored(namesrv, ORDERS)
        outcome.dead_letters = await steps.stored(namesrv, BROKEN)
    finally:
        await server.stop()


async def _run_pipeline(namesrv: str, folder: Path, ledger: Ledger, outcome: Outcome, console: Console) -> None:
    from pyromq.cli.demo.revenue import pipeline  # noqa: PLC0415 - Spark is an extra

    with _progress(console) as progress:
        task = progress.add_task("Spark pipeline (starting)", total=ledger.messages)

        def batch(made: "BatchProgress") -> None:
            progress.update(task, description="Spark pipeline", completed=made.totals.messages)
            outcome.batches.append((made.batch, made.duration_ms / 1000))

        totals = await asyncio.to_thread(pipeline(namesrv, folder).run, once=True, on_progress=batch)
    outcome.duplicates, outcome.broken = totals.duplicates, totals.bad
    _say(
        console,
        4,
        f"{totals.messages} messages through the pipeline in {totals.batches} batches: parsed, "
        f"{totals.duplicates} repetitions removed, revenue by hour and shop, {totals.bad} broken set aside",
        "pyromq pipeline run FILE",
    )
    expected = await steps.stored(namesrv, REVENUE)
    results = await steps.read_results(namesrv, REVENUE, expected)
    outcome.results = len(results)
    for row in results:
        outcome.windows[str(row["hour"]), str(row["shop"])] += int(str(row["cents"]))
    _say(console, 5, f"{len(results)} results consumed from {REVENUE}", f"pyromq consume {REVENUE}")
    outcome.parquet = await asyncio.to_thread(_read_parquet, folder / "lake" / REVENUE)
    _say(console, 6, f"{len(outcome.parquet)} rows read from Parquet by pyarrow", "any Parquet reader")


def _read_parquet(path: Path) -> steps.Windows:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

    found: steps.Windows = Counter()
    for file in sorted(path.rglob("*.parquet")):
        if "_staging" in file.parts:
            continue
        for row in pq.ParquetFile(file).read().to_pylist():
            found[row["hour"], row["shop"]] += row["cents"]
    return found


async def _count(namesrv: str, ledger: Ledger, outcome: Outcome, console: Console) -> None:
    counting = steps.Counting(namesrv, ORDERS, BROKEN)
    with _progress(console) as progress:
        task = progress.add_task("counting", total=ledger.messages)
        await counting.run(ledger.messages, lambda: progress.advance(task))
    outcome.windows, outcome.duplicates, outcome.broken = counting.windows, counting.duplicates, counting.broken
    outcome.results = len(counting.windows)
    _say(console, 4, f"{ledger.messages} messages consumed and counted by a group", f"pyromq consume {ORDERS} -g GROUP")


def _checks(ledger: Ledger, outcome: Outcome) -> list[tuple[str, bool]]:
    """Each promise, and whether it held."""
    counted = {key: cents for key, cents in outcome.windows.items() if cents}
    copies, broken = outcome.stored - ledger.messages, outcome.broken - ledger.broken
    more = f" + {copies} copies of the {outcome.sent_again} that were sent again" if outcome.sent_again else ""
    whole, spoilt = (f" + {copies - broken} copies", f" + {broken} copies") if outcome.sent_again else ("", "")
    checks = [
        (
            (
                f"orders {ledger.orders} + repeated {ledger.repeated} + broken {ledger.broken} + 1 that closes the day "
                f"= sent {ledger.messages}"
            ),
            ledger.orders + ledger.repeated + ledger.broken + 1 == ledger.messages,
        ),
        (f"sent {ledger.messages}{more} = stored {outcome.stored}", 0 <= copies <= outcome.sent_again),
        (
            f"repeated {ledger.repeated}{whole} = repetitions removed {outcome.duplicates}",
            ledger.repeated + copies - broken == outcome.duplicates,
        ),
        (
            (
                f"broken {ledger.broken}{spoilt} = set aside {outcome.broken} = in the dead-letter topic "
                f"{outcome.dead_letters}"
            ),
            0 <= broken <= copies and outcome.broken == outcome.dead_letters,
        ),
        ("revenue by hour and shop agrees to the cent, late orders included", ledger.windows == counted),
    ]
    if outcome.parquet is not None:
        same = {key: cents for key, cents in outcome.parquet.items() if cents} == counted
        checks.append((f"Parquet and the result topic hold the same {len(counted)} rows, each once", same))
    return checks


def _table(ledger: Ledger, outcome: Outcome) -> Table:
    table = Table(
        title="Revenue", caption=f"{outcome.duplicates} repetitions removed, {outcome.broken} broken set aside"
    )
    table.add_column("shop")
    table.add_column("sent", justify="right")
    table.add_column("counted", justify="right")
    found = by_shop(outcome.windows)
    for shop in orders.SHOPS:
        table.add_row(shop, f"{ledger.revenue[shop] / 100:,.2f}", f"{found[shop] / 100:,.2f}")
    table.add_section()
    table.add_row("all", f"{ledger.revenue.total() / 100:,.2f}", f"{found.total() / 100:,.2f}")
    return table


def by_shop(windows: steps.Windows) -> Counter[str]:
    """Cents of each shop."""
    found: Counter[str] = Counter()
    for (_, shop), cents in windows.items():
        found[shop] += cents
    return found


def _report(ledger: Ledger, outcome: Outcome, checks: list[tuple[str, bool]], *, spark: bool) -> Report:
    report = Report(
        "PyroMQ demo: a day of orders", f"{ledger.messages:,} messages, {ledger.orders:,} different orders."
    )
    for text, held in checks:
        report.check(text, held)
    found = by_shop(outcome.windows)
    shops = {shop: found[shop] / 100 for shop in orders.SHOPS}
    rows = [*shops.items(), ("all", found.total() / 100)]
    report.section("Revenue by shop", plot=bars(shops, unit="EUR"), columns=["shop", "EUR"], rows=rows)
    day = f"{orders.OPENING:%Y-%m-%d}"
    hours = sorted({hour for hour, _ in outcome.windows if hour.startswith(day)})
    series = {
        shop: [(float(hour[11:13]), outcome.windows[hour, shop] / 100) for hour in hours] for shop in orders.SHOPS
    }
    report.section("Revenue by hour", plot=lines(series, unit="EUR", along="hour of the day"))
    report.section(
        "Sending",
        "Messages per second since the start, each on disk before it was acknowledged.",
        command="pyromq bench producer",
        plot=lines({"sent": outcome.rates}, unit="1/s", along="seconds"),
    )
    if spark:
        report.section(
            "Batches of the Spark pipeline",
            "Seconds each; the first one includes Spark's warm-up.",
            command="pyromq pipeline run FILE",
            plot=lines({"batch": outcome.batches}, unit="s", along="batch"),
        )
    return report


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _say(console: Console, number: int, text: str, command: str) -> None:
    console.print(f"[bold]{number}[/] {text}   [dim]{command}[/]", highlight=False)
