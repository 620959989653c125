"""What is delivered twice when members of a group come, leave and die, and how long a survivor takes to take over.

    python -m benchmarks.rebalance [--json] [--rounds 3]

Our push consumer and the official Java client take turns on one broker of ours, as processes of their own, each time on
a new topic that holds a backlog. `start`: two members start at one moment. `join`: a second one comes while the first
works. `leave`: one of two is closed. `kill`: one of two is killed; `take_over` is the time from then until the survivor
gets the first message of a queue that was the dead one's. Figures are medians; `duplicates` are deliveries beyond one
for each message, as a share of the backlog, and a ratio above 1 says how many times as many, or as long, Java's had.
"""

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests import processes
from tests.interop.artifacts import CLIENT_VERSIONS, java_driver
from tests.interop.drivers import PATIENT

from benchmarks.report import Figure, arguments, show
from pyromq import Admin, Message, Producer

QUEUES = 8
BACKLOG = 3_200
BOUND = 180.0
PROBE_INTERVAL = 0.5
JAVA_MEMBER = Path(__file__).parent / "java" / "Member.java"
OURS, JAVA = "pyromq", "java"


@dataclass
class Group:
    """What the members of one run got: the number of each message, with who got it, from which queue and when."""

    got: list[tuple[int, str, int, float]] = field(default_factory=list)
    probed: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Who got the messages of each probe, which have negative numbers."""
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def note(self, member: str, line: str) -> None:
        queue, number = map(int, line.split())
        with self.arrived:
            if number < 0:
                self.probed[-number].append(member)
            else:
                self.got.append((number, member, queue, time.monotonic()))
            self.arrived.notify_all()

    def wait(self, what: str, reached: Callable[[], bool]) -> None:
        with self.arrived:
            if not self.arrived.wait_for(reached, BOUND):
                raise RuntimeError(f"{what} did not happen within {BOUND:g} s; {len(self.got)} deliveries so far")

    def wait_for(self, count: int, member: str | None = None) -> None:
        """Until so many deliveries happened, to this member or to any."""
        self.wait(
            f"delivery {count} to {member or 'anybody'}",
            lambda: sum(1 for entry in self.got if member in (None, entry[1])) >= count,
        )

    def wait_for_all(self) -> None:
        """Until every message was delivered."""
        self.wait("the last delivery", lambda: len({entry[0] for entry in self.got}) == BACKLOG)

    @property
    def duplicates(self) -> float:
        return (len(self.got) - BACKLOG) / BACKLOG

    def take_over(self, dead: str, survivor: str, since: float) -> float:
        """Seconds until the survivor got something of a queue that was the dead one's."""
        owners = {queue: member for _, member, queue, when in self.got if when < since}
        return min(
            when - since
            for _, member, queue, when in self.got
            if when > since and member == survivor and owners.get(queue) == dead
        )


class Member:
    """A process that is ready to start consuming."""

    def __init__(self, name: str, command: list[str], group: Group) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(command)} did not start")
        self._reader = threading.Thread(target=self._read, args=(group,), daemon=True)
        self._reader.start()

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Leave the group in good order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(BOUND)
        self._reader.join(BOUND)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(BOUND)

    def _read(self, group: Group) -> None:
        for line in self._process.stdout or ():
            if line[0].isdigit():
                group.note(self.name, line)


def start(group: Group, first: Member, second: Member) -> None:
    """Of a backlog that is there."""
    first.start()
    second.start()
    group.wait_for_all()


def join(group: Group, first: Member, second: Member) -> None:
    first.start()
    group.wait_for(BACKLOG // 8)
    second.start()
    group.wait_for_all()


def leave(group: Group, first: Member, _second: Member) -> None:
    group.wait_for(BACKLOG // 8)
    first.close()
    group.wait_for_all()


def kill(group: Group, first: Member, second: Member) -> float:
    group.wait_for(BACKLOG // 8)
    first.kill()
    since = time.monotonic()
    group.wait_for_all()
    return group.take_over(first.name, second.name, since)


@dataclass(frozen=True, slots=True)
class Run:
    """What happens to two members, and the seconds it took to take over where that is measured.

    A member works on twenty messages at a time, or on one of each queue, so the backlog lasts a few seconds.
    """

    kind: str
    work_ms: int
    happens: Callable[[Group, Member, Member], float | None]
    shared: bool = False
    """Whether both share the queues before the backlog arrives."""


RUNS = {
    "start": Run("concurrent", 0, start),
    "join": Run("concurrent", 20, join),
    "leave": Run("concurrent", 20, leave, shared=True),
    "kill": Run("concurrent", 20, kill, shared=True),
    "join_orderly": Run("orderly", 10, join),
    "leave_orderly": Run("orderly", 10, leave, shared=True),
    "kill_orderly": Run("orderly", 10, kill, shared=True),
}


def _reached(seen: list[str], count: int) -> bool:
    return len(seen) >= count


class Trial:
    """Runs on one broker; topics and groups are new each time."""

    def __init__(self, namesrv: str, admin: Admin, producer: Producer) -> None:
        self._namesrv = namesrv
        self._admin = admin
        self._producer = producer
        self._numbers = itertools.count(1)
        classes = java_driver(CLIENT_VERSIONS[-1])
        self._java = ["java", "-Xmx256m", "-XX:+UseSerialGC", PATIENT, "-cp", classes, str(JAVA_MEMBER)]
        self._ours = [sys.executable, "-m", "benchmarks.member"]

    def run(self, client: str, name: str) -> tuple[float, float | None]:
        """The share of duplicates, and the time to take over."""
        run = RUNS[name]
        number = next(self._numbers)
        topic = f"rebalance-{number}"
        self._admin.create_topic(topic, queues=QUEUES)
        group = Group()
        program = self._ours if client == OURS else self._java
        command = [*program, self._namesrv, f"group-{number}", topic, run.kind, str(run.work_ms)]
        with contextlib.ExitStack() as stack:
            members = [Member(each, command, group) for each in ("first", "second")]
            for member in members:
                stack.callback(member.kill)
            if run.shared:
                self._share(topic, group, members)
            self._fill(topic)
            seconds = run.happens(group, *members)
            for member in members:
                member.close()
        return group.duplicates, seconds

    def _fill(self, topic: str) -> None:
        for begin in range(0, BACKLOG, 100):
            self._producer.send([Message(topic, str(n).encode()) for n in range(begin, begin + 100)])

    def _share(self, topic: str, group: Group, members: list[Member]) -> None:
        """Start both and send a message to each queue, over and over, until each of them gets half of those."""
        for member in members:
            member.start()
        for number in itertools.count(1):
            probe = str(-number).encode()
            for queue in self._producer.publish_queues(topic):
                self._producer.send(Message(topic, probe), queue=queue)
            seen = group.probed[number]
            group.wait(f"probe {number}", partial(_reached, seen, QUEUES))
            if all(seen.count(member.name) == QUEUES // 2 for member in members):
                return
            time.sleep(PROBE_INTERVAL)


def main() -> None:
    """Run, print."""
    options = arguments(__doc__ or "", rounds=3)
    duplicates: dict[tuple[str, str], list[float]] = defaultdict(list)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="rebalance-") as folder,
        processes.standalone(Path(folder)) as server,
        Admin(namesrv=server["namesrv"]) as admin,
        Producer("rebalance", namesrv=server["namesrv"]) as producer,
    ):
        trial = Trial(server["namesrv"], admin, producer)
        for number in range(options.rounds):
            for name in RUNS:
                for client in (OURS, JAVA) if number % 2 == 0 else (JAVA, OURS):
                    doubled, took = trial.run(client, name)
                    duplicates[name, client].append(doubled)
                    if took is not None:
                        seconds[name, client].append(took)
                    print(
                        f"round {number + 1}: {name} {client}: {doubled:.1%} twice, {took or 0:.1f} s", file=sys.stderr
                    )
    show("rebalance", figures(duplicates, seconds), as_json=options.json)


Figures = dict[tuple[str, str], list[float]]


def figures(duplicates: Figures, seconds: Figures) -> dict[str, Figure]:
    """Medians of each run and client, and Java's over ours."""
    result: dict[str, Figure] = {}
    for what, values in (("duplicates", duplicates), ("take_over_s", seconds)):
        for name in dict.fromkeys(name for name, _ in values):
            ours, java = (statistics.median(values[name, client]) for client in (OURS, JAVA))
            result |= {f"{name}_{what}": ours, f"{name}_{what}_java": java}
            # One message is the least that can be told from none.
            result[f"{name}_{what}_ratio"] = java / max(ours, 1 / BACKLOG)
    return result


if __name__ == "__main__":
    main()
