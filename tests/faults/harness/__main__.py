"""Runs schedules of faults and reports: `python -m tests.faults.harness --seeds 1-50 [--json] [--keep DIR]`.

Exits with 1 when a promise was broken; the folder of that schedule, with its history and all logs, is kept and named.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.faults.harness import report
from tests.faults.harness.cluster import BROKERS
from tests.faults.harness.conduct import Outcome, conduct
from tests.faults.harness.schedule import draw

SHORT = (8.0, 4)
LONG = (14.0, 7)
"""Seconds of work and number of faults."""


def seeds_of(text: str) -> list[int]:
    """`7`, `1-50` or `1,5,9`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def run(seed: int, folder: Path, *, long: bool = False) -> Outcome:
    """One schedule, in a folder that does not exist yet."""
    length, faults = LONG if long else SHORT
    folder.mkdir(parents=True)
    return asyncio.run(conduct(draw(seed, length=length, faults=faults), folder))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, help="7, 1-50 or 1,5,9; by default some drawn by chance")
    parser.add_argument("--count", type=int, default=0, help="how many, when they are drawn by chance")
    parser.add_argument("--long", action="store_true", help="longer schedules with more faults; 50 of them by default")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--keep", type=Path, help="folder for histories and logs; kept whatever comes")
    arguments = parser.parse_args()
    count = arguments.count or (50 if arguments.long else 3)
    seeds = arguments.seeds or random.SystemRandom().sample(range(1, 1_000_000), count)
    root = arguments.keep or Path(tempfile.mkdtemp(prefix="pyromq-faults-"))
    lines: list[report.Line] = []

    def say(text: str) -> None:
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    say(report.head())
    for seed in seeds:
        folder = root / f"seed-{seed}"
        outcome = run(seed, folder, long=arguments.long)
        lines.append(report.line(outcome, tuple(BROKERS)))
        say(report.row(lines[-1]))
        if outcome.violations:
            say(f"{report.excerpt(outcome.history, outcome.violations)}\n  history and logs: {folder}")
        elif arguments.keep is None:
            shutil.rmtree(folder)
    say("\n" + report.totals(lines))
    if arguments.json:
        print(msgspec.json.encode(lines).decode())  # noqa: T201 - the interface
    return int(any(each.violations for each in lines))


if __name__ == "__main__":
    sys.exit(main())
