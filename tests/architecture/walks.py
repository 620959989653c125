"""Walks through the house: a send, a pull, a producer's send, a push delivery and a Spark batch, as they are taken.

In Python alone, which is the reference: what the native core takes over is not seen from here.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyromq import native
from pyromq.aio import Message, Producer, PushConsumer
from pyromq.broker.standalone import Standalone
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.testing import Cluster
from tests.architecture.recorder import Recorder, Step, is_worth_a_visit

TOPIC = "walk"
FRAMES = ("remoting/", "protocol/frame.py", "protocol/command.py", "protocol/headers/base.py")
"""What moves frames and reads headers, the same for every request."""
SERVED = {"Connection.data_received", "Flusher._sync", "Flusher.settle", "Outbox._scheduled_flush"}
"""Where the work on a request begins inside a broker: with its bytes, or when the disk has it."""
PERIODIC = ("Periodic.", "Timers.", "Paced.", "Schedule.", "RouteUpdates.", "Heartbeats.")
"""Whose work goes by the clock."""


class Walk(NamedTuple):
    """What was recorded of one piece of work."""

    title: str
    calls: list[Step]

    @property
    def steps(self) -> list[Step]:
        """What a reader goes through."""
        return [step for step in self.calls if is_worth_a_visit(step)]

    @property
    def beyond_frames(self) -> list[Step]:
        """The steps that are this work's own."""
        return [step for step in self.steps if not step.file.startswith(FRAMES)]

    @property
    def files(self) -> int:
        return len({step.file for step in self.steps})

    @property
    def own_files(self) -> int:
        return len({step.file for step in self.beyond_frames})


def _is_work(root: str) -> bool:
    """Not what servers and clients do by the clock."""
    return not root.startswith(PERIODIC)


class _Raw:
    """A connection that speaks frames made beforehand, with nothing of PyroMQ in its way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, frame: bytes) -> bytes:
        self._writer.write(frame)
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def _connected(address: str) -> _Raw:
    host, port = address.rsplit(":", 1)
    return _Raw(*await asyncio.open_connection(host, int(port)))


def _frame(code: RequestCode, header: Header, body: bytes = b"") -> bytes:
    return encode(Command.request(code, header, body=body))


def _send() -> bytes:
    header = SendMessageV2Header(
        producer_group="walkers",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01AC110001000000000000000000000000\x02WAIT\x01true\x02",
    )
    return _frame(RequestCode.SEND_MESSAGE_V2, header, b"hello")


def _pull() -> bytes:
    header = PullMessageHeader(
        consumer_group="walkers",
        topic=TOPIC,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,  # the subscription is in the request
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    return _frame(RequestCode.PULL_MESSAGE, header)


@contextmanager
def without_core() -> Iterator[None]:
    """Have Python do everything."""
    on, native.core.on = native.core.on, False
    try:
        yield
    finally:
        native.core.on = on


async def broker_walks() -> list[Walk]:
    """A send with SYNC_FLUSH and a pull, inside a broker."""
    recorder = Recorder()
    with without_core(), tempfile.TemporaryDirectory() as folder:
        server = Standalone(Path(folder), namesrv_port=0, broker_port=0, settings={"flush_disk_type": "SYNC_FLUSH"})
        await server.start()
        raw = await _connected(server.broker_address)
        try:
            walks = [
                Walk(title, await _recorded(recorder, partial(raw.ask, frame), SERVED.__contains__))
                for title, frame in (("A send", _send()), ("A pull", _pull()))
            ]
        finally:
            await raw.close()
            await server.stop()
            recorder.close()
    return walks


async def _recorded(
    recorder: Recorder, work: Callable[[], Awaitable[object]], follows: Callable[[str], bool]
) -> list[Step]:
    """Once to have everything made that is made once, then for the record."""
    for _ in range(2):
        await work()
    with recorder.recording():
        await work()
    return recorder.calls(follows)


async def client_walks() -> list[Walk]:
    """A producer's send and a delivery to a push consumer, inside their clients."""
    with without_core(), Cluster() as cluster:
        await asyncio.to_thread(cluster.create_topic, TOPIC)
        (address,) = cluster.brokers.values()
        raw = await _connected(address)
        recorder = Recorder()
        heard = asyncio.Event()
        producer = Producer("walkers", namesrv=cluster.namesrv)
        consumer = PushConsumer("walkers", namesrv=cluster.namesrv)
        consumer.subscribe(TOPIC)

        @consumer.listen
        async def listener(_message: object) -> None:
            heard.set()

        try:
            await producer.start()
            sent = Walk(
                "A producer's send",
                await _recorded(recorder, lambda: producer.send(Message(TOPIC, b"hello")), _is_work),
            )
            await consumer.start()
            await heard.wait()

            frame = _send()

            async def delivery() -> None:
                heard.clear()
                await raw.ask(frame)
                await heard.wait()
                await asyncio.sleep(0)  # the listener has returned by then

            delivered = Walk("A push delivery", await _recorded(recorder, delivery, _is_work))
        finally:
            await consumer.close()
            await producer.close()
            await raw.close()
            recorder.close()
    return [sent, delivered]


def spark_walk() -> Walk:
    """A batch as Spark asks for it: the plan on the driver, then the rows of its tasks."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType  # noqa: PLC0415 - slow

    from pyromq.spark.source.formats import RocketMQSource  # noqa: PLC0415 - imports pyspark

    columns = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])
    with without_core(), Cluster() as cluster, cluster.producer() as producer:
        cluster.create_topic(TOPIC, queues=1)
        for _ in range(3):
            producer.send(Message(TOPIC, b"hello"))
        recorder = Recorder()
        try:
            for _ in range(2):
                with recorder.recording():
                    reader = RocketMQSource({"nameServer": cluster.namesrv, "topic": TOPIC}).reader(columns)
                    rows = [row for partition in reader.partitions() for row in reader.read(partition)]
        finally:
            recorder.close()
        assert sum(batch.num_rows for batch in rows) == 3  # type: ignore[union-attr]
    return Walk("A Spark batch", recorder.calls(_is_work))


def all_walks() -> list[Walk]:
    """Every walk of the page, taken now."""
    return [*asyncio.run(broker_walks()), *asyncio.run(client_walks()), spark_walk()]
