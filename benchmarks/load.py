"""A load generator for any RocketMQ broker: connections with so many requests in flight, frames encoded beforehand.

    python -m benchmarks.load send 127.0.0.1:10911 --depth 32 --size 128 --seconds 2
    python -m benchmarks.load send 127.0.0.1:10911 --connections 64 --depth 4 --headers binary

It only finds the ends of the answers and looks into their codes, so that it is never slower than the server; it runs in
a process of its own and prints one line of JSON with the rate it saw and how busy it was itself.
"""

import argparse
import asyncio
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

import uvloop

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.requests import pull_messages

TOPIC = "BenchmarkTest"
FRAMES = 4096
MAX_FRAME_BYTES = 16 << 20
PULL_COUNT = 32
BATCH_COUNT = 32
WARM_UP = 0.3
OK = b'"code":0,'
BINARY_OK = b"\0\0"
HEADERS = {"json": Serialization.JSON, "binary": Serialization.ROCKETMQ}
"""How the header of a request is written, and so that of its answer."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run saw."""

    per_second: float
    """Requests answered."""
    answered: int
    """All requests answered, those of the warm-up included."""
    failed: int
    """Answers with a code other than 0."""
    busy: float
    """Share of a core that the generator itself used."""


def send_frames(
    size: int,
    *,
    topic: str = TOPIC,
    queues: int = 4,
    count: int = FRAMES,
    topics: int = 1,
    headers: Serialization = Serialization.JSON,
) -> list[bytes]:
    """Sends as Java's producer makes them, with a body of `size` bytes, to the first queues of the topic in turn.

    With several topics, their names are made from the one given, and the sends go round them.
    """
    names = [topic] if topics == 1 else [f"{topic}-{number}" for number in range(topics)]
    body = b"x" * size
    return [
        _send_frame(
            RequestCode.SEND_MESSAGE_V2,
            number,
            names[number % topics],
            number // topics % queues,
            body,
            _properties(number),
            batch=False,
            headers=headers,
        )
        for number in range(count)
    ]


def batch_frames(size: int, *, topic: str = TOPIC, queues: int = 4, count: int = FRAMES // 8) -> list[bytes]:
    """Batches of 32 messages, each message with a body of `size` bytes."""
    frames = []
    for number in range(count):
        messages = [Message(topic, b"x" * size) for _ in range(BATCH_COUNT)]
        for item, message in enumerate(messages, start=number * BATCH_COUNT):
            message.properties.update(_properties(item))
        body = encode_batch(messages)
        frames.append(_send_frame(RequestCode.SEND_BATCH_MESSAGE, number, topic, number % queues, body, {}, batch=True))
    return frames


def _properties(number: int) -> dict[str, str]:
    return {"UNIQ_KEY": f"0A00000910E118B4AAC2{number:012X}", "WAIT": "true", "TAGS": "TagA"}


def _send_frame(
    code: RequestCode,
    opaque: int,
    topic: str,
    queue_id: int,
    body: bytes,
    properties: dict[str, str],
    *,
    batch: bool,
    headers: Serialization = Serialization.JSON,
) -> bytes:
    header = SendMessageV2Header(
        producer_group="benchmark",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=batch,
    )
    return encode(Command.request(code, header, body=body, opaque=opaque, serialization=headers))


def pull_frames(messages: int, *, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    """Pulls that walk over the first `messages` messages of a queue, 32 at a time, again and again."""
    frames = []
    for number in range(messages // PULL_COUNT):
        command = pull_messages("benchmark", topic, queue_id, number * PULL_COUNT, PULL_COUNT)
        command.opaque = number
        frames.append(encode(command))
    return frames


class _Generator(asyncio.Protocol):
    """Keeps `depth` requests in flight: for each answer, one more. `begin` is the frame it begins with."""

    def __init__(self, frames: Sequence[bytes], depth: int, total: int, begin: int = 0) -> None:
        self.answered = 0
        self.failed = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._frames = frames
        self._depth = depth
        self._left = total
        self._begin = begin
        self._sent = 0
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send(self._depth)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        position = answered = 0
        end = len(data)
        while end - position >= 4:
            following = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if following > end:
                break
            # The code comes early in the header of Apache's and of our answers, and first in a binary one.
            if data[position + 4]:
                self.failed += data[position + 8 : position + 10] != BINARY_OK
            else:
                self.failed += data.find(OK, position, min(following, position + 40)) < 0
            position = following
            answered += 1
        self._rest = data[position:]
        self.answered += answered
        self._send(answered)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(exc or ConnectionError("the server closed the connection"))

    def _send(self, count: int) -> None:
        if self._left <= 0 and self.answered >= self._sent and not self.ended.done():
            self.ended.set_result(None)
        count = min(count, self._left)
        if count <= 0:
            return
        frames, begin = self._frames, (self._begin + self._sent) % len(self._frames)
        chosen = frames[begin : begin + count]
        while len(chosen) < count:
            chosen = [*chosen, *frames[: count - len(chosen)]]
        self._sent += count
        self._left -= count
        self._transport.write(b"".join(chosen))


async def run(
    address: str, frames: Sequence[bytes], depth: int, *, connections: int = 1, seconds: float = 0, total: int = 0
) -> Load:
    """Load the server for some seconds after warming up, or until `total` requests were answered on each connection."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    starts = (number * len(frames) // connections for number in range(connections))
    opened = [
        await loop.create_connection(partial(_Generator, frames, depth, total or 2**62, start), host, int(port))
        for start in starts
    ]
    generators = [generator for _, generator in opened]
    if total:
        begun, before, used = time.perf_counter(), 0, cpu_seconds()
        await asyncio.gather(*(generator.ended for generator in generators))
    else:
        await asyncio.sleep(WARM_UP)
        begun, before, used = time.perf_counter(), _answered(generators), cpu_seconds()
        await asyncio.sleep(seconds)
        for generator in generators:
            if generator.ended.done():
                await generator.ended
    elapsed = time.perf_counter() - begun
    rate = (_answered(generators) - before) / elapsed
    failed = sum(generator.failed for generator in generators)
    load = Load(rate, _answered(generators), failed, (cpu_seconds() - used) / elapsed)
    for transport, generator in opened:
        if not generator.ended.done():
            generator.ended.set_result(None)
        transport.abort()
    return load


def _answered(generators: Sequence[_Generator]) -> int:
    return sum(generator.answered for generator in generators)


def cpu_seconds() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("send", "batch", "pull"))
    parser.add_argument("address")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--depth", type=int, default=32, help="requests in flight on each connection")
    parser.add_argument("--headers", choices=sorted(HEADERS), default="json", help="of sends")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--total", type=int, default=0, help="stop after this many requests instead")
    parser.add_argument("--queues", type=int, default=4, help="queues to send to")
    parser.add_argument("--topics", type=int, default=1, help="topics to send to, in turn")
    parser.add_argument("--messages", type=int, default=32_000, help="messages to pull, over and over")
    parser.add_argument("--topic", default=TOPIC)
    options = parser.parse_args()
    if options.kind == "send":
        count = max(512, min(FRAMES, MAX_FRAME_BYTES // (options.size + 1)))
        frames = send_frames(
            options.size,
            topic=options.topic,
            queues=options.queues,
            count=count,
            topics=options.topics,
            headers=HEADERS[options.headers],
        )
    elif options.kind == "batch":
        frames = batch_frames(options.size, topic=options.topic, queues=options.queues)
    else:
        frames = pull_frames(options.messages, topic=options.topic)
    load = uvloop.run(
        run(
            options.address,
            frames,
            options.depth,
            connections=options.connections,
            seconds=options.seconds,
            total=options.total,
        )
    )
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
