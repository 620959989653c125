"""The outcome of the race as a table, on the terminal and as a page."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.interop.artifacts import SERVER_VERSION

from benchmarks.contenders import HEAPS

_SHARP = 100
NOTES = "\n## Notes\n"
"""Begins what people have written on the page."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One figure of both contenders over all rounds."""

    figure: str
    unit: str
    lower_is_better: bool
    apache: tuple[float, ...]
    ours: tuple[float, ...]
    ratio: float
    """How many times better ours is: median over the rounds, above 1 is a win."""
    generator_busy: float
    """Largest share of a core that the load generator used; 0 where none was measured."""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _SHARP else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """Median and, in brackets, the range."""
    return f"{_number(statistics.median(values))} ({_number(min(values))}–{_number(max(values))})"  # noqa: RUF001 - a dash between numbers


def show(standings: Sequence[Standing], failed: Mapping[str, int]) -> None:
    """Print the table."""
    table = Table("figure", "unit", "Apache", "PyroMQ", "times better", "generator")
    for standing in standings:
        colour = "green" if standing.ratio >= 1 else "red"
        table.add_row(
            standing.figure,
            standing.unit,
            spread(standing.apache),
            spread(standing.ours),
            f"[{colour}]{standing.ratio:.2f}[/]",
            f"{standing.generator_busy:.0%}" if standing.generator_busy else "",
        )
    console = Console()
    console.print(table)
    for row, count in failed.items():
        console.print(f"{row}: {count} requests were refused")


def markdown(standings: Sequence[Standing], failed: Mapping[str, int], heap: str, command: str, rounds: int) -> str:
    """The whole page."""
    introduction = (
        f"Apache's broker {SERVER_VERSION} and PyroMQ {version('pyromq')} on the same machine, in turn, {rounds} "
        "rounds; medians, with the range in brackets. Both have the same settings: Apache's defaults, and the flush "
        "type that the row names. The load comes from one connection with so many requests in flight (depth), in "
        "frames encoded beforehand, from a process of its own; the last column says which share of a core it used "
        "at most."
    )
    versions = (
        f"Python {platform.python_version()}, uvloop {version('uvloop')}, msgspec {version('msgspec')}; Apache "
        f"RocketMQ {SERVER_VERSION} with `{' '.join(HEAPS[heap])}` and the other flags of its `runbroker.sh`"
    )
    lines = [
        "# Benchmarks",
        "",
        introduction,
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {machine()}",
        f"- Versions: {versions}",
        f"- Command: `{command}`",
        "",
        '"Times better" is the median of the ratios within each round; above 1, PyroMQ is ahead.',
        "",
        "| | unit | Apache | PyroMQ | times better | generator |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for standing in standings:
        ratio = f"{standing.ratio:.2f}" if standing.ratio >= 1 else f"**{standing.ratio:.2f}**"
        busy = f"{standing.generator_busy:.0%}" if standing.generator_busy else ""
        lines.append(
            f"| {standing.figure} | {standing.unit} | {spread(standing.apache)} | {spread(standing.ours)} "
            f"| {ratio} | {busy} |"
        )
    behind = [standing for standing in standings if standing.ratio < 1]
    lines += ["", f"PyroMQ is ahead in {len(standings) - len(behind)} of {len(standings)} rows."]
    if behind:
        lines += ["Behind: " + "; ".join(f"{standing.figure} ({standing.ratio:.2f})" for standing in behind) + "."]
    if failed:
        lines += ["", "Requests that were refused, which do not count:", ""]
        lines += [f"- {row}: {count}" for row, count in failed.items()]
    return "\n".join(lines) + "\n"


def write_page(path: Path, table: str) -> None:
    """Replace what was measured, and keep the notes behind it."""
    notes = path.read_text().partition(NOTES)[2] if path.exists() else ""
    path.write_text(f"{table}{NOTES}{notes}" if notes else table)


def machine() -> str:
    """What this runs on, in a few words."""
    return f"{os.cpu_count()} cores, {_processor()}, {_memory()}, {platform.system()} {platform.release()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    total = Path("/proc/meminfo").read_text().split()[1]
    return f"{int(total) / (1 << 20):.0f} GiB"
