"""What the clients of a cluster do: topics, groups, and messages whose content can be judged by their name."""

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import NamedTuple

from tests.faults.harness.history import Recorder, Subscribed
from tests.faults.harness.machine import new_event_loop

QUEUES = 2
"""Of each topic at each broker."""


class Group(NamedTuple):
    """Who reads a topic, and how: concurrent, orderly, pop or pull."""

    name: str
    topic: str
    mode: str


GROUPS = (
    Group("plain-group", "plain", "concurrent"),
    Group("pulling-group", "plain", "pull"),
    Group("delayed-group", "delayed", "concurrent"),
    Group("transactions-group", "transactions", "concurrent"),
    Group("ordered-group", "ordered", "orderly"),
    Group("popped-group", "popped", "pop"),
)
TOPICS = tuple(dict.fromkeys(group.topic for group in GROUPS))
TIMES = {
    "poll_name_server_interval": 1.0,
    "heartbeat_interval": 1.0,
    "persist_offset_interval": 0.5,
}
"""Short ones, so that what takes half a minute by default passes in a test."""


def payload(name: str) -> bytes:
    """The body of the message with this name: the name and bytes that follow from it."""
    rng = random.Random(name)
    return name.encode() + b"\0" + rng.randbytes(rng.choice((0, 10, 100, 1000)))


def name_in(body: bytes) -> str:
    return bytes(body).partition(b"\0")[0].decode(errors="replace")


def number_of(name: str) -> int:
    """The number at the end of a name, or 0."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


class Job(NamedTuple):
    """What a client process was told: its name, the name servers, and where it writes its history."""

    name: str
    name_servers: str
    recorder: Recorder


@contextlib.asynccontextmanager
async def asked_by(number: signal.Signals) -> AsyncIterator[asyncio.Event]:
    """An event that a signal sets."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, asked.set)
    yield asked
    loop.remove_signal_handler(number)


def announce() -> None:
    """Say that the work has begun."""
    sys.stdout.write(json.dumps({"ready": True}) + "\n")
    sys.stdout.flush()


def subscriptions(recorder: Recorder) -> None:
    """Note who will read what."""
    for group in GROUPS:
        recorder.write(Subscribed(group=group.name, topic=group.topic, mode=group.mode))


def run(work: Callable[[Job], Coroutine[None, None, None]]) -> None:
    """The main program of a client process."""
    name, name_servers, file = sys.argv[1:4]
    with Recorder(Path(file)) as recorder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work(Job(name, name_servers, recorder)))
