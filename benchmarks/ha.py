"""What a synchronous replica costs senders, and how far behind a slave is.

    python -m benchmarks.ha --json

A master that waits for its slave is loaded in turn with one that has none, in the same run: a share of 0.5 means that
senders get half as much through. Everything shares one machine here, so the slave takes processor time from its master
that it would not take elsewhere. Both flush before they answer.

Lag is the time from the master's acknowledgement of a message, with a master that does not wait, until the slave says
that it has it; asked for again and again, so that it is an upper bound by the time of one question.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import processes

from benchmarks.broker import Contender, Pace, measure
from benchmarks.load import send_frames
from benchmarks.report import Figure, arguments, show
from pyromq.protocol.bodies.replication import HARuntimeInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.remoting.client import Client

DEPTHS = (1, 32, 256)
SIZE = 128
LAG_SECONDS = 3.0
LAG_RATE = 1_000
"""Messages a second while the lag is measured: a steady load well below what the master can take."""
TICK = 0.005
CALL_TIMEOUT = 30.0


@contextmanager
def replicated(folder: Path, role: str) -> Iterator[tuple[processes.Server, processes.Server]]:
    """A master of this role and the slave that follows it."""
    with (
        processes.name_server(folder) as names,
        processes.broker(folder / "master", "--broker-role", role, name_servers=names["namesrv"]) as master,
        processes.broker(
            folder / "slave", "--broker-role", "SLAVE", "--broker-id", "1", name_servers=names["namesrv"]
        ) as slave,
    ):
        asyncio.run(_followed(master["broker"]))
        yield master, slave


async def _status(client: Client, address: str) -> HARuntimeInfo:
    answer = await client.call(address, Command.request(RequestCode.GET_BROKER_HA_STATUS), CALL_TIMEOUT)
    return HARuntimeInfo.decode(answer.body)


async def _followed(master: str) -> None:
    client = Client()
    try:
        while not (await _status(client, master)).ha_connection_info:  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(0.05)
    finally:
        await client.close()


def throughput(folder: Path, rounds: int) -> dict[str, Figure]:
    """Rates with and without a replica, and the share."""
    with replicated(folder / "pair", "SYNC_MASTER") as (master, _), processes.broker(folder / "alone") as alone:
        contenders = {"alone": Contender.of(alone), "replica": Contender.of(master)}
        runs: list[dict[tuple[str, int], Pace]] = [
            {(name, depth): measure(each, "send", depth, SIZE) for depth in DEPTHS for name, each in contenders.items()}
            for _ in range(rounds)
        ]
    figures: dict[str, Figure] = {}
    for depth in DEPTHS:
        best = {name: max(run[name, depth].per_second for run in runs) for name in contenders}
        least = {name: min(run[name, depth].cost for run in runs) for name in contenders}
        figures |= {f"send_{name}_depth{depth}": round(rate) for name, rate in best.items()}
        figures[f"share_replica_depth{depth}"] = round(best["replica"] / best["alone"], 3)
        figures[f"cpu_share_replica_depth{depth}"] = round(least["alone"] / least["replica"], 3)
    return figures


class _Steady(asyncio.Protocol):
    """Sends at a steady rate and notes when each message was acknowledged, and where it lies in the log."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[float, int]] = []
        self._answers = FrameReader()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        for answer in self._answers.feed(data):
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            header = answer.header(SendMessageResponseHeader)
            self.acknowledged.append((now, parse_offset_message_id(header.msg_id).physical_offset))


async def _lags(master: str, slave: str) -> list[float]:
    """Milliseconds from acknowledgement to the slave's having it, for every message."""
    loop = asyncio.get_running_loop()
    host, _, port = master.rpartition(":")
    transport, steady = await loop.create_connection(_Steady, host, int(port))
    client = Client()
    reached: list[tuple[float, int]] = []

    async def watch() -> None:
        while True:
            end = (await _status(client, slave)).ha_client_runtime_info.max_offset
            if not reached or end > reached[-1][1]:
                reached.append((time.monotonic(), end))

    watching = loop.create_task(watch())
    frames = send_frames(SIZE)
    begun, sent = loop.time(), 0
    while (passed := loop.time() - begun) < LAG_SECONDS:
        while sent < passed * LAG_RATE:
            transport.write(frames[sent % len(frames)])
            sent += 1
        await asyncio.sleep(TICK)
    async with asyncio.timeout(CALL_TIMEOUT):
        while len(steady.acknowledged) < sent or reached[-1][1] <= steady.acknowledged[-1][1]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(TICK)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    transport.close()
    await client.close()
    lags, seen = [], iter(reached)
    when, end = next(seen)
    for acknowledged, offset in sorted(steady.acknowledged, key=lambda each: each[1]):
        while end <= offset:
            when, end = next(seen)
        lags.append(max(0.0, when - acknowledged) * 1000)
    return lags


def lag(folder: Path) -> dict[str, Figure]:
    """Percentiles of the lag under a steady load."""
    with replicated(folder / "lag", "ASYNC_MASTER") as (master, slave):
        lags = asyncio.run(_lags(master["broker"], slave["broker"]))
    cuts = statistics.quantiles(lags, n=1000)
    return {
        "lag_messages": len(lags),
        **{
            f"lag_p{name}_ms": round(cuts[at - 1], 2)
            for name, at in (("50", 500), ("90", 900), ("99", 990), ("99.9", 999))
        },
        "lag_max_ms": round(max(lags), 2),
    }


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__ or "", rounds=3)
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        figures = throughput(Path(folder), options.rounds) | lag(Path(folder))
    show("ha", figures, as_json=options.json)


if __name__ == "__main__":
    main()
