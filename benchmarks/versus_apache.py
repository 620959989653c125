"""Apache's broker and ours, with and without its native core, on one machine, in turn, under the same load.

    python -m benchmarks.versus_apache --markdown docs/benchmarks.md     # everything, about half an hour
    python -m benchmarks.versus_apache --quick --rows 'depth 256'        # a few rows
    python -m benchmarks.versus_apache --heap default --rows 'depth 256|long polls|start-up|memory'

Rows are in `race`, the brokers in `contenders`. All are warmed up first, Apache's for longer, since its compiler needs
it; then each round measures each row on one broker after the other, and the next round begins with another of them. The
rows of one flush type come first, with their brokers alone on the machine, then those of the other.
"""

import argparse
import contextlib
import json
import re
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contenders import APACHE, HEAPS, OURS, PURE, Contender, running
from benchmarks.race import FLUSH_TYPES, FULL, QUICK, Pacing, Row, generate, rows
from benchmarks.rounds import Rounds
from benchmarks.standings import markdown, show, write_page
from pyromq.native import core

WARM_UP = {APACHE: 25.0, OURS: 2.0, PURE: 2.0}
START_UP = "start-up to the first message accepted"
IDLE_MEMORY = "memory after start-up (RSS)"
LOADED_MEMORY = "memory after all the load (RSS without mapped files)"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    rounds: int
    pacing: Pacing
    heap: str
    warm_up: float
    """Times the full warm-up."""
    contenders: tuple[str, ...]


class Race:
    """Brokers under load, and how they start."""

    def __init__(self, plan: Plan) -> None:
        self.rounds = Rounds(plan.contenders)
        self._plan = plan

    def run(self, chosen: list[Row], folder: Path) -> None:
        """Everything that was chosen."""
        for flush in FLUSH_TYPES:
            if some := [row for row in chosen if row.flush == flush]:
                self._run(flush, some, folder)

    def _run(self, flush: str, chosen: list[Row], folder: Path) -> None:
        with contextlib.ExitStack() as stack:
            contenders = [
                stack.enter_context(running(name, folder / f"{name}-{flush}", flush, self._plan.heap))
                for name in self._plan.contenders
            ]
            for contender in contenders:
                self._warm_up(contender)
            self.rounds.run(self._plan.rounds, chosen, contenders, self._plan.pacing)
            if flush == FLUSH_TYPES[0]:
                for contender in contenders:
                    self.rounds.add(contender.name, LOADED_MEMORY, contender.memory().own, "MB", lower=True)
        for contender in contenders:
            shutil.rmtree(contender.folder, ignore_errors=True)

    def starts(self, folder: Path) -> None:
        """How long a start on an empty folder takes, and the memory it ends with."""
        for number in range(self._plan.rounds):
            for name in self._plan.contenders:
                with running(name, folder / f"start-{name}-{number}", "ASYNC_FLUSH", self._plan.heap) as contender:
                    self.rounds.add(name, START_UP, contender.started, "s", lower=True)
                    self.rounds.add(name, IDLE_MEMORY, contender.memory().resident, "MB", lower=True)

    def _warm_up(self, contender: Contender) -> None:
        seconds = WARM_UP[contender.name] * self._plan.warm_up
        for depth, size in ((256, 128), (32, 1024)):
            options = ("--depth", str(depth), "--size", str(size), "--seconds", str(seconds / 2))
            generate("load", "send", contender.address, *options)


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--markdown", type=Path, help="write the table to this file too")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 2")
    parser.add_argument("--quick", action="store_true", help="fewer rows and shorter ones: about three minutes")
    parser.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    parser.add_argument("--without-core", action="store_true", help="PyroMQ on Python alone, without the other")
    parser.add_argument("--with-core", action="store_true", help="PyroMQ with its native core, without the other")
    parser.add_argument("--heap", choices=sorted(HEAPS), default="small", help="for Apache's broker")
    options = parser.parse_args()
    chosen = [row for row in rows(quick=options.quick) if re.search(options.rows, row.name)]
    pacing, warm_up, rounds = (QUICK, 0.5, 2) if options.quick else (FULL, 1.0, 5)
    ours = (OURS,) if options.with_core else (PURE,) if options.without_core or not core.on else (OURS, PURE)
    if PURE in ours and OURS not in ours:
        print(f"one PyroMQ only, on Python alone: {'as asked for' if options.without_core else core}", file=sys.stderr)
    race = Race(Plan(options.rounds or rounds, pacing, options.heap, warm_up, (APACHE, *ours)))
    try:
        with tempfile.TemporaryDirectory(prefix="versus-apache-") as folder:
            if chosen:
                race.run(chosen, Path(folder))
            if re.search(options.rows, START_UP) or re.search(options.rows, IDLE_MEMORY):
                race.starts(Path(folder))
    except BaseException:
        show(race.rounds.standings(), race.rounds.failed)  # half an hour should not be lost
        raise
    standings = race.rounds.standings()
    if options.markdown is not None:
        said = "native core" if OURS in ours else "Python alone"
        page = markdown(standings, race.rounds.failed, options.heap, race_command(), options.rounds or rounds, said)
        write_page(options.markdown, page)
    if options.json:
        print(json.dumps({"rows": [asdict(standing) for standing in standings], "failed": race.rounds.failed}))
    else:
        show(standings, race.rounds.failed)


def race_command() -> str:
    """As it was typed, for the record."""
    return f"python -m benchmarks.versus_apache {' '.join(sys.argv[1:])}".strip()


if __name__ == "__main__":
    main()
