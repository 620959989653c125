"""How much a broker takes and gives, beside a bare frame echo in the same run; and what it costs while idle.

Shares, not rates, are what can be compared between machines: a share of 0.25 means that everything a send needs beyond
finding the end of its frame (checks, storing, queue entry, answer) takes three times as long as that.
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
from pathlib import Path

from tests import processes

from benchmarks.load import PULL_COUNT, SUBSCRIPTION, TOPIC
from benchmarks.report import Figure, arguments, show
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers import PullMessageHeader

DEPTHS = (1, 32, 256)
SIZES = (128, 1024)
FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
SECONDS = 1.0
IDLE_SECONDS = 10.0
PARKED = 1_000
PARKED_PER_CONNECTION = 50
SUSPEND = 2
STORED = 32_000
BOUND = 120.0

Rates = dict[str, float]


def load(*options: str) -> dict[str, float]:
    """Run the generator in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.load", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=BOUND)
    result: dict[str, float] = json.loads(done.stdout)
    assert not result["failed"], f"{options}: {result['failed']:.0f} requests were refused"
    return result


@contextmanager
def echo_server() -> Iterator[str]:
    """The echo as a process; yields its address."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.echo"], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield json.loads(child.stdout.readline())["echo"]
        finally:
            child.kill()


def measure(address: str, kind: str, depth: int, size: int) -> float:
    """Requests per second."""
    options = ("--depth", str(depth), "--size", str(size), "--seconds", str(SECONDS), "--messages", str(STORED))
    return load(kind, address, *options)["per_second"]


def one_round(echo: str, brokers: dict[str, str], readers: dict[int, str]) -> Rates:
    """Every contender once, in turn."""
    rates: Rates = {}
    for size in SIZES:
        for depth in DEPTHS:
            rates[f"echo_{size}B_depth{depth}"] = measure(echo, "send", depth, size)
            for flush, broker in brokers.items():
                rates[f"send_{flush}_{size}B_depth{depth}"] = measure(broker, "send", depth, size)
        rates[f"pull_{size}B_messages"] = measure(readers[size], "pull", 32, size) * PULL_COUNT
    return rates


def throughput(folder: Path, rounds: int) -> dict[str, Figure]:
    """Rates and shares of the echo."""
    with (
        echo_server() as echo,
        processes.broker(folder / "async", "--flush-disk-type", "ASYNC_FLUSH") as loose,
        processes.broker(folder / "sync", "--flush-disk-type", "SYNC_FLUSH") as strict,
        processes.broker(folder / "small", "--flush-disk-type", "ASYNC_FLUSH") as small,
        processes.broker(folder / "large", "--flush-disk-type", "ASYNC_FLUSH") as large,
    ):
        brokers = {"async": loose["broker"], "sync": strict["broker"]}
        readers = dict(zip(SIZES, (small["broker"], large["broker"]), strict=True))
        for size, reader in readers.items():
            load("send", reader, "--size", str(size), "--queues", "1", "--total", str(STORED), "--depth", "256")
        runs = [one_round(echo, brokers, readers) for _ in range(rounds)]
    best = {name: max(run[name] for run in runs) for name in runs[0]}
    figures: dict[str, Figure] = {name: round(rate) for name, rate in best.items()}
    for size in SIZES:
        for depth in DEPTHS:
            for flush in brokers:
                name = f"send_{flush}_{size}B_depth{depth}"
                figures[f"share_{name}"] = round(best[name] / best[f"echo_{size}B_depth{depth}"], 3)
        name = f"pull_{size}B_messages"
        figures[f"share_{name}"] = round(best[name] / best[f"echo_{size}B_depth32"], 3)
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
    header = PullMessageHeader(
        consumer_group="benchmark",
        topic=TOPIC,
        queue_id=0,
        queue_offset=16,
        max_msg_nums=PULL_COUNT,
        sys_flag=SUSPEND | SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=120_000,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    frames = [
        encode(Command.request(RequestCode.PULL_MESSAGE, header, opaque=number))
        for number in range(PARKED_PER_CONNECTION)
    ]
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
