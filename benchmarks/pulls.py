"""What a pull costs a broker in processor time, without a socket: with the native core and without, in turn.

    python -m benchmarks.pulls

Frames go into a connection of a broker in this process and what it writes is thrown away, so this is all that a broker
does for a pull but the system's share. Each pull finds 32 messages with bodies of 128 bytes.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.load import send_frames
from benchmarks.report import arguments, show
from pyromq import native
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.protocol.command import Serialization, encode
from pyromq.protocol.requests import pull_messages
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Endpoint
from pyromq.remoting.limits import Limits
from pyromq.store.config import FlushDiskType

STORED = 32_768
AT_A_TIME = 32
DEPTH = 32
MAX_UNSENT = 16 << 20
SPREAD, TOGETHER = "BenchmarkSpread", "BenchmarkTogether"


class Nowhere(asyncio.Transport):
    """Takes everything at once; `taken` counts the bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.taken += len(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.taken += sum(map(len, list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 10911)}.get(name, default)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Rig:
    """A broker and a connection with it that has no socket."""

    def __init__(self, broker: Broker) -> None:
        endpoint = Endpoint(Limits(unsent_high=MAX_UNSENT), time.monotonic, is_server=True, max_calls=1)
        self.transport = Nowhere()
        self.connection = Connection(endpoint, broker.core.ports.handlers)
        self.connection.connection_made(self.transport)

    async def store(self, topic: str, queues: int) -> None:
        """Messages in so many queues in turn, `STORED` in each."""
        frames = send_frames(128, topic=topic, queues=queues)
        for first in (frames[0], encode(pull_messages("benchmark", topic, 0, 0, 1))):  # make the topic and the group
            answered = self.transport.taken
            self.connection.data_received(first)
            while self.transport.taken == answered:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        for _ in range(STORED * queues // len(frames)):
            for begin in range(0, len(frames), DEPTH):
                self.connection.data_received(b"".join(frames[begin : begin + DEPTH]))
                await asyncio.sleep(0)

    def cost(self, reads: list[bytes], pulls: int) -> float:
        """Processor microseconds of a pull."""
        receive = self.connection.data_received
        before, taken = time.process_time(), self.transport.taken
        for read in reads:
            receive(read)
        used = time.process_time() - before
        assert self.transport.taken - taken > pulls * AT_A_TIME * 128, "messages are missing"
        return used * 1e6 / pulls


def _reads(topic: str, *, subscription: str = "*", serialization: Serialization = Serialization.JSON) -> list[bytes]:
    frames = []
    for number in range(STORED // AT_A_TIME):
        command = pull_messages(
            "benchmark", topic, 0, number * AT_A_TIME, AT_A_TIME, hold_ms=15_000, subscription=subscription
        )
        command.opaque, command.serialization = number, serialization
        frames.append(encode(command))
    return [b"".join(frames[begin : begin + DEPTH]) for begin in range(0, len(frames), DEPTH)]


KINDS = {
    "together": _reads(TOGETHER),
    "together_binary": _reads(TOGETHER, serialization=Serialization.ROCKETMQ),
    "together_by_tag": _reads(TOGETHER, subscription="TagA || TagB"),
    "spread": _reads(SPREAD),
    "spread_by_tag": _reads(SPREAD, subscription="TagA || TagB"),
}
"""`together`: a queue's messages lie behind each other in the log; `spread`: among those of three other queues."""


async def measure(folder: Path, rounds: int) -> dict[str, float]:
    """The least of several rounds, microseconds a pull."""
    config = BrokerConfig(
        listen_port=0, http_port=0, store_path_root_dir=folder, flush_disk_type=FlushDiskType.ASYNC_FLUSH
    )
    broker = Broker(config)
    await broker.start()
    try:
        rig = Rig(broker)
        await rig.store(TOGETHER, 1)
        await rig.store(SPREAD, 4)
        ways = [("python", False), ("native", True)] if native.core.on else [("python", False)]
        costs: dict[str, list[float]] = {}
        for _ in range(rounds):
            for kind, reads in KINDS.items():
                for name, native.core.on in ways:
                    costs.setdefault(f"{kind}_{name}", []).append(rig.cost(reads, STORED // AT_A_TIME))
        return {name: round(min(times), 2) for name, times in costs.items()}
    finally:
        await broker.stop()


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        figures = asyncio.run(measure(Path(folder), options.rounds))
    show("cpu_us_a_pull", figures, as_json=options.json)


if __name__ == "__main__":
    main()
