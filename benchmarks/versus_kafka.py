"""Spark's Kafka source with a Kafka broker and PyroMQ's source with ours: one machine, one session, the same messages.

    python -m benchmarks.versus_kafka --markdown docs/benchmarks.md     # everything, about five minutes
    python -m benchmarks.versus_kafka --json --messages 40000 --rounds 1

Needs Java and Maven. Rows are in `sources` and `sinks`, Kafka's server in `kafka`. Our topic is filled first, without a
network, and Kafka's from it by Spark: same bodies, keys and partitions. Each source is warmed up by one pass over all
rows; then each round measures each row on one and on the other, and the next round in the other order.

`--launcher installed` is what users have who follow docs/spark.md: a local session with `register(spark)`. `fork` is
`register(spark, fork=True)`, and `none` a session that finds the format by itself.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks import sinks
from benchmarks.kafka import CONNECTOR_VERSION, HEAP, KAFKA_VERSION, connector_jars, require_tools, running
from benchmarks.report import write_section
from benchmarks.sources import BOUND, KAFKA, OURS, Bench, Row, Source, bounded, kafka_source, our_source, rows
from benchmarks.spark import BODY, QUEUES, TOPIC, broker, fill, session
from benchmarks.standings import machine, spread
from benchmarks.startstate import StartState, apply, start_state
from pyromq.spark.launch.registration import Launch

CORES = 2
HEADING = "\n## Beside Kafka on Spark\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One figure of both over all rounds."""

    figure: str
    unit: str
    lower_is_better: bool
    kafka: tuple[float, ...]
    ours: tuple[float, ...]
    ratio: float
    """How many times better ours is: median over the rounds, above 1 is a win."""
    phases: dict[str, dict[str, float]]
    """Of streams: where Spark says their time went, in milliseconds, for each of the two."""


def outcome(
    row: Row, values: Mapping[str, Sequence[float]], phases: Mapping[str, Sequence[dict[str, float]]]
) -> Outcome:
    """Put the rounds of one row together."""
    pairs = zip(values[KAFKA], values[OURS], strict=True)
    ratio = statistics.median(theirs / mine if row.lower else mine / theirs for theirs, mine in pairs)
    parts = {
        name: {phase: statistics.median(each[phase] for each in rounds if phase in each) for phase in rounds[-1]}
        for name, rounds in phases.items()
        if rounds[-1]
    }
    return Outcome(row.name, row.unit, row.lower, tuple(values[KAFKA]), tuple(values[OURS]), ratio, parts)


def race(bench: Bench, sources: Sequence[Source], chosen: Sequence[Row], rounds: int) -> list[Outcome]:
    """Warm up, then all rounds."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    phases: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for number in range(-1, rounds):
        for row in chosen:
            begun = time.monotonic()
            for source in sources if number % 2 == 0 else reversed(sources):
                with bounded(BOUND, f"{row.name} of {source.name}"):
                    value, parts = row.measure(bench, source)
                _sweep(bench.folder)
                if number >= 0:
                    values[row.name][source.name].append(value)
                    phases[row.name][source.name].append(parts)
            name = f"round {number + 1}" if number >= 0 else "warm-up"
            print(f"{name}: {row.name} ({time.monotonic() - begun:.1f} s)", file=sys.stderr)
    return [outcome(row, values[row.name], phases[row.name]) for row in chosen]


def _sweep(folder: Path) -> None:
    """What a measurement wrote does not weigh on the next."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)


def copy(spark: SparkSession, ours: Source, kafka: Source, count: int) -> None:
    """Fill Kafka's topic from ours, partition by partition. Raises RuntimeError unless it has all of it then."""
    messages = ours.batch(spark).selectExpr("keys AS key", "body AS value", "queueId AS partition")
    writer = messages.write.format("kafka").option("kafka.bootstrap.servers", kafka.options["kafka.bootstrap.servers"])
    writer.option("topic", kafka.options["subscribe"]).save()
    found = kafka.batch(spark).groupBy("partition").count().collect()
    if sorted(each["count"] for each in found) != [count // QUEUES] * QUEUES:
        raise RuntimeError(f"Kafka's topic was not filled evenly with {count} messages: {found}")


def versions(connector: str) -> dict[str, str]:
    """Of all that takes part."""
    return {
        "pyromq": version("pyromq"),
        "kafka": KAFKA_VERSION,
        "spark": version("pyspark"),
        "spark-sql-kafka": connector,
        "pyarrow": version("pyarrow"),
        "python": platform.python_version(),
    }


def markdown(
    outcomes: Sequence[Outcome], names: Mapping[str, str], state: StartState, count: int, load: float, command: str
) -> str:
    """What was measured, as the section of the page."""
    rounds = len(outcomes[0].ours)
    introduction = (
        f"Spark's own Kafka source with a Kafka broker and PyroMQ's source with a PyroMQ broker, in turn, {rounds} "
        f"rounds; medians, with the range in brackets. Both read the same {count:,} messages of {BODY} bytes in "
        f"{QUEUES} partitions, in one session with `local[{CORES}]`; all other settings are the defaults of each."
    )
    lines = [
        introduction,
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {machine()}; load average at the start {load:.1f}",
        f"- Versions: {', '.join(f'{name} {text}' for name, text in names.items())}; Kafka with `{' '.join(HEAP)}`",
        f"- Processes of PyroMQ's source: {state}",
        f"- Command: `{command}`",
        "",
        "| | unit | Kafka | PyroMQ | times better |",
        "|---|---|---:|---:|---:|",
    ]
    for each in outcomes:
        ratio = f"{each.ratio:.2f}" if each.ratio >= 1 else f"**{each.ratio:.2f}**"
        lines.append(f"| {each.figure} | {each.unit} | {spread(each.kafka)} | {spread(each.ours)} | {ratio} |")
    return "\n".join(lines) + "\n"


def show(outcomes: Sequence[Outcome], names: Mapping[str, str]) -> None:
    """Print the table."""
    table = Table("figure", "unit", "Kafka", "PyroMQ", "times better", title=str(dict(names)))
    for each in outcomes:
        colour = "green" if each.ratio >= 1 else "red"
        table.add_row(each.figure, each.unit, spread(each.kafka), spread(each.ours), f"[{colour}]{each.ratio:.2f}[/]")
    Console().print(table)


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--markdown", type=Path, help="write the table to its section of this page too")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--messages", type=int, default=400_000, help="of 1 KB each (default: %(default)s)")
    parser.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    parser.add_argument(
        "--connector", default=CONNECTOR_VERSION, help="release of spark-sql-kafka (default: %(default)s)"
    )
    parser.add_argument(
        "--launcher",
        type=Launch,
        choices=list(Launch),
        default=Launch.INSTALLED,
        help="how the Python processes of our source are started (default: %(default)s)",
    )
    options = parser.parse_args()
    state = start_state(options.launcher)
    # Asked to end, clean up all the same: servers and folders go with the blocks below.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    load = os.getloadavg()[0]
    try:
        require_tools()
        jars = connector_jars(options.connector)
    except RuntimeError as error:
        sys.exit(f"versus_kafka: {error}")
    count = options.messages // QUEUES * QUEUES
    chosen = [row for row in (*rows(), *sinks.rows()) if re.search(options.rows, row.name)]
    needed = max((row.needs for row in chosen), default=0)
    if not 0 < needed <= count or options.rounds < 1:
        parser.error(f"it takes a row, a round and, for these rows, {needed} messages")
    with tempfile.TemporaryDirectory(prefix="versus-kafka-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        fill(folder / "data", count)
        with (
            broker(folder / "data") as namesrv,
            running(folder / "kafka", QUEUES) as address,
            session(folder, cores=CORES, jars=jars) as spark,
        ):
            apply(spark, options.launcher)
            sources = kafka_source(address, TOPIC), our_source(namesrv, TOPIC)
            with bounded(BOUND, "filling Kafka's topic"):
                copy(spark, sources[1], sources[0], count)
            outcomes = race(Bench(spark, work, count), sources, chosen, options.rounds)
    names = versions(options.connector)
    if options.markdown is not None:
        command = f"python -m benchmarks.versus_kafka {' '.join(sys.argv[1:])}".strip()
        write_section(options.markdown, HEADING, markdown(outcomes, names, state, count, load, command))
    if options.json:
        facts = {"benchmark": "spark sources beside Kafka", "versions": names, "messages": count, "load": load}
        facts["start"] = asdict(state)
        print(json.dumps({**facts, "rows": [asdict(each) for each in outcomes]}))
    else:
        show(outcomes, names)


if __name__ == "__main__":
    main()
