"""What a send, a pull and a start cost as work grows: topics, connections, messages in the store.

    python -m benchmarks.growth --markdown docs/benchmarks.md      # up to 100 million messages, which take 14 GB
    python -m benchmarks.growth --messages 1000000 --json

Costs are processor time of a broker process (all of its threads), so that neighbours on the machine hardly count; the
load comes from this process, with frames encoded beforehand. Each figure is the median of some rounds. Starts are also
given in seconds, from the start of the process to its announcement.

- topics: 128-byte messages to all of them in turn, 32 under way on one connection; pulls of one message from each;
- connections: one that sends among others that are silent, and all of them sending, each with one message under way;
- messages: sends behind so many messages, pulls of 32 messages from places all over the store, a start after an orderly
  stop, one after a kill that follows some sends.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests import processes
from tests.processes import Server

from benchmarks import bulk
from benchmarks.load import OK, TOPIC, send_frames
from benchmarks.report import write_section
from benchmarks.standings import machine
from pyromq.native import core
from pyromq.protocol.command import encode
from pyromq.protocol.requests import pull_messages

HEADING = "\n## As work grows\n"
TOPICS = (1, 10, 100, 1_000, 10_000)
CONNECTIONS = (1, 10, 100, 1_000)
MESSAGES = (1, 10_000, 1_000_000, 10_000_000, 100_000_000)
REQUESTS = 20_000
DEPTH = 32
BODY = 128
ROOM = (
    "--max-topics",
    "100000",
    "--http-port",
    "-1",
    "--flush-disk-type",
    "ASYNC_FLUSH",
    "--connection-rate",
    "100000",
)
FREE = 16 << 30
"""Bytes that the largest store needs."""

Point = dict[str, float]


class Line:
    """A connection that writes requests and waits for their answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def await_answers(self, count: int) -> None:
        """Take so many answers off. Raises RuntimeError for one with another code than 0."""
        data = self._rest
        while True:
            position = 0
            while count and len(data) - position >= 4:
                following = position + 4 + int.from_bytes(data[position : position + 4])
                if following > len(data):
                    break
                if data.find(OK, position, position + 40) < 0:
                    raise RuntimeError(f"refused: {data[position + 8 : following]!r}")
                position, count = following, count - 1
            data = data[position:]
            if not count:
                self._rest = data
                return
            more = self._socket.recv(1 << 18)
            if not more:
                raise RuntimeError("the broker closed the connection")
            data += more

    def close(self) -> None:
        self._socket.close()


def ask(line: Line, frames: Sequence[bytes], depth: int = DEPTH) -> None:
    """All requests on one connection, so many at a time."""
    for begin in range(0, len(frames), depth):
        part = frames[begin : begin + depth]
        line.write(b"".join(part))
        line.await_answers(len(part))


def ask_all(lines: Sequence[Line], frames: Sequence[bytes]) -> None:
    """The requests on all connections in turn, one under way on each."""
    for begin in range(0, len(frames), len(lines)):
        part = frames[begin : begin + len(lines)]
        for line, frame in zip(lines, part, strict=False):
            line.write(frame)
        for line, _ in zip(lines, part, strict=False):
            line.await_answers(1)


class Broker:
    """A broker process of its own, what it costs and what it keeps."""

    def __init__(self, folder: Path) -> None:
        self._server: Server = processes.broker(folder, *ROOM)
        self.lines: list[Line] = []

    def start(self) -> tuple[float, float]:
        """Seconds until it accepts messages, and its processor time for that."""
        begun = time.perf_counter()
        self._server.start()
        took = time.perf_counter() - begun
        used = self.cpu()
        self.connect(1)
        return took, used

    def connect(self, count: int) -> None:
        """Have so many connections."""
        while len(self.lines) < count:
            self.lines.append(Line(self._server["broker"]))

    def stop(self) -> None:
        self._hang_up()
        self._server.terminate(signal.SIGTERM)

    def kill(self) -> None:
        self._hang_up()
        self._server.kill()

    def cpu(self) -> float:
        """Processor seconds of all its threads so far."""
        spent = 0
        for task in Path(f"/proc/{self._server.pid}/task").iterdir():
            spent += int((task / "schedstat").read_text().split()[0])
        return spent / 1e9

    def memory(self) -> float:
        """Megabytes of its own, without the pages of mapped files."""
        lines = Path(f"/proc/{self._server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

    def cost(self, frames: Sequence[bytes], rounds: int, lines: int = 0) -> float:
        """Microseconds of its processor time for each request, after a warm-up.

        Without `lines` all go over one connection, 32 at a time; else over so many, one at a time over each.
        """
        costs = []
        for number in range(rounds + 1):
            before = self.cpu()
            if lines:
                ask_all(self.lines[:lines], frames)
            else:
                ask(self.lines[0], frames)
            if number:
                costs.append((self.cpu() - before) / len(frames) * 1e6)
        return round(statistics.median(costs), 2)

    def _hang_up(self) -> None:
        while self.lines:
            self.lines.pop().close()


@contextmanager
def running(where: Path) -> Iterator[tuple[Broker, Path]]:
    """A broker that is not started yet and its folder; neither is left behind."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="growth-", dir=where))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = Broker(folder)
        stack.callback(broker.kill)
        yield broker, folder


def with_topics(where: Path, topics: int, rounds: int) -> Point:
    """A broker with so many topics of one queue each that is written to."""
    names = [TOPIC] if topics == 1 else [f"{TOPIC}-{number}" for number in range(topics)]
    sends = send_frames(BODY, queues=1, count=max(REQUESTS, topics), topics=topics)
    pulls = [encode(pull_messages("benchmark", name, 0, 0, 1)) for name in names]
    pulls *= REQUESTS // len(pulls)
    with running(where) as (broker, _):
        broker.start()
        ask(broker.lines[0], sends[:topics], depth=256)  # which makes them
        send = broker.cost(sends, rounds)
        pull = broker.cost(pulls, rounds)
        memory = broker.memory()
        broker.stop()
        seconds, used = broker.start()
        return {
            "topics": topics,
            "send_us": send,
            "pull_us": pull,
            "memory_mb": round(memory, 1),
            "start_s": round(seconds, 2),
            "start_cpu_s": round(used, 2),
        }


def with_connections(where: Path, counts: Sequence[int], rounds: int) -> list[Point]:
    """One broker with more and more connections."""
    sends = send_frames(BODY, count=REQUESTS)
    pulls = [encode(pull_messages("benchmark", TOPIC, 0, number % 1_000, 1)) for number in range(REQUESTS)]
    points = []
    with running(where) as (broker, _):
        broker.start()
        broker.cost(sends, 1)
        for count in counts:
            broker.connect(count)
            ask_all(broker.lines, sends[:count])
            points.append(
                {
                    "connections": count,
                    "send_one_active_us": broker.cost(sends, rounds),
                    "pull_one_active_us": broker.cost(pulls, rounds),
                    "send_all_active_us": broker.cost(sends, rounds, lines=count),
                    "memory_mb": round(broker.memory(), 1),
                }
            )
    return points


def with_messages(where: Path, messages: int, rounds: int) -> Point:
    """A broker with so many messages of 112 bytes in its log."""
    chance = random.Random(messages)
    reach = max(messages // bulk.QUEUES - 32, 1)
    pulls = [
        encode(pull_messages("benchmark", bulk.TOPIC, n % bulk.QUEUES, chance.randrange(reach), 32))
        for n in range(REQUESTS // 4)
    ]
    sends = send_frames(BODY, topic=bulk.TOPIC, queues=bulk.QUEUES, count=REQUESTS)
    with running(where) as (broker, folder):
        bulk.build(folder, messages)
        broker.start()
        broker.stop()
        seconds, used = broker.start()
        memory = broker.memory()
        send = broker.cost(sends, rounds)
        pull = broker.cost(pulls, rounds)
        broker.kill()
        recovered, recovering = broker.start()
        return {
            "messages": messages,
            "send_us": send,
            "pull_32_us": pull,
            "memory_mb": round(memory, 1),
            "start_s": round(seconds, 2),
            "start_cpu_s": round(used, 2),
            "start_after_kill_s": round(recovered, 2),
            "start_after_kill_cpu_s": round(recovering, 2),
        }


TITLES = {
    "topics": "Topics",
    "connections": "Connections",
    "messages": "Messages in the store",
    "send_us": "send, µs",
    "pull_us": "pull, µs",
    "pull_32_us": "pull of 32, µs",
    "send_one_active_us": "send, the others silent, µs",
    "pull_one_active_us": "pull, the others silent, µs",
    "send_all_active_us": "send, all of them sending, µs",
    "memory_mb": "memory, MB",
    "start_s": "start, s",
    "start_cpu_s": "CPU of it, s",
    "start_after_kill_s": "start after a kill, s",
    "start_after_kill_cpu_s": "CPU of it, s",
}


def table(points: Sequence[Point]) -> str:
    """One row a size, and how many times the first row the last one is."""
    first, last = points[0], points[-1]
    size = next(iter(first))
    rows = [[f"{point[size]:,.0f}", *(f"{point[name]:g}" for name in first if name != size)] for point in points]
    if len(points) > 1:
        rows.append(["last / first", *(f"{last[name] / (first[name] or 1):.2f}" for name in first if name != size)])
    head = [TITLES[name] for name in first]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---:"] * len(head), *rows)) + "\n"


def markdown(curves: dict[str, list[Point]], command: str, load: float, rounds: int) -> str:
    """The section of the page."""
    introduction = (
        f"Processor time of a broker ({core}, `ASYNC_FLUSH`) for each request, medians of {rounds} rounds of "
        f"{REQUESTS:,} sends of {BODY} bytes; memory is its own, without pages of mapped files; a start is over when "
        f"messages are accepted. Of the topics each has one queue that was written to, and a pull takes one message."
    )
    lines = [
        introduction,
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {machine()}; load average at the start {load:.1f}",
        f"- Command: `{command}`",
    ]
    return "\n".join(lines) + "\n\n" + "\n".join(table(points) for points in curves.values() if points)


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--markdown", type=Path, help="write the tables to their section of this page too")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--topics", type=int, default=TOPICS[-1], help="go up to so many; 0 leaves them out")
    parser.add_argument("--connections", type=int, default=CONNECTIONS[-1], help="the same")
    parser.add_argument("--messages", type=int, default=MESSAGES[-1], help="the same; 100 million take 14 GB")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where to put the files")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    load = os.getloadavg()[0]
    where: Path = options.folder
    if options.messages >= MESSAGES[-1] and shutil.disk_usage(where).free < FREE:
        parser.error(f"{where} has too little space for {options.messages:,} messages: give another --folder or fewer")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    connections = [count for count in CONNECTIONS if count <= options.connections]
    curves: dict[str, list[Point]] = {
        "topics": [with_topics(where, count, options.rounds) for count in TOPICS if count <= options.topics],
        "connections": with_connections(where, connections, options.rounds) if connections else [],
        "messages": [with_messages(where, count, options.rounds) for count in MESSAGES if count <= options.messages],
    }
    if options.markdown is not None:
        command = f"python -m benchmarks.growth {' '.join(sys.argv[1:])}".strip()
        write_section(options.markdown, HEADING, markdown(curves, command, load, options.rounds))
    if options.json:
        print(json.dumps({"benchmark": "growth", "core": str(core), "load": load, **curves}))
    else:
        print("\n".join(table(points) for points in curves.values() if points))


if __name__ == "__main__":
    main()
