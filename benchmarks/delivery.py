"""Messages that are delivered later: how late they are under load, and what a million of them cost while they wait.

    python -m benchmarks.delivery [--json]

Lateness is measured on a broker in a process of its own, at 1 000 messages a second: from the moment a message is due
to the moment it is stored in its topic. For timed messages the end of their slot of time counts as well, since none may
leave before it. The cost of waiting is measured on the parts themselves, beside the cost of storing a plain message.
Pops stand beside pulls of the same messages, transactions beside plain sends; see `benchmarks.popping` and
`benchmarks.transacting`.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.unit.broker.cores import make_core

from benchmarks.popping import pop_rates
from benchmarks.report import Figure, arguments, show
from benchmarks.transacting import transaction_rates
from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.clock import wall_clock
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.record import decode_records
from pyromq.protocol.requests import pull_messages
from pyromq.remoting.client import Client
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

PER_SECOND = 1_000
LOAD_SECONDS = 10
PENDING = 1_000_000
TIMEOUT = 30.0
BODY = b"x" * 128


def percentiles(name: str, values: Sequence[int]) -> dict[str, Figure]:
    """The usual ones, in milliseconds."""
    ordered = sorted(values)
    chosen = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    figures: dict[str, Figure] = {
        f"{name} {label} ms": ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for label, share in chosen.items()
    }
    return {**figures, f"{name} max ms": ordered[-1], f"{name} early": sum(value < 0 for value in ordered)}


class Remote:
    """Sends to and reads from a broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = Client({})

    async def send(self, topic: str, properties: dict[str, str]) -> None:
        header = SendMessageV2Header(
            producer_group="p",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=wall_clock(),
            flag=0,
            properties=encode_properties(properties).decode(),
        )
        command = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=BODY)
        answer = await self._client.call(self._address, command, TIMEOUT)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def read(self, topic: str, count: int) -> list[ReceivedMessage]:
        """The first messages of a topic, once they are all there."""
        found: list[ReceivedMessage] = []
        while len(found) < count:
            command = pull_messages("g", topic, 0, len(found), 32)
            answer = await self._client.call(self._address, command, TIMEOUT)
            if answer.code == ResponseCode.SUCCESS:
                found += decode_records(answer.body)
            else:
                await asyncio.sleep(0.1)
        return found

    async def close(self) -> None:
        await self._client.close()


async def load(remote: Remote, topic: str, properties: Callable[[], dict[str, str]]) -> int:
    """PER_SECOND messages a second, in ticks of ten milliseconds, for LOAD_SECONDS; returns how many."""
    begin, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - begin) < LOAD_SECONDS:
        due = int(elapsed * PER_SECOND) - sent
        await asyncio.gather(*(remote.send(topic, properties()) for _ in range(due)))
        sent += due
        await asyncio.sleep(0.01)
    return sent


async def lateness() -> dict[str, Figure]:
    """Of delay levels and of timed messages, one after the other, on a fresh broker."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["standalone", "--data", folder, "--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1"]
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "pyromq", *command, "--json", stdout=PIPE)
        assert process.stdout is not None
        remote = Remote(json.loads(await process.stdout.readline())["broker"])
        try:
            count = await load(remote, "delayed", lambda: {"DELAY": "1"})
            delivered, parked = await remote.read("delayed", count), await remote.read(SCHEDULE_TOPIC, count)
            late = [
                after.store_timestamp - before.store_timestamp - 1000
                for before, after in zip(parked, delivered, strict=True)
            ]
            count = await load(remote, "timed", lambda: {"TIMER_DELIVER_MS": str(wall_clock() + 2_345)})
            timed = await remote.read("timed", count)
            behind = [each.store_timestamp - int(each.properties["TIMER_DELIVER_MS"]) for each in timed]
            after_slot = [each.store_timestamp - int(each.properties["TIMER_OUT_MS"]) - 1000 for each in timed]
        finally:
            await remote.close()
            process.terminate()
            await process.wait()
    return {
        "messages per second": round(count / LOAD_SECONDS),
        "load average": os.getloadavg()[0],
        **percentiles("level lateness", late),
        **percentiles("timed lateness", behind),
        **percentiles("timed lateness after slot", after_slot),
    }


def own_memory() -> int:
    """Bytes of memory that belong to this process, without mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def elapsed(work: Callable[[], None]) -> float:
    """Seconds of processor time, which others on the machine do not change much."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


class Pending:
    """A store with a timer on it, without a broker around them."""

    def __init__(self, root: Path) -> None:
        config = BrokerConfig(store_path_root_dir=root)
        settings = StoreConfig(
            store_path_root_dir=root, flush_disk_type=FlushDiskType.ASYNC_FLUSH, message_index_enable=False
        )
        self.store = MessageStore(settings, clock=wall_clock)
        self.store.open()
        core = make_core(config, wall_clock, self.store)
        tail = Tail(self.store, None, names.revive_topic(config.broker_cluster_name))
        self.timer = TimerDelivery(core, Onward(core), tail)
        self.opened = elapsed(self.timer.open)

    def put(self, topic: str, count: int, properties: Callable[[int], dict[str, str]]) -> None:
        for number in range(count):
            values = properties(number)
            assert self.store.put(PutMessage(topic, 0, BODY, encode_properties(values), values)).stored

    def enter(self) -> None:
        """Everything stored so far goes onto the wheel."""
        while self.timer.step() == 0:
            pass

    def close(self) -> None:
        self.timer.close()
        self.store.close()


def waiting_cost() -> dict[str, Figure]:
    """Of PENDING messages, spread over the next two days."""
    with tempfile.TemporaryDirectory() as folder:
        root, base = Path(folder), wall_clock() + 3_600_000
        pending = Pending(root)
        share = PENDING // 10
        plain = elapsed(lambda: pending.put("plain", share, lambda number: {"UNIQ_KEY": f"u{number}"})) * 10
        before = own_memory()
        stored = elapsed(
            lambda: pending.put(
                "timed",
                PENDING,
                lambda number: {"UNIQ_KEY": f"u{number}", "TIMER_DELIVER_MS": str(base + number * 100)},
            )
        )
        parked = own_memory()
        entered = elapsed(pending.enter)
        memory = own_memory()
        saved = elapsed(pending.close)
        log = sum(file.stat().st_blocks * 512 for file in (root / "timerlog").iterdir())
        wheel = (root / "timerwheel").stat().st_blocks * 512
        again = Pending(root)
        figures: dict[str, Figure] = {
            "pending messages": PENDING,
            "plain put CPU seconds per million": plain * 1_000_000 / PENDING,
            "timed put CPU seconds per million": stored * 1_000_000 / PENDING,
            "enter CPU seconds per million": entered * 1_000_000 / PENDING,
            "memory MB per million, before the first save": (memory - parked) / 1e6 * 1_000_000 / PENDING,
            "memory MB per million, parked only": (parked - before) / 1e6 * 1_000_000 / PENDING,
            "save CPU seconds": saved,
            "timer log and wheel MB on disk": (log + wheel) / 1e6,
            "recover CPU seconds": again.opened,
            "memory MB after recovery": (own_memory() - before) / 1e6,
        }
        again.close()
    return figures


def main() -> None:
    options = arguments(__doc__ or "")
    figures = asyncio.run(lateness()) | waiting_cost() | asyncio.run(pop_rates()) | asyncio.run(transaction_rates())
    show("delivery", figures, as_json=options.json)


if __name__ == "__main__":
    main()
