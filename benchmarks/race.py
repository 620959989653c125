"""The rows of the race: what is measured, on which brokers, and how.

A row measures one contender once and gives one or more figures. Rates count accepted messages only. Whoever generates
the load runs in a process of its own and says how busy it was: a share near 1 would mean that it, not the broker, was
what the figure shows.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.interop.artifacts import CACHE, CLIENT_VERSIONS, java_driver, run_tool

from benchmarks import longpolls
from benchmarks.contenders import Contender
from benchmarks.load import BATCH_COUNT, PULL_COUNT

FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
SIZES = (128, 1024, 10240)
DEPTHS = (1, 32, 256)
SHAPES = ((1, 256, "binary"), (64, 4, "json"), (64, 4, "binary"))
"""Connections, requests in flight on each, and how headers are written."""
ECHOED = ((1, 1), (1, 256), (64, 4))
"""Connections and requests in flight on each."""
STORED = 32_000
CONSUMERS = 1_000
TOPICS = 1_000
BOUND = 90.0
MANY_BYTES = 10_000
"""Bodies from this size on are sent for a shorter time, so that the disk is not what fills up."""
JAVA_LOAD = Path(__file__).parent / "java" / "Load.java"

_serial = itertools.count()


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one contender in one round."""

    figures: dict[str, float]
    busy: float = 0.0
    """Share of a core that the generator used."""
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Pacing:
    """How long a measurement takes."""

    seconds: float
    latency_seconds: float
    java_seconds: float


FULL = Pacing(1.0, 2.0, 2.0)
QUICK = Pacing(0.6, 1.0, 1.5)

Known = Mapping[str, tuple[float, ...]]
"""Figures of all contenders so far, for rows that depend on others."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; `units` gives its figures with their units, `lower` which of them are better when lower."""

    name: str
    flush: str
    measure: Callable[[Contender, Pacing, Known], Sample]
    units: Mapping[str, str]
    lower: frozenset[str] = field(default=frozenset())
    prepare: Callable[[Contender], None] = lambda _contender: None


def generate(module: str, *options: str) -> dict[str, float]:
    """Run a generator in a process of its own."""
    return said([sys.executable, "-m", f"benchmarks.{module}", *options])


def said(command: list[str]) -> dict[str, float]:
    """What a program says in the last line it prints. RuntimeError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BOUND)
    if done.returncode:
        raise RuntimeError(f"{command[0]} … {' '.join(command[-8:])} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def rows(*, quick: bool) -> Iterator[Row]:
    """All of them; the quick ones are those that differ most from each other."""
    for flush in FLUSH_TYPES:
        for size in SIZES[::2] if quick else SIZES:
            for depth in DEPTHS:
                yield _sends(flush, size, depth)
    for connections, depth, headers in SHAPES:
        yield _shaped(connections, depth, headers)
    yield _batches()
    for size in SIZES[:2]:
        yield _pulls(size)
    for flush in FLUSH_TYPES:
        yield _latency(flush)
    yield _many_topics()
    yield _long_polls()
    for connections, depth in ECHOED:
        yield _echo_share(connections, depth)
    yield _disk_share()
    yield _page_share()
    if not quick:
        for depth in DEPTHS[1:]:
            yield _java_client(depth)


def _rate(contender: Contender, per_request: int, *options: str) -> tuple[float, float, dict[str, float]]:
    """Accepted messages a second, processor seconds of the broker for a million of them, and all that was said."""
    before = contender.cpu()
    result = generate("load", *options)
    answered = max(1.0, result["answered"] - result["failed"])
    accepted = answered / max(1.0, result["answered"])
    cost = (contender.cpu() - before) / (answered * per_request) * 1e6
    return result["per_second"] * accepted * per_request, cost, result


def _sends(flush: str, size: int, depth: int) -> Row:
    name = f"send {size} B, depth {depth}, {flush}"
    cost = f"CPU: {name}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        seconds = pacing.seconds / 2 if size >= MANY_BYTES else pacing.seconds
        options = ("--depth", str(depth), "--size", str(size), "--seconds", str(seconds))
        rate, used, result = _rate(contender, 1, "send", contender.address, *options)
        return Sample({name: rate, cost: used}, result["busy"], int(result["failed"]))

    return Row(name, flush, measure, {name: "msgs/s", cost: "s/million"}, frozenset({cost}))


def _shaped(connections: int, depth: int, headers: str) -> Row:
    name = f"send 128 B, {_many(connections)}depth {depth}, {'JSON' if headers == 'json' else headers} headers"
    cost = f"CPU: {name}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = ("--connections", str(connections), "--depth", str(depth), "--headers", headers)
        rate, used, result = _rate(contender, 1, "send", contender.address, *options, "--seconds", str(pacing.seconds))
        return Sample({name: rate, cost: used}, result["busy"], int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: "msgs/s", cost: "s/million"}, frozenset({cost}))


def _many(connections: int) -> str:
    return f"{connections} connections × " if connections > 1 else ""  # noqa: RUF001 - times


def _batches() -> Row:
    name = f"send batches of {BATCH_COUNT}, 128 B each, depth 32, {FLUSH_TYPES[0]}"
    cost = f"CPU: {name}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = ("--depth", "32", "--size", "128", "--seconds", str(pacing.seconds))
        rate, used, result = _rate(contender, BATCH_COUNT, "batch", contender.address, *options)
        return Sample({name: rate, cost: used}, result["busy"], int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: "msgs/s", cost: "s/million"}, frozenset({cost}))


def _pulls(size: int) -> Row:
    name = f"pull {size} B, {PULL_COUNT} at a time, depth 32"
    cost = f"CPU: {name}"
    topic = f"pulled-{size}"

    def prepare(contender: Contender) -> None:
        options = ("--topic", topic, "--size", str(size), "--queues", "1", "--total", str(STORED), "--depth", "64")
        generate("load", "send", contender.address, *options)

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = ("--topic", topic, "--depth", "32", "--messages", str(STORED), "--seconds", str(pacing.seconds))
        rate, used, result = _rate(contender, PULL_COUNT, "pull", contender.address, *options)
        return Sample({name: rate, cost: used}, result["busy"], int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: "msgs/s", cost: "s/million"}, frozenset({cost}), prepare)


def _latency(flush: str) -> Row:
    """At half the peak of the slower one, which is known only after the sends of the first round."""
    peak = f"send 128 B, depth 256, {flush}"
    names = {share: f"end to end at half peak, {flush}: {share}" for share in ("p50", "p99", "p99.9")}

    def measure(contender: Contender, pacing: Pacing, known: Known) -> Sample:
        if not known.get(peak):
            raise RuntimeError(f"the rate of this row follows from the row {peak!r}, which must run as well")
        rate = min(known[peak]) / 2
        options = ("--rate", f"{rate:.0f}", "--seconds", str(pacing.latency_seconds))
        result = generate("fixedrate", contender.address, "--topic", f"latency-{next(_serial)}", *options)
        return Sample({name: result[share] for share, name in names.items()}, result["busy"])

    units = dict.fromkeys(names.values(), "ms")
    return Row(f"end to end at half peak, {flush}", flush, measure, units, frozenset(units))


def _many_topics() -> Row:
    """The same sends over one topic and over a thousand, right after each other."""
    few, many = "send 128 B, depth 32, 1 topic", f"send 128 B, depth 32, {TOPICS} topics"
    share = f"share of its rate a broker keeps with {TOPICS} topics"
    common = ("--depth", "32", "--size", "128", "--queues", "1")

    def prepare(contender: Contender) -> None:
        options = ("--topic", "many", "--topics", str(TOPICS), "--total", str(4 * TOPICS), "--depth", "8")
        generate("load", "send", contender.address, *options)

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        seconds = ("--seconds", str(pacing.seconds))
        one = generate("load", "send", contender.address, "--topic", "few", *common, *seconds)
        all_ = generate(
            "load", "send", contender.address, "--topic", "many", "--topics", str(TOPICS), *common, *seconds
        )
        rates = one["per_second"], all_["per_second"]
        figures = {few: rates[0], many: rates[1], share: rates[1] / rates[0]}
        return Sample(figures, max(one["busy"], all_["busy"]), int(one["failed"] + all_["failed"]))

    units = {few: "msgs/s", many: "msgs/s", share: ""}
    return Row(f"1 and {TOPICS} topics", FLUSH_TYPES[0], measure, units, prepare=prepare)


def _long_polls() -> Row:
    """One producer, and consumers that each wait for a queue of their own."""
    name = f"{CONSUMERS:,} consumers on long polls: delivered"
    cost = f"CPU: {name}"
    waits = {share: f"{CONSUMERS:,} consumers on long polls: {share}" for share in ("p50", "p99")}
    common = ("--topic", "waiting", "--consumers", str(CONSUMERS))

    def prepare(contender: Contender) -> None:
        topics = CONSUMERS // longpolls.QUEUES
        options = ("--topics", str(topics), "--queues", str(longpolls.QUEUES), "--total", str(CONSUMERS))
        generate("load", "send", contender.address, "--topic", "waiting", *options, "--depth", "8")

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = ("--seconds", str(pacing.latency_seconds), "--pid", str(contender.pid))
        result = generate("longpolls", contender.address, *common, *options)
        times = {waits[share]: result[share] for share in waits}
        return Sample({name: result["per_second"], **times, cost: result["cost"]}, result["busy"])

    units = {name: "msgs/s", **dict.fromkeys(waits.values(), "ms"), cost: "s/million"}
    return Row(name, FLUSH_TYPES[0], measure, units, frozenset({*waits.values(), cost}), prepare)


def _echo_share(connections: int, depth: int) -> Row:
    """Sends, and right before them the same frames at a server that only finds their ends and answers."""
    name = f"share of a bare echo, 128 B, {_many(connections)}depth {depth}"
    options = ("--connections", str(connections), "--depth", str(depth), "--size", "128")

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        seconds = ("--seconds", str(pacing.seconds))
        with _echo() as address:
            bare = generate("load", "send", address, *options, *seconds)
        result = generate("load", "send", contender.address, *options, *seconds)
        busy = max(bare["busy"], result["busy"])
        return Sample({name: result["per_second"] / bare["per_second"]}, busy, int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: ""})


@contextmanager
def _echo() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.echo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["echo"]
        finally:
            process.kill()


def _disk_share() -> Row:
    """Sends one by one, and right before them a bare loop of writes and syncs beside the broker's files."""
    name = f"share of what the disk allows, send 128 B, depth 1, {FLUSH_TYPES[1]}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        seconds = ("--seconds", str(pacing.seconds))
        bare = generate("disk", str(contender.folder), *seconds)
        result = generate("load", "send", contender.address, "--depth", "1", "--size", "128", *seconds)
        return Sample({name: result["per_second"] / bare["per_second"]}, result["busy"], int(result["failed"]))

    return Row(name, FLUSH_TYPES[1], measure, {name: ""})


def _page_share() -> Row:
    """Large sends, and right before them bare copies of as many bytes into a new log beside the broker's."""
    size = SIZES[-1]
    name = f"share of what fresh pages allow, send {size} B, depth 256, {FLUSH_TYPES[0]}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        common = ("--size", str(size), "--seconds", str(pacing.seconds / 2))
        bare = generate("pages", str(contender.folder), *common)
        result = generate("load", "send", contender.address, "--depth", "256", *common)
        return Sample({name: result["per_second"] / bare["per_second"]}, result["busy"], int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: ""})


def _java_client(depth: int) -> Row:
    name = f"Java client, send 128 B, depth {depth}, {FLUSH_TYPES[0]}"

    def measure(contender: Contender, pacing: Pacing, _: Known) -> Sample:
        options = [str(depth), "128", str(pacing.java_seconds), str(pacing.java_seconds)]
        command = [
            "java",
            "-Xms256m",
            "-Xmx256m",
            "-cp",
            _java_load(),
            "Load",
            contender.namesrv,
            "java-load",
            *options,
        ]
        result = said(command)
        return Sample({name: result["per_second"]}, failed=int(result["failed"]))

    return Row(name, FLUSH_TYPES[0], measure, {name: "msgs/s"})


@cache
def _java_load() -> str:
    """Class path of the official client and the generator, compiled."""
    target = CACHE / "java-load"
    target.mkdir(parents=True, exist_ok=True)
    client = java_driver(CLIENT_VERSIONS[-1])
    run_tool(["javac", "-cp", client, "-d", str(target), str(JAVA_LOAD)], target)
    return f"{target}{os.pathsep}{client}"
