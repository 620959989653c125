"""Our client beside what a Python program could use instead: RocketMQ's C++ client, and two clients of Kafka.

    python -m benchmarks.peers [--json] [--rounds 3] [--markdown docs/benchmarks.md]

The C++ client talks to the same PyroMQ broker; aiokafka and confluent-kafka to a Kafka broker on the same machine. All
send and read messages of 128 bytes, in 4 queues or partitions, and get the same acknowledgement: the message is in the
page cache of one broker. Every run is a process of its own, in turn, and so are the brokers. `times_` is our rate by
theirs: the client for threads beside the C++ one and confluent-kafka, the one for asyncio beside aiokafka; `cpu_` our
processor time for a message by theirs, so less is better. A peer that cannot be had is left out, with a word.
"""

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime
from os import getloadavg
from pathlib import Path
from typing import NamedTuple

from tests.interop.artifacts import CPP_VERSION, cpp_driver, python_environment

from benchmarks import consuming, kafka, sending
from benchmarks.client import QUEUES, cluster
from benchmarks.report import Figure, show
from benchmarks.standings import machine
from pyromq import native

SCRIPT = Path(__file__).with_name("peerclient.py")
REQUIREMENTS = Path(__file__).with_name("peers.txt")
HEADING = "\n## Beside other Python clients\n"
WAYS = {
    "sync": "sends, one after the other",
    "async": f"sends, {sending.WINDOW} in flight",
    "consume": "messages consumed",
}
OURS = {"cpp": "pyromq", "confluent": "pyromq", "aiokafka": "pyromq_aio"}
"""The client of ours that a peer is compared with."""
TITLES = {
    "pyromq": "PyroMQ",
    "pyromq_aio": "PyroMQ, asyncio",
    "cpp": "rocketmq (C++)",
    "confluent": "confluent-kafka",
    "aiokafka": "aiokafka",
}
BOUND = 180.0


class Contender(NamedTuple):
    """A client, the interpreter that has it, and the broker it talks to."""

    name: str
    python: str
    address: str
    sends_to: str
    reads_from: str

    def run(self, way: str, group: str) -> dict[str, float]:
        """Raises RuntimeError with the last words of a run that failed."""
        topic = self.reads_from if way == "consume" else self.sends_to
        arguments = (self.name, way, self.address, topic, group, str(consuming.STORED))
        # Ours imports its benchmarks; for others it is a script, since their environment has nothing of ours.
        ours = self.name.startswith("pyromq")
        script = ("-m", "benchmarks.peerclient") if ours else (str(SCRIPT),)
        try:
            done = subprocess.run(
                [self.python, *script, *arguments], capture_output=True, text=True, timeout=BOUND, check=False
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} {way} did not end within {BOUND:g} s") from None
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            said = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise RuntimeError(f"{self.name} {way} ended with {done.returncode}: {said}")
        told: dict[str, float] = json.loads(lines[-1])
        return told


class Race:
    """All runs; `skipped` says why a peer is not among them."""

    def __init__(self) -> None:
        self.rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.costs: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.skipped: dict[str, str] = {}

    def run(self, contenders: list[Contender], rounds: int) -> None:
        for number in range(rounds):
            for way in WAYS:
                for each in contenders:
                    if f"{each.name} {way}" in self.skipped:
                        continue
                    try:
                        told = each.run(way, f"peers-{each.name}-{way}-{number}")
                    except RuntimeError as error:
                        self.skipped[f"{each.name} {way}"] = str(error)
                        continue
                    self.rates[way, each.name].append(told["per_second"])
                    self.costs[way, each.name].append(told["cpu_us"])

    def figures(self) -> dict[str, Figure]:
        """Medians, and our medians by theirs."""
        rates = {key: statistics.median(runs) for key, runs in self.rates.items()}
        costs = {key: statistics.median(runs) for key, runs in self.costs.items()}
        figures: dict[str, Figure] = {f"{way}_{name}": round(rate) for (way, name), rate in rates.items()}
        figures |= {f"cpu_us_{way}_{name}": round(cost, 2) for (way, name), cost in costs.items()}
        for (way, name), rate in rates.items():
            if name in OURS and (ours := (way, OURS[name])) in rates:
                figures[f"times_{way}_{name}"] = round(rates[ours] / rate, 2)
                figures[f"cpu_{way}_{name}"] = round(costs[ours] / costs[way, name], 2)
        return figures | {f"skipped_{name.replace(' ', '_')}": reason for name, reason in self.skipped.items()}


def with_kafka(stack: ExitStack, folder: Path, race: Race) -> list[Contender]:
    """The clients of Kafka, with a broker of theirs whose topic is filled; none, and why, if that cannot be had."""
    try:
        kafka.require_tools()
        python = python_environment("kafka-clients", REQUIREMENTS)
        address = stack.enter_context(kafka.running(folder / "kafka", QUEUES))
        contenders = [
            Contender(name, python, address, sending.TOPIC, consuming.TOPIC) for name in ("confluent", "aiokafka")
        ]
        filler = contenders[0]._replace(name="fill")
        filler.run("consume", "none")
    except RuntimeError as error:
        race.skipped |= dict.fromkeys(("confluent", "aiokafka"), str(error).splitlines()[0])
        return []
    return contenders


def with_cpp(namesrv: str, race: Race) -> list[Contender]:
    """The C++ client on our broker; none, and why, if it cannot be had."""
    try:
        return [Contender("cpp", cpp_driver()[0], namesrv, sending.TOPIC, consuming.TOPIC)]
    except RuntimeError as error:
        race.skipped["cpp"] = str(error).splitlines()[0]
        return []


def versions() -> dict[str, str]:
    """Of all that takes part."""
    pinned = dict(line.split("==") for line in REQUIREMENTS.read_text().split())
    return {
        "pyromq": str(native.core),
        "rocketmq": f"C++ {CPP_VERSION}",
        "kafka": kafka.KAFKA_VERSION,
        "python": platform.python_version(),
    } | pinned


def markdown(race: Race, load: float, rounds: int) -> str:
    """What was measured, as the section of the page."""
    figures = race.figures()
    names = [name for name in TITLES if any(f"{way}_{name}" in figures for way in WAYS)]

    def cells(prefix: str, way: str) -> str:
        values = [figures.get(f"{prefix}{way}_{name}") for name in names]
        return " | ".join("" if value is None else f"{value:,}" for value in values)

    introduction = (
        f"Messages of {sending.SIZE} bytes, {QUEUES} queues or partitions, medians of {rounds} rounds, each run a "
        "process of its own; the C++ client on the same PyroMQ broker, the others on a Kafka broker. All get their "
        "receipt when one broker has the message in its page cache."
    )
    lines = [
        introduction,
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {machine()}; load average at the start {load:.1f}",
        f"- Versions: {', '.join(f'{name} {text}' for name, text in versions().items())}",
        f"- Command: `python -m benchmarks.peers {' '.join(sys.argv[1:])}`",
        *(f"- Left out: {reason}" for reason in race.skipped.values()),
        "",
        f"| | unit | {' | '.join(TITLES[name] for name in names)} |",
        f"|---|---|{'---:|' * len(names)}",
    ]
    for way, title in WAYS.items():
        lines.append(f"| {title} | a second | {cells('', way)} |")
        lines.append(f"| | µs of processor | {cells('cpu_us_', way)} |")
    return "\n".join(lines) + "\n"


def write_section(path: Path, measured: str) -> None:
    """Put it under its heading, or at the end of the page; what follows from the next heading on stays."""
    before, _, after = path.read_text().partition(HEADING)
    rest = re.search(r"\n##+ .*", after, re.DOTALL)
    path.write_text(f"{before.rstrip()}\n{HEADING}\n{measured}{rest[0] if rest else ''}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=3, help="medians of this many (default: %(default)s)")
    parser.add_argument("--markdown", type=Path, help="write the table to its section of this page too")
    options = parser.parse_args()
    load, race = getloadavg()[0], Race()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        namesrv = stack.enter_context(cluster(folder))["namesrv"]
        ours = [
            Contender(each, sys.executable, namesrv, sending.TOPIC, consuming.TOPIC)
            for each in ("pyromq", "pyromq_aio")
        ]
        race.run([*ours, *with_cpp(namesrv, race), *with_kafka(stack, folder, race)], options.rounds)
    if options.markdown is not None:
        write_section(options.markdown, markdown(race, load, options.rounds))
    show("peers", race.figures(), as_json=options.json)


if __name__ == "__main__":
    main()
