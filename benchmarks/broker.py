"""How much a broker takes and gives, beside a bare frame echo in the same run; and what it costs while idle.

Shares, not rates, are what can be compared between machines: a share of 0.25 means that everything a send needs beyond
finding the end of its frame (checks, storing, queue entry, answer) takes three times as long as that. `cpu_` figures
count the servers' processor time instead of passing time.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests import processes

from benchmarks.load import PULL_COUNT, TOPIC
from benchmarks.report import Figure, arguments, show
from pyromq.protocol.command import encode
from pyromq.protocol.requests import pull_messages

DEPTHS = (1, 32, 256)
SIZES = (128, 1024)
FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
SECONDS = 1.0
IDLE_SECONDS = 10.0
PARKED = 1_000
PARKED_PER_CONNECTION = 50
STORED = 32_000
BOUND = 120.0


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that is loaded."""

    address: str
    pid: int

    @classmethod
    def of(cls, broker: processes.Server) -> Self:
        """A broker."""
        return cls(broker["broker"], broker.pid)


@dataclass(frozen=True, slots=True)
class Pace:
    """What one server did in one run."""

    per_second: float
    cost: float
    """Processor seconds of the server for each, warming up included: what neighbours on the machine disturb least."""


def load(*options: str) -> dict[str, float]:
    """Run the generator in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.load", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=BOUND)
    result: dict[str, float] = json.loads(done.stdout)
    assert not result["failed"], f"{options}: {result['failed']:.0f} requests were refused"
    return result


@contextmanager
def echo_server() -> Iterator[Contender]:
    """The echo as a process."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.echo"], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield Contender(json.loads(child.stdout.readline())["echo"], child.pid)
        finally:
            child.kill()


def measure(server: Contender, kind: str, depth: int, size: int) -> Pace:
    """How fast one server answers one kind of load."""
    options = ("--depth", str(depth), "--size", str(size), "--seconds", str(SECONDS), "--messages", str(STORED))
    before = _processor_seconds(server.pid)
    result = load(kind, server.address, *options)
    cost = (_processor_seconds(server.pid) - before) / max(1.0, result["answered"])
    units = PULL_COUNT if kind == "pull" else 1
    return Pace(result["per_second"] * units, cost / units)


def one_round(echo: Contender, brokers: dict[str, Contender], readers: dict[int, Contender]) -> dict[str, Pace]:
    """Every contender once, in turn."""
    paces: dict[str, Pace] = {}
    for size in SIZES:
        for depth in DEPTHS:
            paces[f"echo_{size}B_depth{depth}"] = measure(echo, "send", depth, size)
            for flush, broker in brokers.items():
                paces[f"send_{flush}_{size}B_depth{depth}"] = measure(broker, "send", depth, size)
        paces[f"pull_{size}B_messages"] = measure(readers[size], "pull", 32, size)
    return paces


def throughput(folder: Path, rounds: int) -> dict[str, Figure]:
    """Rates and shares of the echo."""
    with (
        echo_server() as echo,
        processes.broker(folder / "async", "--flush-disk-type", "ASYNC_FLUSH") as loose,
        processes.broker(folder / "sync", "--flush-disk-type", "SYNC_FLUSH") as strict,
        processes.broker(folder / "small", "--flush-disk-type", "ASYNC_FLUSH") as small,
        processes.broker(folder / "large", "--flush-disk-type", "ASYNC_FLUSH") as large,
    ):
        brokers = {"async": Contender.of(loose), "sync": Contender.of(strict)}
        readers = dict(zip(SIZES, map(Contender.of, (small, large)), strict=True))
        for size, reader in readers.items():
            load("send", reader.address, "--size", str(size), "--queues", "1", "--total", str(STORED), "--depth", "256")
        runs = [one_round(echo, brokers, readers) for _ in range(rounds)]
    best = {name: max(run[name].per_second for run in runs) for name in runs[0]}
    least = {name: min(run[name].cost for run in runs) for name in runs[0]}
    figures: dict[str, Figure] = {name: round(rate) for name, rate in best.items()}
    figures |= {f"cpu_us_{name}": round(cost * 1e6, 2) for name, cost in least.items()}
    for size in SIZES:
        for depth in DEPTHS:
            for flush in brokers:
                name = f"send_{flush}_{size}B_depth{depth}"
                echoed = f"echo_{size}B_depth{depth}"
                figures[f"share_{name}"] = round(best[name] / best[echoed], 3)
                figures[f"cpu_share_{name}"] = round(least[echoed] / least[name], 3)
        name = f"pull_{size}B_messages"
        echoed = f"echo_{size}B_depth32"
        figures[f"share_{name}"] = round(best[name] / best[echoed], 3)
        figures[f"cpu_share_{name}"] = round(least[echoed] / least[name], 3)
    return figures


def idle(folder: Path) -> dict[str, Figure]:
    """Memory of a fresh standalone, and the share of a core it uses while a thousand pulls wait."""
    with processes.standalone(folder / "idle") as server:
        load("send", server["broker"], "--total", "64", "--depth", "1")
        resident = _resident(server.pid)
        used, elapsed = asyncio.run(_park(server["broker"], server.pid))
    return {"idle_standalone_rss_mb": round(resident / 1e6, 1), "idle_1000_parked_core_share": round(used / elapsed, 5)}


async def _park(address: str, pid: int) -> tuple[float, float]:
    """Park the pulls; returns processor seconds and seconds that passed."""
    host, _, port = address.rpartition(":")
    command = pull_messages("benchmark", TOPIC, 0, 16, PULL_COUNT, hold_ms=120_000)
    frames = []
    for command.opaque in range(PARKED_PER_CONNECTION):
        frames.append(encode(command))
    connections = []
    for _ in range(PARKED // PARKED_PER_CONNECTION):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"".join(frames))
        connections.append((reader, writer))
    await asyncio.sleep(1)
    begun, before = time.monotonic(), _processor_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    used, elapsed = _processor_seconds(pid) - before, time.monotonic() - begun
    for reader, writer in connections:
        assert not reader._buffer, "a pull was answered instead of held"  # type: ignore[attr-defined]
        writer.close()
    return used, elapsed


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__ or "", rounds=3)
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        figures = idle(Path(folder)) | throughput(Path(folder), options.rounds)
    show("broker", figures, as_json=options.json)


if __name__ == "__main__":
    main()
