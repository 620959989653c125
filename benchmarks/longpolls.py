"""Many consumers that wait at a broker, each on its own connection for its own queue, and a producer that feeds them.

    python -m benchmarks.longpolls 127.0.0.1:10911 --topic waiting --consumers 1000 --seconds 2

So many messages are under way: for each that a waiting pull brings, one more is sent, to the next queue. A delivery is
thus a send, the wake-up of one pull among all that wait, its answer, and the next pull. The topics, with four queues
each, must be there: `benchmarks.load send … --topic waiting --topics 250 --total 1000` makes them. Prints one line of
JSON; times in milliseconds.
"""

import argparse
import asyncio
import json
import re
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import uvloop

from benchmarks.contenders import processor_seconds
from benchmarks.fixedrate import percentiles
from benchmarks.load import OK, cpu_seconds, send_frames
from pyromq.protocol.command import encode
from pyromq.protocol.requests import pull_messages

QUEUES = 4
SIZE = 128
HOLD = 15_000
WARM_UP = 0.5
_NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)')
_WORDS = struct.Struct(">II")
FAR = b"1000000000000"
"""Beyond the end of any queue, for which a broker says where its end is."""
_MARK = 123_456_789
"""Stands for the offset in the pull that is the pattern of all others of its queue."""


class Consumer(asyncio.Protocol):
    """Waits for one queue, from its end on."""

    def __init__(self, crowd: "Crowd", topic: str, queue_id: int) -> None:
        self.sent: deque[float] = deque()
        self.waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it has been told where the queue ends and waits there."""
        self._crowd = crowd
        self._offset = 0
        self._rest = b""
        command = pull_messages("benchmark", topic, queue_id, _MARK, 32, hold_ms=HOLD)
        frame = encode(command)
        self._before, self._after = frame[8:].split(b"%d" % _MARK)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pull(FAR)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        position, end = 0, len(data)
        while end - position >= 4:
            following = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if following > end:
                break
            self._answered(data, position)
            position = following
        self._rest = data[position:]

    def _answered(self, data: bytes, position: int) -> None:
        found = _NEXT.search(data, position)
        if found is None:
            raise RuntimeError(f"a pull failed: {data[position : position + 200]!r}")
        offset = found[1]
        if data.find(OK, position, position + 40) >= 0 and self.waiting.done():
            self._crowd.delivered(self.sent, int(offset) - self._offset)
        self._pull(offset)

    def _pull(self, offset: bytes) -> None:
        self._offset = int(offset)
        header = b"".join((self._before, offset, self._after))
        self._transport.write(_WORDS.pack(4 + len(header), len(header)) + header)


class Crowd(asyncio.Protocol):
    """All consumers, and the producer's connection."""

    def __init__(self, topics: list[str], consumers: int) -> None:
        self.latencies: list[float] = []
        self.counted = 0
        self.consumers = [Consumer(self, topics[number // QUEUES], number % QUEUES) for number in range(consumers)]
        every = [send_frames(SIZE, topic=topic, queues=QUEUES, count=QUEUES) for topic in topics]
        self._frames = [frame for frames in every for frame in frames][:consumers]
        self._next = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, count: int) -> None:
        """To the next queues."""
        now = time.perf_counter()
        chosen = []
        for _ in range(count):
            number = self._next % len(self._frames)
            self._next += 1
            chosen.append(self._frames[number])
            self.consumers[number].sent.append(now)
        self._transport.write(b"".join(chosen))

    def delivered(self, sent: deque[float], count: int) -> None:
        """Messages have come to somebody who waited for them."""
        now = time.perf_counter()
        self.counted += count
        self.latencies += [now - sent.popleft() for _ in range(count)]
        self.send(count)


async def measure(
    address: str, topic: str, consumers: int, depth: int, seconds: float, broker: Callable[[], float]
) -> dict[str, float]:
    """Deliveries a second, how long they took, and the processor seconds of the broker for a million of them."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    crowd = Crowd(names(topic, consumers), consumers)
    for consumer in crowd.consumers:
        await loop.create_connection(partial(_same, consumer), host, int(port))
    await loop.create_connection(lambda: crowd, host, int(port))
    await asyncio.sleep(1)
    for consumer in crowd.consumers:
        consumer.waiting.set_result(None)
    crowd.send(depth)
    await asyncio.sleep(WARM_UP)
    begun, before, used, spent = time.perf_counter(), crowd.counted, cpu_seconds(), broker()
    crowd.latencies.clear()
    await asyncio.sleep(seconds)
    elapsed = time.perf_counter() - begun
    count, busy = crowd.counted - before, (cpu_seconds() - used) / elapsed
    figures = {"per_second": count / elapsed, "cost": (broker() - spent) / max(1, count) * 1e6}
    return {**figures, **percentiles(crowd.latencies), "busy": busy}


def _same(consumer: Consumer) -> Consumer:
    return consumer


def names(topic: str, consumers: int) -> list[str]:
    """Topics with a queue for each consumer; as the load generator names them."""
    return [f"{topic}-{number}" for number in range(-(-consumers // QUEUES))]


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--topic", default="waiting")
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=64, help="messages under way")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pid", type=int, default=0, help="of the broker, whose processor time is then measured")
    options = parser.parse_args()
    broker = partial(processor_seconds, options.pid) if options.pid else float
    result = uvloop.run(
        measure(options.address, options.topic, options.consumers, options.depth, options.seconds, broker)
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
