"""What `pyromq broker --processes 2` gains over one broker on the same machine, with many connections.

Both take sends of 128 bytes from so many connections with 4 requests in flight each, spread evenly over the brokers, in
frames encoded beforehand. They run in turn, on new folders; the ratio is the median of those within each round.

The load comes from a process on the same machine and takes its share of the same cores: with two of them, two brokers
and the generator compete, so the gain is less than what a second core alone would give. `cores of the brokers` says how
much they got, and the processor time of a send what the split costs.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvloop
from tests import processes

from benchmarks import load
from benchmarks.crowd import processor_seconds
from benchmarks.report import Figure, show

DEPTH = 4
SIZE = 128
FLEET = 2


class Seen(NamedTuple):
    """What one run saw."""

    per_second: float
    cores: float
    """Of the brokers together."""
    microseconds: float
    """Processor time of the brokers for one message."""
    generator: float
    """Share of a core that the generator used."""


async def drive(addresses: list[str], connections: int, seconds: float) -> list[load.Load]:
    """Load all brokers at the same time, from so many connections in all."""
    frames = load.send_frames(SIZE)
    return await asyncio.gather(
        *(load.run(addresses[each % len(addresses)], frames, DEPTH, seconds=seconds) for each in range(connections))
    )


def measure(folder: Path, count: int, connections: int, seconds: float) -> Seen:
    """One run with so many brokers."""
    port = processes.free_port()
    settings = ["--listen-port", str(port), "--broker-name", "bench", "--store-path-root-dir", str(folder)]
    settings += ["--http-port", "-1", "--flush-disk-type", "ASYNC_FLUSH", "--processes", str(count)]
    with processes.Server("broker", *settings, "--log-level", "error") as server:
        brokers = cast("list[dict[str, Any]]", server.facts.get("brokers", [server.facts]))
        addresses = [each["broker"] for each in brokers]
        uvloop.run(drive(addresses, connections, load.WARM_UP))
        pids = [each["pid"] for each in brokers]
        before, began = sum(map(processor_seconds, pids)), os.times().elapsed
        loads = uvloop.run(drive(addresses, connections, seconds))
        used, elapsed = sum(map(processor_seconds, pids)) - before, os.times().elapsed - began
        server.terminate()  # a supervisor that is killed would leave brokers that are just about to stop
    assert not sum(each.failed for each in loads), "sends failed"
    return Seen(
        sum(each.per_second for each in loads),
        used / elapsed,
        used / sum(each.answered for each in loads) * 1e6,
        max(each.busy for each in loads),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=64, help="in all (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (default: %(default)s)")
    given = parser.parse_args()
    seen: dict[int, list[Seen]] = {1: [], FLEET: []}
    for _ in range(given.rounds):
        for count, runs in seen.items():
            with tempfile.TemporaryDirectory(prefix="pyromq-processes-") as name:
                runs.append(measure(Path(name), count, given.connections, given.seconds))
    one, two = seen[1], seen[FLEET]
    pairs = list(zip(one, two, strict=True))
    figures: dict[str, Figure] = {
        "cores of the machine, generator included": os.cpu_count() or 0,
        "load average at the end": os.getloadavg()[0],
        "connections": given.connections,
        "sends in flight on each": DEPTH,
    }
    for label, runs in (("one broker", one), ("two brokers", two)):
        figures[f"{label}: sends/s"] = statistics.median(run.per_second for run in runs)
        figures[f"{label}: cores of the brokers"] = statistics.median(run.cores for run in runs)
        figures[f"{label}: cores of the generator"] = statistics.median(run.generator for run in runs)
        figures[f"{label}: processor time of a send, µs"] = statistics.median(run.microseconds for run in runs)
    figures["two / one: sends/s"] = statistics.median(b.per_second / a.per_second for a, b in pairs)
    figures["two / one: processor time of a send"] = statistics.median(
        b.microseconds / a.microseconds for a, b in pairs
    )
    show("one host, several brokers", figures, as_json=given.json)


if __name__ == "__main__":
    main()
