"""How long messages take from a sender to a receiver at a fixed rate, on bare frames.

    python -m benchmarks.fixedrate 127.0.0.1:10911 --rate 5000 --topic latency-1

One thread sends what is due every millisecond, whatever became of earlier messages; another keeps a pull waiting at the
broker. A message counts from the moment it was due, so a broker that stalls is charged for all that it kept waiting.
The topic must be a new one. Prints one line of JSON, times in milliseconds.
"""

import argparse
import json
import socket
import threading
import time
from collections.abc import Sequence

from benchmarks.load import cpu_seconds, send_frames
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.requests import pull_messages

TICK = 0.001
PULL_COUNT = 32
BOUND = 30.0
WARM_UP = 0.2
"""Share of the messages that is sent first and not counted."""
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def percentiles(latencies: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(latencies)
    last = len(ordered) - 1
    return {name: 1000 * ordered[min(last, int(len(ordered) * share))] for name, share in SHARES.items()}


class Sender(threading.Thread):
    """Sends at the rate; `due` is when each message was."""

    def __init__(self, connection: socket.socket, frames: list[bytes], rate: float, count: int) -> None:
        super().__init__(daemon=True)
        self.due: list[float] = []
        self._connection = connection
        self._frames = frames
        self._rate = rate
        self._count = count

    def run(self) -> None:
        begun = time.perf_counter()
        due, sent, tick = self.due, 0, 0
        while sent < self._count:
            tick += 1
            moment = begun + tick * TICK
            if (delay := moment - time.perf_counter()) > 0:
                time.sleep(delay)
            until = min(self._count, int(tick * TICK * self._rate))
            chosen = [self._frames[number % len(self._frames)] for number in range(sent, until)]
            due += [moment] * len(chosen)
            sent = until
            self._connection.sendall(b"".join(chosen))


def drain(connection: socket.socket) -> None:
    """Take the answers to the sends off the broker's hands."""
    while connection.recv(1 << 18):
        pass


def receive(connection: socket.socket, topic: str, due: list[float], count: int) -> list[float]:
    """Pull until all messages are there; how long each took."""
    latencies: list[float] = []
    reader = FrameReader()
    connection.sendall(_pull(topic, 0))
    while len(latencies) < count:
        data = connection.recv(1 << 18)
        now = time.perf_counter()
        if not data:
            raise ConnectionError(f"the broker closed the connection after {len(latencies)} messages")
        for answer in reader.feed(data):
            begin = len(latencies)
            if answer.code == ResponseCode.SUCCESS:
                end = answer.header(PullMessageResponseHeader).next_begin_offset
                latencies += [now - moment for moment in due[begin:end]]
            connection.sendall(_pull(topic, len(latencies)))
    return latencies


def _pull(topic: str, offset: int) -> bytes:
    command = pull_messages("benchmark", topic, 0, offset, PULL_COUNT, hold_ms=15_000)
    return encode(command)


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--rate", type=float, default=1000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--topic", required=True)
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    sending, receiving = (socket.create_connection((host, int(port)), BOUND) for _ in range(2))
    for connection in (sending, receiving):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    frames = send_frames(options.size, topic=options.topic, queues=1)
    sending.sendall(frames[0])  # makes the topic
    sending.recv(1 << 16)
    count = int(options.rate * options.seconds)
    sender = Sender(sending, frames, options.rate, count)
    sender.due.append(time.perf_counter())
    begun, used = time.perf_counter(), cpu_seconds()
    threading.Thread(target=drain, args=(sending,), daemon=True).start()
    sender.start()
    latencies = receive(receiving, options.topic, sender.due, count + 1)
    busy = (cpu_seconds() - used) / (time.perf_counter() - begun)
    print(json.dumps({**percentiles(latencies[int(len(latencies) * WARM_UP) :]), "failed": 0, "busy": busy}))


if __name__ == "__main__":
    main()
