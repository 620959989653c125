"""Apache's proxy and ours, with and without its native core, on one machine, in turn, under the same gRPC load.

    python -m benchmarks.versus_apache_proxy --json                  # everything, about ten minutes
    python -m benchmarks.versus_apache_proxy --quick --rows 'send'   # a few rows

Needs Java, Maven and Go. Rows are in `calls`, the servers in `gateways`: each one process with the broker inside, and
both flush asynchronously. All are warmed up first, Apache's for longer, since its compiler needs it; then each round
measures each row on one server after the other, and the next round begins with another of them.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.interop.artifacts import SERVER_VERSION

from benchmarks.calls import known, proxy_aim, rows
from benchmarks.contenders import APACHE, OURS, PURE, Contender
from benchmarks.gateways import GROUP, HEAPS, load, running
from benchmarks.race import FULL, QUICK, Pacing, Row
from benchmarks.report import write_section
from benchmarks.rounds import Rounds
from benchmarks.standings import Standing, machine, show, table, verdict
from pyromq.native import core

HEADING = "\n## Beside Apache's proxy\n"
WARM_UP = {APACHE: 24.0, OURS: 3.0, PURE: 3.0}
WARM_BACKLOG = 1_000
"""Messages for each second of the warm-up."""
START_UP = "start-up to the first message accepted by gRPC"
IDLE_MEMORY = "memory after start-up (RSS)"
LOADED_MEMORY = "memory after all the load (RSS)"
OWN_MEMORY = "memory after all the load (RSS without mapped files)"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    rounds: int
    pacing: Pacing
    heap: str
    warm_up: float
    """Times the full warm-up."""
    contenders: tuple[str, ...]


def race(plan: Plan, chosen: Sequence[Row], folder: Path, rounds: Rounds) -> None:
    """All rounds of these rows, with all servers running; then the memory that they have come to."""
    with contextlib.ExitStack() as stack:
        contenders = [stack.enter_context(running(name, folder / name, plan.heap)) for name in plan.contenders]
        for contender in contenders:
            warm_up(contender, WARM_UP[contender.name] * plan.warm_up)
        rounds.run(plan.rounds, chosen, contenders, plan.pacing)
        for contender in contenders:
            memory = contender.memory()
            rounds.add(contender.name, LOADED_MEMORY, memory.resident, "MB", lower=True)
            rounds.add(contender.name, OWN_MEMORY, memory.own, "MB", lower=True)
    for contender in contenders:
        shutil.rmtree(contender.folder, ignore_errors=True)


def warm_up(contender: Contender, seconds: float) -> None:
    """All that is measured, for a while."""
    total = ("--total", str(int(WARM_BACKLOG * seconds)))
    known(contender, "backlog")
    load("send", contender.address, "--depth", "64", "--seconds", str(seconds / 2))
    load("send", contender.address, "--topic", "backlog", "--depth", "64", *total)
    load(
        "receive", contender.address, "--topic", "backlog", "--group", GROUP, "--depth", "4", *total, "--seconds", "60"
    )
    load("sdk", contender.address, "--depth", "16", "--seconds", str(seconds / 8))


def starts(plan: Plan, folder: Path, rounds: Rounds) -> None:
    """How long a start takes, and the memory it ends with."""
    for number in range(plan.rounds):
        for name in plan.contenders:
            with running(name, folder / f"start-{name}-{number}", plan.heap) as contender:
                rounds.add(name, START_UP, contender.started, "s", lower=True)
                rounds.add(name, IDLE_MEMORY, contender.memory().resident, "MB", lower=True)


def versions(heap: str) -> dict[str, str]:
    """Of all that takes part."""
    names = ("protobuf", "uvloop", "msgspec")
    return {
        "pyromq": version("pyromq"),
        "python": platform.python_version(),
        **{name: version(name) for name in names},
        "rocketmq-proxy": f"{SERVER_VERSION} with {' '.join(HEAPS[heap])} and the other flags of its runserver.sh",
    }


def markdown(standings: Sequence[Standing], failed: Mapping[str, int], plan: Plan, load_average: float) -> str:
    """What was measured, as the section of the page."""
    introduction = (
        f"Apache's proxy {SERVER_VERSION} in local mode and `pyromq broker` with a port for gRPC, each one process "
        f"that is the broker too, in turn, {plan.rounds} rounds; medians, with the range in brackets. Both flush "
        "asynchronously. The load is one Go program that makes the calls of the protocol itself; the last column says "
        "which share of a core it used at most."
    )
    lines = [
        introduction,
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {machine()}; load average at the start {load_average:.1f}",
        f"- Versions: {', '.join(f'{name} {text}' for name, text in versions(plan.heap).items())}",
        f"- Command: `{command()}`",
        "",
        *table(standings),
        "",
        *verdict(standings),
    ]
    lines += [f"- refused and not counted, {row}: {count}" for row, count in failed.items()]
    return "\n".join(lines) + "\n"


def command() -> str:
    """As it was typed, for the record."""
    return f"python -m benchmarks.versus_apache_proxy {' '.join(sys.argv[1:])}".strip()


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--markdown", type=Path, help="write the table to its section of this page too")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 2")
    parser.add_argument("--quick", action="store_true", help="fewer rows and shorter ones: about two minutes")
    parser.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    parser.add_argument("--without-core", action="store_true", help="PyroMQ on Python alone, without the other")
    parser.add_argument("--with-core", action="store_true", help="PyroMQ with its native core, without the other")
    parser.add_argument("--heap", choices=sorted(HEAPS), default="small", help="for Apache's proxy")
    options = parser.parse_args()
    missing = [name for name in ("java", "mvn", "go") if shutil.which(name) is None]
    if missing:
        sys.exit(f"versus_apache_proxy: {' and '.join(missing)} not found on PATH")
    chosen = [row for row in rows(quick=options.quick) if re.search(options.rows, row.name)]
    pacing, warm, count = (QUICK, 0.5, 2) if options.quick else (FULL, 1.0, 5)
    ours = (OURS,) if options.with_core else (PURE,) if options.without_core or not core.on else (OURS, PURE)
    plan = Plan(options.rounds or count, pacing, options.heap, warm, (APACHE, *ours))
    rounds = Rounds(plan.contenders, proxy_aim)
    load_average = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory(prefix="versus-apache-proxy-", ignore_cleanup_errors=True) as folder:
            if chosen:
                race(plan, chosen, Path(folder), rounds)
            if re.search(options.rows, START_UP) or re.search(options.rows, IDLE_MEMORY):
                starts(plan, Path(folder), rounds)
    except BaseException:
        show(rounds.standings(), rounds.failed)  # what was measured should not be lost
        raise
    standings = rounds.standings()
    if options.markdown is not None:
        write_section(options.markdown, HEADING, markdown(standings, rounds.failed, plan, load_average))
    if options.json:
        facts = {"benchmark": "gRPC beside Apache's proxy", "versions": versions(plan.heap), "load": load_average}
        print(json.dumps({**facts, "rows": [asdict(one) for one in standings], "failed": rounds.failed}))
    else:
        show(standings, rounds.failed)


if __name__ == "__main__":
    main()
