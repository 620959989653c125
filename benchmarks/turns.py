"""Where the slowest percent goes: turns of a broker's event loop over a limit with what they did, collector pauses, and
how long a flush takes to reach those who wait for it, while messages come at a fixed rate.

    python -m benchmarks.turns --rate 20000 --flush SYNC_FLUSH

A child process runs the broker with its entry points timed: reads, writes, timers, completions of flushes. A turn's
time is split into `work`, which is processor time, by what was done, and `waited`: for a processor, for the lock of the
interpreter, or for the disk through a page. `benchmarks.fixedrate` loads it and says what consumers saw.
"""

import argparse
import asyncio
import functools
import gc
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.longpoll import PullPark
from pyromq.broker.consume.pull import Puller
from pyromq.broker.periodic import Timers
from pyromq.cli.servers.foreground import NEW_OBJECTS
from pyromq.remoting.connection import Connection
from pyromq.remoting.outbox import Outbox
from pyromq.store.config import FlushDiskType
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.index.index import Index
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.flush import Flusher
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.consumequeue import ConsumeQueue

TURNS: dict[str, tuple[type, str]] = {
    "read": (Connection, "data_received"),
    "rest of a read": (Connection, "_scheduled_work"),
    "write": (Outbox, "_scheduled_flush"),
    "flush done": (Flusher, "settle"),
    "tick": (MessageStore, "tick"),
    "expired pulls": (PullPark, "tick"),
}
"""What the event loop calls."""
PARTS: dict[str, tuple[type, str]] = {
    "socket": (Outbox, "flush"),
    "enter": (Dispatcher, "advance"),
    "index": (Index, "drain"),
    "arrival": (PullPark, "heard"),
    "pull": (Puller, "_run"),
    "queue file": (ConsumeQueue, "_spill"),
    "new log file": (CommitLog, "_roll"),
    "log blocks": (MappedFile, "reserve"),
}
"""What takes time within one; each counts without the others."""
SHOWN = 12
MENTIONED = 1e-4


class Turns:
    """What the turns of one thread did."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._owner = threading.get_ident()
        self.count = 0
        self.slow: list[dict[str, Any]] = []
        self.pauses: list[float] = []
        self.syncs: list[float] = []
        self.handed_over: list[float] = []
        self._stack: list[tuple[str, float]] = []
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._mark = 0.0
        self._synced_at = 0.0
        self._begun = 0.0

    def time_all(self) -> None:
        """Have every entry point, and what matters within, timed."""
        for table, wrap in ((TURNS, self._turn), (PARTS, self._part)):
            for label, (owner, name) in table.items():
                setattr(owner, name, wrap(label, getattr(owner, name)))
        every = Timers.every

        def timed(timers: Timers, seconds: float, work: Callable[[], Any], *, at_once: bool = False) -> None:
            every(timers, seconds, self._turn(getattr(work, "__qualname__", "timer"), work), at_once=at_once)

        setattr(Timers, "every", timed)  # noqa: B010 - of a class that is typed
        setattr(Flusher, "_sync", self._sync(Flusher._sync))  # noqa: B010 - of a class that is typed

    def time_collector(self) -> None:
        """Time its pauses, too, from now on."""
        gc.callbacks.append(self._collected)

    def _turn(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            if self._stack:
                return function(*arguments)
            if label == "flush done" and self._synced_at:
                self.handed_over.append(time.perf_counter() - self._synced_at)
                self._synced_at = 0.0
            begun, self._mark = time.perf_counter(), time.thread_time()
            used = self._mark
            self._stack.append((label, begun))
            self._spent.clear()
            try:
                return function(*arguments)
            finally:
                self._switch(label)
                self._stack.clear()
                self.count += 1
                took, work = time.perf_counter() - begun, time.thread_time() - used
                if took >= self.limit:
                    done = {name: round(1000 * spent, 2) for name, spent in self._spent.items() if spent > MENTIONED}
                    self.slow.append({"turn": label, "ms": took * 1000, "waited": (took - work) * 1000, "work": done})

        return call

    def _part(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if not self._stack or threading.get_ident() != self._owner:
                return function(*arguments, **named)
            self._switch(self._stack[-1][0])
            self._stack.append((label, 0.0))
            try:
                return function(*arguments, **named)
            finally:
                self._switch(label)
                self._stack.pop()

        return call

    def _switch(self, label: str) -> None:
        """What was done up to now was this."""
        now = time.thread_time()
        self._spent[label] += now - self._mark
        self._mark = now

    def _sync(self, function: Callable[[Flusher], bool]) -> Callable[[Flusher], bool]:
        def call(flusher: Flusher) -> bool:
            begun = time.perf_counter()
            done = function(flusher)
            if done:
                self._synced_at = time.perf_counter()
                self.syncs.append(self._synced_at - begun)
            return done

        return call

    def _collected(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._begun = time.perf_counter()
        else:
            self.pauses.append(time.perf_counter() - self._begun)

    def report(self) -> dict[str, Any]:
        """In milliseconds."""
        causes: defaultdict[str, float] = defaultdict(float)
        for turn in self.slow:
            for name, spent in (turn["work"] | {"waited": turn["waited"]}).items():
                causes[name] += spent
        return {
            "turns": self.count,
            "slow_turns": len(self.slow),
            "slow_turns_ms": {name: round(causes[name], 1) for name in sorted(causes, key=causes.__getitem__)[::-1]},
            "worst": sorted(self.slow, key=lambda turn: -turn["ms"])[:SHOWN],
            "collector": _spread(self.pauses),
            "sync": _spread(self.syncs),
            "hand_over": _spread(self.handed_over),
        }


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in shares.items()}
    return {"count": len(times)} | {name: round(1000 * each, 3) for name, each in found.items()}


async def _serve(folder: Path, flush: FlushDiskType, turns: Turns) -> None:
    broker = Broker(BrokerConfig(listen_port=0, http_port=0, store_path_root_dir=folder, flush_disk_type=flush))
    await broker.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    turns.time_collector()
    print(broker.address, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    found = turns.report()
    await broker.stop()
    print(json.dumps(found), flush=True)


def measure(flush: str, rate: float, seconds: float, limit: float) -> dict[str, Any]:
    """One run: what consumers saw, and what the broker did meanwhile."""
    command = [sys.executable, "-m", "benchmarks.turns", "--serve", "--flush", flush, "--limit", str(limit)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        load = ["--rate", str(rate), "--seconds", str(seconds), "--topic", "Turns"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.fixedrate", address, *load], capture_output=True, text=True, check=True
        )
        child.stdin.close()
        report: dict[str, Any] = json.loads(child.stdout.readline())
    return {"flush": flush, "rate": rate, "seen": json.loads(done.stdout)} | report


def main() -> None:
    """Parse the command line, run, print one object of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"])
    parser.add_argument("--limit", type=float, default=0.001, help="seconds from which on a turn is told")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.serve:
        print(json.dumps(measure(options.flush, options.rate, options.seconds, options.limit), indent=2))
        return
    turns = Turns(options.limit)
    turns.time_all()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        uvloop.run(_serve(Path(folder), FlushDiskType(options.flush), turns))


if __name__ == "__main__":
    main()
