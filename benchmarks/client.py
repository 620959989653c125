"""How fast our client sends and consumes, each way beside what the same broker does for frames encoded beforehand.

    python -m benchmarks.client [--json] [--rounds 3]

A share of 0.5 means that the client reaches half the rate of a load generator that encodes and decodes nothing, with as
many requests in flight; for latencies, that a message takes twice as long as on bare frames. The broker is a process of
its own. `cpu_us_` is processor time of the client's process for each message, which neighbours on the machine disturb
least.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from tests import processes

from benchmarks import consuming, latency, sending
from benchmarks.broker import load
from benchmarks.load import BATCH_COUNT, PULL_COUNT
from benchmarks.pace import SECONDS, Pace
from benchmarks.report import Figure, arguments, show
from benchmarks.sending import SIZE, WINDOW
from pyromq import Admin

QUEUES = 4


@dataclass(frozen=True, slots=True)
class Peer:
    """What the load generator does, and the ways of the client that are measured beside it."""

    kind: str
    depth: int
    unit: int
    """Messages in one request."""
    options: tuple[str, ...]
    ways: dict[str, Callable[[str], Pace]]

    @property
    def name(self) -> str:
        return f"frames_{self.kind}_depth{self.depth}"

    def serve(self, address: str) -> float:
        """Messages a second."""
        common = ("--depth", str(self.depth), "--size", str(SIZE), "--seconds", str(SECONDS))
        return load(self.kind, address, *common, *self.options)["per_second"] * self.unit


def peers(run: int) -> list[Peer]:
    """As many requests in flight as the client has. Groups of consumers must be new in every run."""
    to_topic = ("--topic", sending.TOPIC, "--queues", str(QUEUES))
    stored = ("--topic", consuming.TOPIC, "--messages", str(consuming.STORED // QUEUES))
    return [
        Peer("send", 1, 1, to_topic, {"sync": sending.sync, "sync_aio": sending.sync_aio}),
        Peer(
            "send",
            WINDOW,
            1,
            to_topic,
            {"async": sending.window, "async_aio": sending.window_aio, "oneway_aio": sending.oneway},
        ),
        Peer("batch", 1, BATCH_COUNT, to_topic, {"batch": sending.batch}),
        Peer(
            "pull",
            QUEUES,
            PULL_COUNT,
            stored,
            {
                "push": lambda namesrv: consuming.push(namesrv, f"push-{run}"),
                "push_aio": lambda namesrv: consuming.push_aio(namesrv, f"push-aio-{run}"),
                "pull": lambda namesrv: consuming.pull(namesrv, f"pull-{run}"),
            },
        ),
    ]


def throughput(servers: processes.Server, rounds: int) -> dict[str, Figure]:
    """Messages a second, and their shares of what the broker serves."""
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    for run in range(rounds):
        for peer in peers(run):
            rates[peer.name].append(peer.serve(servers["broker"]))
            for name, way in peer.ways.items():
                pace = way(servers["namesrv"])
                rates[name].append(pace.per_second)
                costs[name].append(pace.cost)
    figures: dict[str, Figure] = {name: round(max(runs)) for name, runs in rates.items()}
    figures |= {f"cpu_us_{name}": round(min(runs) * 1e6, 2) for name, runs in costs.items()}
    for peer in peers(0):
        figures |= {f"share_{name}": round(max(rates[name]) / max(rates[peer.name]), 3) for name in peer.ways}
    return figures


def latencies(servers: processes.Server, rounds: int) -> dict[str, Figure]:
    """Percentiles of the way from sender to receiver, the best of all rounds for each."""
    bare: list[list[float]] = []
    full: list[list[float]] = []
    with Admin(namesrv=servers["namesrv"]) as admin:
        for run in range(rounds):
            topics = f"LatencyBare{run}", f"LatencyFull{run}"
            for topic in topics:
                admin.create_topic(topic, queues=1)
                admin.wait_for_topic(topic)
            bare.append(uvloop.run(latency.on_frames(servers["broker"], topics[0])))
            full.append(uvloop.run(latency.through_client(servers["namesrv"], topics[1])))
    figures: dict[str, Figure] = {"latency_per_second": latency.PER_SECOND}
    for label, share in latency.PERCENTILES.items():
        floor, took = (min(latency.percentile(run, share) for run in runs) for runs in (bare, full))
        figures |= {
            f"frames_latency_{label}_ms": round(floor * 1000, 3),
            f"latency_{label}_ms": round(took * 1000, 3),
            f"share_latency_{label}": round(floor / took, 3),
        }
    return figures


@contextmanager
def cluster(folder: Path) -> Iterator[processes.Server]:
    """A broker, with the address of its name server and with the messages to consume already stored."""
    with (
        processes.name_server(folder / "names") as names,
        processes.broker(
            folder / "broker", "--flush-disk-type", "ASYNC_FLUSH", name_servers=names["namesrv"]
        ) as broker,
    ):
        broker.facts["namesrv"] = names["namesrv"]
        with Admin(namesrv=names["namesrv"]) as admin:
            for topic in (sending.TOPIC, consuming.TOPIC):
                admin.create_topic(topic, queues=QUEUES)
                admin.wait_for_topic(topic)
        options = ("--topic", consuming.TOPIC, "--queues", str(QUEUES), "--total", str(consuming.STORED))
        load("send", broker["broker"], "--size", str(SIZE), "--depth", str(WINDOW), *options)
        yield broker


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__ or "", rounds=3)
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, cluster(Path(folder)) as servers:
        figures = throughput(servers, options.rounds) | latencies(servers, options.rounds)
    show("client", figures, as_json=options.json)


if __name__ == "__main__":
    main()
