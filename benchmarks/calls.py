"""The rows of the gRPC race: what is measured, and how. The load is the Go program of `gateways`.

Sends are direct calls of the protocol, with the metadata that clients send, so that no client library is what limits
the rate; one row has the official one. Rates count accepted messages only.
"""

from collections.abc import Iterator

from benchmarks.contenders import Contender
from benchmarks.gateways import FLUSH, GROUP, load
from benchmarks.race import Known, Pacing, Row, Sample

SIZES = (400, 4096)
SHAPES = ((1, 1), (1, 64), (1, 256), (8, 1), (8, 8), (8, 32))
"""Connections, and calls in flight on each."""
RECEIVERS = 4
BACKLOG = 8_000
"""Messages for each second that a measurement is to take."""
RECEIVE_BOUND = "60"
RATE = 200
"""Messages a second while latency is measured, which no server is busy with."""


def proxy_aim(_figure: str, unit: str) -> float:
    """What is aimed at: half of everything, a tenth of the memory."""
    return 10.0 if unit == "MB" else 2.0


def rows(*, quick: bool) -> Iterator[Row]:
    """All of them; the quick ones are those that differ most from each other."""
    for size in SIZES[:1] if quick else SIZES:
        for connections, depth in SHAPES[:2] + SHAPES[-1:] if quick else SHAPES:
            yield _sends(size, connections, depth)
    yield _official(64)
    yield _receives()
    yield _latency()


def shape(connections: int, depth: int) -> str:
    """In words."""
    return f"{connections} connections, depth {depth} each" if connections > 1 else f"depth {depth}"


def sample(name: str, contender: Contender, command: str, *options: str) -> Sample:
    """Run the load; its rate, and the processor seconds of the server for a million."""
    before = contender.cpu()
    result = load(command, contender.address, *options)
    accepted = max(1.0, result["answered"] - result["failed"])
    figures = {
        name: result["per_second"] * accepted / max(1.0, result["answered"]),
        f"CPU: {name}": (contender.cpu() - before) / accepted * 1e6,
    }
    return Sample(figures, result["busy"], int(result["failed"]))


def _units(name: str) -> dict[str, str]:
    return {name: "msgs/s", f"CPU: {name}": "s/million"}


def _sends(size: int, connections: int, depth: int) -> Row:
    name = f"send {size} B, {shape(connections, depth)}"
    options = ("--size", str(size), "--connections", str(connections), "--depth", str(depth))

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        return sample(name, contender, "send", *options, "--seconds", str(pacing.seconds))

    return Row(name, FLUSH, measure, _units(name), frozenset({f"CPU: {name}"}))


def _official(depth: int) -> Row:
    name = f"send 400 B by the official Go client, depth {depth}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        return sample(name, contender, "sdk", "--depth", str(depth), "--seconds", str(pacing.seconds))

    return Row(name, FLUSH, measure, _units(name), frozenset({f"CPU: {name}"}))


def _receives() -> Row:
    """A backlog by receivers that take 32 at a time and confirm one a call; how it got there is not measured."""
    name = f"receive and ack 400 B, batches of 32, {RECEIVERS} receivers"
    common = ("--topic", "backlog", "--group", GROUP)

    def prepare(contender: Contender) -> None:
        known(contender, "backlog")

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        total = ("--total", str(int(BACKLOG * pacing.seconds)))
        load("send", contender.address, "--topic", "backlog", "--depth", "64", *total)
        options = ("--depth", str(RECEIVERS), *total, "--seconds", RECEIVE_BOUND)
        return sample(name, contender, "receive", *common, *options)

    return Row(name, FLUSH, measure, _units(name), frozenset({f"CPU: {name}"}), prepare)


def known(contender: Contender, topic: str) -> None:
    """Receive once: a group begins at the end of a topic, and would miss what came before it."""
    load("receive", contender.address, "--topic", topic, "--group", GROUP, "--seconds", "30")


def _latency() -> Row:
    names = {share: f"end to end with a waiting receive, {RATE} a second: {share}" for share in ("p50", "p99")}

    def prepare(contender: Contender) -> None:
        known(contender, "latency")

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = ("--topic", "latency", "--group", GROUP, "--rate", str(RATE))
        result = load("latency", contender.address, *options, "--seconds", str(pacing.latency_seconds))
        return Sample({name: result[share] for share, name in names.items()}, result["busy"], int(result["failed"]))

    units = dict.fromkeys(names.values(), "ms")
    return Row("end to end", FLUSH, measure, units, frozenset(units), prepare)
