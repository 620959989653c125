"""What a polite, signed client feels of others: a crowd of silent and half-open connections, a flood of broken frames.

Sends one by one at a steady pace to a broker that knows its users: alone, among the crowd, and while another process
throws frames at it as fast as it can (a limit on connections per address, which would end that at once, is switched
off). Ratios are to the sends alone of the same run.
"""

import argparse
import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import processes
from tests.hostile.targets import mutated, request, throw

from benchmarks.report import Figure, show
from pyromq.auth.users.access import User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.hooks import Signing

KEY, SECRET = "benchmark", "benchmark-secret"
CROWD = 10_000
SENDS = 500
PACE = 0.004
SEND = {
    "a": "p", "b": "TBW102", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
    "i": "WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


async def latencies(address: str) -> list[float]:
    """Seconds that each of the sends took; the first ones are not counted."""
    client = Client(hooks=(Signing(KEY, SECRET),))
    took = []
    try:
        for _ in range(SENDS):
            start = time.perf_counter()
            call = Command.request(RequestCode.SEND_MESSAGE_V2, ext=dict(SEND), body=b"x" * 128)
            answer = await client.call(address, call, 30)
            took.append(time.perf_counter() - start)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            await asyncio.sleep(PACE)
    finally:
        await client.close()
    return took[SENDS // 10 :]


@contextmanager
def crowd(address: str, count: int) -> Iterator[None]:
    """So many connections from another process."""
    command = [sys.executable, "-m", "tests.hostile.swarm", address, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert int(process.stdout.readline()) == count
        yield
        process.stdin.close()


@contextmanager
def flood(address: str) -> Iterator[None]:
    """Another process that throws frames of all kinds, unsigned, without a pause."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.crowd", "--flood", address]) as process:
        try:
            yield
        finally:
            process.kill()


async def throw_without_end(address: str) -> None:
    chance = random.Random(1)
    good = request(RequestCode.SEND_MESSAGE_V2, SEND | {"AccessKey": KEY, "Signature": "guess"}, b"x" * 128)
    while True:
        pieces = [mutated(good, chance), chance.randbytes(200), good]
        with suppress(OSError):
            await throw(address, chance.choice(pieces))


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, count: int, rounds: int) -> dict[str, Figure]:
    """All of it, in turn."""
    AccessStore(folder / "auth").create_user(User(KEY, SECRET, UserType.SUPER))
    wide = str(count + 100)
    settings = [
        *("--auth-config-path", str(folder / "auth"), "--authentication-enabled", "--connection-rate", "0"),
        *("--max-connections", wide, "--max-connections-per-peer", wide, "--flush-disk-type", "ASYNC_FLUSH"),
    ]
    seen: dict[str, list[float]] = {"alone": [], "in the crowd": [], "under the flood": []}
    idle, memory = [], []
    with processes.broker(folder / "store", *settings) as broker:
        address = broker["broker"]
        for _ in range(rounds):
            seen["alone"] += asyncio.run(latencies(address))
            before = resident(broker.pid)
            with crowd(address, count):
                memory.append((resident(broker.pid) - before) / count)
                used, since = processor_seconds(broker.pid), time.perf_counter()
                time.sleep(1)
                idle.append((processor_seconds(broker.pid) - used) / (time.perf_counter() - since))
                seen["in the crowd"] += asyncio.run(latencies(address))
            with flood(address):
                seen["under the flood"] += asyncio.run(latencies(address))
    figures: dict[str, Figure] = {"connections of the crowd": count}
    base: dict[str, float] = {}
    for name, times in seen.items():
        cuts = statistics.quantiles(times, n=100)
        for label, value in (("p50", cuts[49]), ("p99", cuts[98])):
            figures[f"send {label}, {name}, ms"] = value * 1000
            figures[f"send {label}, {name} / alone"] = value / base.setdefault(label, value)
    figures["memory for each silent connection, KiB"] = max(memory) / 1024
    figures["share of a core while the crowd is silent"] = statistics.median(idle)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=CROWD, help="of the crowd (default: %(default)s)")
    parser.add_argument("--flood", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.flood:
        asyncio.run(throw_without_end(given.flood))
    needed = given.connections + 1_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        parser.error(f"{needed} open files are needed, {hard} are allowed: see ulimit -n, or take fewer --connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    with tempfile.TemporaryDirectory(prefix="pyromq-crowd-") as name:
        show("a polite client among others", measure(Path(name), given.connections, given.rounds), as_json=given.json)


if __name__ == "__main__":
    main()
