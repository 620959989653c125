"""One run of one client, ours or another that a Python program could use, and what it did as one line of JSON.

    peerclient.py CLIENT WAY ADDRESS TOPIC GROUP COUNT

The interpreter is that of an environment which has the client, so nothing but the standard library is imported before
the client is chosen. Every way has the same acknowledgement: the leading broker has the message in its page cache.
"""

import asyncio
import importlib
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

SECONDS = 1.5
BOUND = 60.0
WINDOW = 256
BODY = b"x" * 128


class Run(NamedTuple):
    """What to do, and on which broker."""

    way: str
    address: str
    topic: str
    group: str
    stored: int
    """Messages that are stored in the topic, for those who consume."""


class Meter:
    """Counts from its making on; `done` is reached after so many messages, or when the time is over."""

    def __init__(self, count: int | None = None) -> None:
        self.count = 0
        self._expected = count
        self._begun, self._used = time.perf_counter(), time.process_time()

    @property
    def done(self) -> bool:
        if self._expected is not None:
            return self.count >= self._expected
        return time.perf_counter() - self._begun >= SECONDS

    def tell(self) -> dict[str, float]:
        """Messages a second, and processor time of the whole process for each, in microseconds."""
        seconds, used = time.perf_counter() - self._begun, time.process_time() - self._used
        return {"per_second": self.count / seconds, "cpu_us": used / self.count * 1e6}


def module(name: str) -> Any:
    return importlib.import_module(name)


def pyromq(run: Run) -> dict[str, float]:
    """Ours, for threads."""
    ways: dict[str, Callable[[], Any]] = {
        "sync": lambda: module("benchmarks.sending").sync(run.address),
        "async": lambda: module("benchmarks.sending").window(run.address),
        "consume": lambda: module("benchmarks.consuming").push(run.address, run.group),
    }
    pace = ways[run.way]()
    return {"per_second": pace.per_second, "cpu_us": pace.cost * 1e6}


def pyromq_aio(run: Run) -> dict[str, float]:
    """Ours, for asyncio; it consumes by iterating, as its peer does."""
    ways: dict[str, Callable[[], Any]] = {
        "sync": lambda: module("benchmarks.sending").sync_aio(run.address),
        "async": lambda: module("benchmarks.sending").window_aio(run.address),
        "consume": lambda: module("benchmarks.consuming").pull(run.address, run.group),
    }
    pace = ways[run.way]()
    return {"per_second": pace.per_second, "cpu_us": pace.cost * 1e6}


def cpp(run: Run) -> dict[str, float]:
    """RocketMQ's C++ client in the package `rocketmq`."""
    client = module("rocketmq.client")

    def message() -> Any:
        made = client.Message(run.topic)
        made.set_tags("TagA")
        made.set_body(BODY)
        return made

    if run.way == "consume":
        return _cpp_consume(client, run)
    producer = client.Producer(run.group, timeout=10_000)
    producer.set_namesrv_addr(run.address)
    producer.start()
    producer.send_sync(message())
    meter = Meter()
    if run.way == "sync":
        while not meter.done:
            producer.send_sync(message())
            meter.count += 1
    else:
        room = threading.Semaphore(WINDOW)
        while not meter.done:
            if not room.acquire(timeout=BOUND):
                raise TimeoutError("no receipt came")
            producer.send_async(message(), lambda _: room.release(), lambda _: room.release())
            meter.count += 1
        for _ in range(WINDOW):
            room.acquire(timeout=BOUND)
    told = meter.tell()
    producer.shutdown()
    return told


def _cpp_consume(client: Any, run: Run) -> dict[str, float]:
    consumer = client.PushConsumer(run.group)
    consumer.set_namesrv_addr(run.address)
    begun: list[Meter] = []
    ended = threading.Event()
    lock = threading.Lock()

    def receive(message: Any) -> None:
        _ = message.body
        with lock:
            if not begun:
                begun.append(Meter(run.stored))
            begun[0].count += 1
            if begun[0].done:
                ended.set()

    consumer.subscribe(run.topic, receive)
    consumer.start()
    if not ended.wait(BOUND):
        raise TimeoutError(f"{begun[0].count if begun else 0} of {run.stored} messages came")
    told = begun[0].tell()
    consumer.shutdown()
    return told


def confluent(run: Run) -> dict[str, float]:
    """librdkafka, for threads."""
    kafka = module("confluent_kafka")
    if run.way == "consume":
        options = {"group.id": run.group, "auto.offset.reset": "earliest", "bootstrap.servers": run.address}
        consumer = kafka.Consumer(options)
        consumer.subscribe([run.topic])
        first = consumer.poll(BOUND)
        meter = Meter(run.stored - 1)
        end = time.monotonic() + BOUND
        while first is not None and not meter.done and time.monotonic() < end:
            meter.count += sum(len(message.value()) > 0 for message in consumer.consume(500, 1.0))
        told = meter.tell()
        consumer.close()
        return told
    options = {"bootstrap.servers": run.address, "acks": "all"}
    if run.way == "sync":
        options["linger.ms"] = "0"  # nobody else comes while one waits
    producer = kafka.Producer(options)
    producer.produce(run.topic, BODY)
    producer.flush(BOUND)
    meter = Meter()
    if run.way == "sync":
        while not meter.done:
            producer.produce(run.topic, BODY)
            producer.flush(BOUND)
            meter.count += 1
        return meter.tell()
    received = 0

    def delivered(error: Any, _: Any) -> None:
        nonlocal received
        if error is not None:
            raise RuntimeError(str(error))
        received += 1

    while not meter.done:
        producer.produce(run.topic, BODY, on_delivery=delivered)
        meter.count += 1
        producer.poll(0)
        while meter.count - received >= WINDOW:
            producer.poll(1)
    producer.flush(BOUND)
    return meter.tell()


async def aiokafka(run: Run) -> dict[str, float]:
    """Kafka's protocol in Python, for asyncio."""
    kafka = module("aiokafka")
    if run.way == "consume":
        consumer = kafka.AIOKafkaConsumer(
            run.topic, group_id=run.group, auto_offset_reset="earliest", bootstrap_servers=run.address
        )
        await consumer.start()
        await asyncio.wait_for(consumer.getone(), BOUND)
        meter = Meter(run.stored - 1)
        async with asyncio.timeout(BOUND):
            async for message in consumer:
                meter.count += len(message.value) > 0
                if meter.done:
                    break
        told = meter.tell()
        await consumer.stop()
        return told
    producer = kafka.AIOKafkaProducer(bootstrap_servers=run.address, acks="all")
    await producer.start()
    await producer.send_and_wait(run.topic, BODY)
    meter = Meter()
    under_way: deque[Any] = deque()
    while not meter.done:
        if run.way == "sync":
            await producer.send_and_wait(run.topic, BODY)
        else:
            under_way.append(await producer.send(run.topic, BODY))
            if len(under_way) == WINDOW:
                await under_way.popleft()
        meter.count += 1
    for sent in under_way:
        await sent
    told = meter.tell()
    await producer.stop()
    return told


def fill(run: Run) -> dict[str, float]:
    """Store so many messages in a topic of Kafka's."""
    producer = module("confluent_kafka").Producer({"bootstrap.servers": run.address, "acks": "all"})
    for _ in range(run.stored):
        producer.produce(run.topic, BODY)
        producer.poll(0)
    producer.flush(BOUND)
    return {}


CLIENTS: dict[str, Callable[[Run], dict[str, float]]] = {
    "pyromq": pyromq,
    "pyromq_aio": pyromq_aio,
    "cpp": cpp,
    "confluent": confluent,
    "aiokafka": lambda run: asyncio.run(aiokafka(run)),
    "fill": fill,
}

if __name__ == "__main__":
    name, way, address, topic, group, count = sys.argv[1:]
    print(json.dumps(CLIENTS[name](Run(way, address, topic, group, int(count)))), flush=True)
