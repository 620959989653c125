"""What new topics and groups cost, and what everybody else feels of them, beside saves of the same disk in one run.

- a heartbeat with many new groups: until it is answered, and the longest that another client's send or pull took
  meanwhile, and took for as long without it;
- topics made by the first message to them, one after the other and many at a time, as multiples of a bare save (write,
  fsync, rename, fsync of the folder) of a file as small as one topic;
- the first stop, and the start, of a broker with many topics.
"""

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from tests import processes
from tests.integration.broker.servers import Peer, consumer_of

from benchmarks.report import Figure, show
from pyromq.protocol.bodies.clients import HeartbeatData
from pyromq.protocol.codes import RequestCode, ResponseCode

GROUPS = (500, 2_000)
ONE_BY_ONE = 300
TOGETHER = 10_000
DEPTH = 256
STARTED = (2_000, 8)
SAVES = 50
ASIDE = 0.5
ROOM = ("--max-topics", "100000", "--max-groups", "100000", "--http-port", "-1")


def bare_save(folder: Path) -> float:
    """Seconds of one save of a small file, the median of several."""
    took = []
    for number in range(SAVES):
        begun = time.perf_counter()
        fresh = folder / "fresh"
        with fresh.open("wb") as file:
            file.write(b"%d" % number * 100)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "saved")
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


async def bystander(address: str, done: asyncio.Event) -> list[float]:
    """Send and pull in turn until `done`; seconds that each took."""
    took = []
    async with Peer(address) as peer:
        await peer.stored("bystander")
        while not done.is_set():
            for call in (peer.send("bystander"), peer.pull("bystander", group="bystander")):
                begun = time.perf_counter()
                answer = await call
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                took.append(time.perf_counter() - begun)
            await asyncio.sleep(0.001)
    return took


async def heartbeat(address: str, groups: int) -> dict[str, Figure]:
    """One heartbeat with so many new groups, beside somebody who sends and pulls."""
    done = asyncio.Event()
    data = HeartbeatData(
        client_id="crowd",
        consumer_data_set=[consumer_of(f"group-{groups}-{number}", "orders") for number in range(groups)],
    )
    async with Peer(address) as peer:
        await peer.stored("orders")
        body = data.encode()
        other = asyncio.create_task(bystander(address, done))
        await asyncio.sleep(2 * ASIDE)
        done.set()
        alone = await other
        done.clear()
        other = asyncio.create_task(bystander(address, done))
        await asyncio.sleep(ASIDE)
        begun = time.perf_counter()
        answer = await peer.call(RequestCode.HEART_BEAT, body=body)
        took = time.perf_counter() - begun
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        await asyncio.sleep(ASIDE)
        done.set()
        felt = await other
    return {
        f"heartbeat_{groups}_groups_ms": round(took * 1e3, 1),
        f"heartbeat_{groups}_groups_longest_wait_of_others_ms": round(max(felt) * 1e3, 1),
        f"heartbeat_{groups}_groups_longest_wait_without_it_ms": round(max(alone) * 1e3, 1),
        f"heartbeat_{groups}_groups_usual_wait_ms": round(statistics.median(felt) * 1e3, 1),
    }


async def create(address: str, prefix: str, count: int, depth: int) -> float:
    """Send to so many new topics, `depth` at a time; topics a second."""
    numbers = iter(range(count))
    async with Peer(address) as peer:
        await peer.stored("orders")

        async def lane() -> None:
            for number in numbers:
                await peer.stored(f"{prefix}-{number}")

        begun = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(depth)))
        return count / (time.perf_counter() - begun)


def creation(folder: Path, together: int) -> dict[str, Figure]:
    """Topics made by sending."""
    with processes.broker(folder / "creation", *ROOM) as broker:
        save = bare_save(folder)
        alone = asyncio.run(create(broker["broker"], "alone", ONE_BY_ONE, 1))
        many = asyncio.run(create(broker["broker"], "many", together, DEPTH))
    return {
        "bare_save_ms": round(save * 1e3, 2),
        "topics_one_by_one_per_second": round(alone, 1),
        "topics_one_by_one_saves_each": round(1 / alone / save, 2),
        f"topics_{together}_together_per_second": round(many, 1),
        f"topics_{together}_together_saves_each": round(1 / many / save, 3),
    }


def start(folder: Path) -> dict[str, Figure]:
    """Start a broker that has many topics with a message in every queue."""
    topics, queues = STARTED

    async def fill(address: str) -> None:
        numbers = iter(range(topics))
        async with Peer(address) as peer:

            async def lane() -> None:
                for number in numbers:
                    for queue in range(queues):
                        answer = await peer.send(f"topic-{number}", queue=queue, default_queues=queues)
                        assert answer.code == ResponseCode.SUCCESS, answer.remark

            await asyncio.gather(*(lane() for _ in range(DEPTH)))

    with processes.broker(folder / "start", *ROOM, "--flush-disk-type", "ASYNC_FLUSH") as broker:
        asyncio.run(fill(broker["broker"]))
        begun = time.perf_counter()
        broker.signal(signal.SIGTERM)
        while broker.is_running:  # a slow disk takes more than a minute for sixteen thousand files
            time.sleep(0.05)
        stopped = time.perf_counter() - begun
        broker.kill()
        begun = time.perf_counter()
        broker.start()
        started = time.perf_counter() - begun
    return {
        f"stop_{topics}_topics_{queues}_queues_s": round(stopped, 2),
        f"start_{topics}_topics_{queues}_queues_s": round(started, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--groups", type=int, nargs="*", default=GROUPS, help="new groups of a heartbeat")
    parser.add_argument("--topics", type=int, default=TOGETHER, help="topics made together")
    parser.add_argument("--no-start", action="store_true", help="leave out the start with many topics")
    options = parser.parse_args()
    figures: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name:
        folder = Path(name)
        with processes.broker(folder / "groups", *ROOM) as broker:
            for groups in options.groups:
                figures |= asyncio.run(heartbeat(broker["broker"], groups))
        figures |= creation(folder, options.topics)
        if not options.no_start:
            figures |= start(folder)
    show("tables", figures, as_json=options.json)


if __name__ == "__main__":
    main()
