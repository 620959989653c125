"""Topics with messages, and streams over them, for the tests of sources."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyromq import Admin, ClientError, Message, MessageQueue, Producer

BOUND = 120.0
"""Ends a wait that hangs."""

_numbers = itertools.count(1)


def new_name(kind: str) -> str:
    """A name that no other test has."""
    return f"{kind}_{next(_numbers)}"


def create(namesrv: str, topic: str, queues: int = 4) -> None:
    """Make a topic, on a broker that may still have to register."""
    with Admin(namesrv=namesrv, api_timeout=30.0) as admin:
        eventually("a broker", lambda: _has_broker(admin))
        admin.create_topic(topic, queues=queues, cluster="DefaultCluster")
        admin.wait_for_topic(topic, seconds=BOUND)


def _has_broker(admin: Admin) -> bool:
    try:
        return bool(admin.cluster_info().broker_addr_table)
    except ClientError:
        return False


def fill(
    namesrv: str,
    topic: str,
    numbers: range,
    *,
    queues: int = 4,
    broker: str = "broker-a",
    body: Callable[[int], bytes] = lambda number: str(number).encode(),
    tag: Callable[[int], str | None] = lambda _number: None,
) -> None:
    """Messages with these numbers, spread over the queues in turn; returns when all are stored."""
    with Producer("filler", namesrv=namesrv, send_timeout=30.0, compress_over=1 << 22) as producer:
        pending = []
        for number in numbers:
            message = Message(topic, body(number), tags=tag(number), keys=[f"k{number}"], properties={"n": str(number)})
            queue = MessageQueue(topic, broker, number % queues)
            if number == numbers[0]:
                # Those that have to wait for the route and the connection may be overtaken by later ones.
                producer.send(message, queue=queue)
                continue
            pending.append(producer.send_async(message, queue=queue))
            if len(pending) >= 1000:
                pending = [future for future in pending if future.result(BOUND) is None]
        for future in pending:
            future.result(BOUND)


def source(spark: SparkSession, namesrv: str, topic: str, **options: str) -> DataFrame:
    """A stream over a topic."""
    return spark.readStream.format("rocketmq").options(nameServer=namesrv, topic=topic, **options).load()


def batch(spark: SparkSession, namesrv: str, topic: str, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(nameServer=namesrv, topic=topic, **options).load()


@contextlib.contextmanager
def running(frame: DataFrame, folder: Path, **trigger: Any) -> Iterator[StreamingQuery]:
    """A query that writes Parquet into the folder, where its checkpoint is too."""
    query = started(
        lambda: (
            frame.writeStream.format("parquet")
            .option("path", str(folder / "rows"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(**(trigger or {"processingTime": "0 seconds"}))
            .start()
        )
    )
    try:
        yield query
    finally:
        query.stop()


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query whose driver process came up: Spark gives it ten seconds, which a busy machine may exceed."""
    while True:
        query = start()
        end = time.monotonic() + BOUND
        while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < end:
            time.sleep(0.1)
        if query.isActive or "failed to connect back" not in str(query.exception()):
            return query


def landed(spark: SparkSession, folder: Path) -> list[Row]:
    """All rows that queries have written into a folder."""
    written = (folder / "rows" / "_spark_metadata" / "0").exists()
    return spark.read.parquet(str(folder / "rows")).collect() if written else []


def drained(spark: SparkSession, frame: DataFrame, folder: Path) -> tuple[list[Row], list[dict[str, Any]]]:
    """Read everything that is there now; returns what the folder has then, and the progress of each batch."""
    with running(frame, folder, availableNow=True) as query:
        assert query.awaitTermination(int(BOUND))
        return landed(spark, folder), [dict(each) for each in query.recentProgress]


def eventually(what: str, holds: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    """Wait until something holds; fails with the query's own error if it ended."""
    end = time.monotonic() + BOUND
    while not holds():
        if query is not None and not query.isActive:
            raise AssertionError(f"the query ended before {what}: {query.exception()}")
        if time.monotonic() > end:
            raise AssertionError(f"waited {BOUND} s for {what}")
        time.sleep(0.1)
