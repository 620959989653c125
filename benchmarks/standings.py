"""The outcome of the race as a table, on the terminal and as a page, and which rows fall short of the aim."""

import os
import platform
import re
import statistics
import sys
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
WIDTH = 200
"""Of the table where there is no terminal to ask."""
_HOT = re.compile("depth 256|batches|pull ")
"""Rows in which all work is that of the broker."""
_DISK = re.compile("depth 1, SYNC_FLUSH")
"""One message at a time that must be on the disk: the disk's rows."""
NOTES = "\n## Notes\n"
"""Begins what people have written on the page."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One figure of all contenders over all rounds."""

    figure: str
    unit: str
    lower_is_better: bool
    apache: tuple[float, ...]
    ours: tuple[float, ...]
    ratio: float
    """How many times better ours is: median over the rounds, above 1 is a win."""
    generator_busy: float
    """Largest share of a core that the load generator used; 0 where none was measured."""
    pure: tuple[float, ...] = ()
    """Ours without the native core; empty where it did not run beside the other."""
    pure_ratio: float = 0.0

    aim: float = 1.0
    """What `ratio` should be at least, with the native core."""


def broker_aim(figure: str, unit: str) -> float:
    """What is aimed at in the race of brokers."""
    if unit in {"ms", "MB", "s", ""} or _DISK.search(figure):
        return 1.0
    return 3.0 if _HOT.search(figure) else 2.0


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _SHARP else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """Median and, in brackets, the range."""
    return f"{_number(statistics.median(values))} ({_number(min(values))}–{_number(max(values))})"  # noqa: RUF001 - a dash between numbers


def show(standings: Sequence[Standing], failed: Mapping[str, int]) -> None:
    """Print the table."""
    pure = any(standing.pure for standing in standings)
    more = ("without core", "times better") if pure else ()
    table = Table("figure", "unit", "Apache", "PyroMQ", "times better", *more, "generator")
    for standing in standings:
        without = (spread(standing.pure), _coloured(standing.pure_ratio)) if standing.pure else ("", "") if pure else ()
        table.add_row(
            standing.figure,
            standing.unit,
            spread(standing.apache),
            spread(standing.ours),
            _coloured(standing.ratio),
            *without,
            f"{standing.generator_busy:.0%}" if standing.generator_busy else "",
        )
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    for line in verdict(standings):
        console.print(line)
    for row, count in failed.items():
        console.print(f"{row}: {count} requests were refused")


def _coloured(ratio: float) -> str:
    return f"[{'green' if ratio >= 1 else 'red'}]{ratio:.2f}[/]"


def verdict(standings: Sequence[Standing]) -> list[str]:
    """In how many rows ours is ahead, and which fall short of the aim."""
    lines = [f"PyroMQ is ahead in {sum(one.ratio >= 1 for one in standings)} of {len(standings)} rows."]
    if any(one.pure for one in standings):
        ahead = sum(one.pure_ratio >= 1 for one in standings if one.pure)
        lines.append(f"Without the native core it is ahead in {ahead}.")
    if behind := [f"{one.figure} ({one.ratio:.2f})" for one in standings if one.ratio < 1]:
        lines.append(f"Behind: {'; '.join(behind)}.")
    if short := [f"{one.figure} ({one.ratio:.2f} of {one.aim:g})" for one in standings if 1 <= one.ratio < one.aim]:
        lines.append(f"Ahead, but short of the aim: {'; '.join(short)}.")
    return lines


def markdown(
    standings: Sequence[Standing], failed: Mapping[str, int], heap: str, command: str, rounds: int, core: str = ""
) -> str:
    """The whole page. `core` says what PyroMQ ran on."""
    pure = any(standing.pure for standing in standings)
    introduction = (
        f"Apache's broker {SERVER_VERSION} and PyroMQ {version('pyromq')} on the same machine, in turn, {rounds} "
        "rounds; medians, with the range in brackets. All have the same settings: Apache's defaults, and the flush "
        "type that the row names. The load comes from one connection, unless the row says more, with so many requests "
        "in flight (depth), in frames encoded beforehand, from a process of its own; the last column says which share "
        "of a core it used at most."
    )
    if pure:
        introduction += (
            " PyroMQ runs with its [native core](how-it-works/native.md) and, as a third contender in the same "
            "rounds, on Python alone."
        )
    versions = (
        f"Python {platform.python_version()}, uvloop {version('uvloop')}, msgspec {version('msgspec')}; "
        f"{f'PyroMQ on its {core}; ' if core else ''}Apache "
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
        *table(standings),
    ]
    lines += ["", *verdict(standings)]
    if failed:
        lines += ["", "Requests that were refused, which do not count:", ""]
        lines += [f"- {row}: {count}" for row, count in failed.items()]
    return "\n".join(lines) + "\n"


def table(standings: Sequence[Standing]) -> list[str]:
    """The lines of the table on a page, and the one that explains it."""
    pure = any(standing.pure for standing in standings)
    lines = [
        '"Times better" is the median of the ratios to Apache within each round; above 1, PyroMQ is ahead.',
        "",
        f"| | unit | Apache | PyroMQ | times better |{' without core | times better |' if pure else ''} generator |",
        f"|---|---|---:|---:|---:|{'---:|---:|' if pure else ''}---:|",
    ]
    for standing in standings:
        without = f" {_cells(standing.pure, standing.pure_ratio)} |" if pure else ""
        busy = f"{standing.generator_busy:.0%}" if standing.generator_busy else ""
        lines.append(
            f"| {standing.figure} | {standing.unit} | {spread(standing.apache)} "
            f"| {_cells(standing.ours, standing.ratio)} |{without} {busy} |"
        )
    return lines


def _cells(values: Sequence[float], ratio: float) -> str:
    if not values:
        return " | "
    return f"{spread(values)} | {ratio:.2f}" if ratio >= 1 else f"{spread(values)} | **{ratio:.2f}**"


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
