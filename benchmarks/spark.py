"""Spark's sources beside Spark's own: messages over the network and from log files against Parquet, batch and stream.

All contenders read the same messages of about 1 KB into the `noop` sink of one local session, in turn. The share of
Parquet says what a format costs; the trigger times say what a micro-batch costs beside Spark's own rate source; looks
say what a stream without news costs over many queues.
`--profile` also prints where a task spends its time.
"""

import argparse
import cProfile
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql import DataFrame, SparkSession
from tests.processes import Server

from benchmarks.looks import looks
from benchmarks.report import best_of, show
from pyromq import Admin, native
from pyromq.arrow import scalar
from pyromq.arrow.columns import COLUMNS, DEFAULT
from pyromq.arrow.decoder import decode
from pyromq.arrow.recordlayout import walk
from pyromq.arrow.rowspec import RowSpec, Segment
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.record import decode_records, encode_record
from pyromq.spark.options import read_options
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.task.pull import Puller, cached_cluster
from pyromq.spark.task.rowplan import message_columns, row_shape
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

TOPIC = "bench"
QUEUES = 8
BODY = 1024
TRIGGERS = 40
DECODED = 4096
FEW = 32
"""Rows of a response that Apache's broker sends unless it is told otherwise, and of a small micro-batch."""


def fill(root: Path, count: int) -> None:
    """A store with so many messages of 1 KB, put without a network."""
    config = StoreConfig(store_path_root_dir=root, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    store = MessageStore(config)
    store.open()
    host = pack_host(("127.0.0.1", 10911))
    for number in range(count):
        text = f'{{"id": {number}, "user": {number % 977}, "amount": {number % 100}.5, "status": "paid", "fill": "'
        body = text.encode().ljust(BODY - 2, b"x") + b'"}'
        properties = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"order-{number}", "TAGS": "paid", "WAIT": "true"}
        store.put(PutMessage(TOPIC, number % QUEUES, body, encode_properties(properties), born_host=host))
    store.close()


@contextmanager
def broker(root: Path) -> Iterator[str]:
    """A standalone server over the filled store."""
    ports = [text for name in ("namesrv", "broker", "http") for text in (f"--{name}-port", "0")]
    with Server("standalone", "--data", str(root), *ports) as server:
        with Admin(namesrv=server["namesrv"]) as admin:
            admin.create_topic(TOPIC, queues=QUEUES, cluster="DefaultCluster")
            admin.wait_for_topic(TOPIC, seconds=60)
        yield server["namesrv"]


@contextmanager
def session(folder: Path, *, cores: int | None = None, jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """A local session on so many cores, by default all, with these jars beside Spark's own."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    builder = SparkSession.builder.master(f"local[{cores or os.cpu_count()}]").appName("pyromq-benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def drain(frame: DataFrame) -> float:
    """Seconds to read all rows and throw them away."""
    start = time.perf_counter()
    frame.write.format("noop").mode("append").save()
    return time.perf_counter() - start


def stream(frame: DataFrame, folder: Path) -> float:
    """Seconds to read everything as a stream that ends."""
    start = time.perf_counter()
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return time.perf_counter() - start


def triggers(frame: DataFrame, folder: Path, feed: Callable[[], None] | None = None) -> float:
    """Median milliseconds of micro-batches with little data."""
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    deadline = time.monotonic() + 120
    took: dict[int, int] = {}
    while len(took) < TRIGGERS and time.monotonic() < deadline and query.isActive:
        if feed is not None:
            feed()
        time.sleep(0.02)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                took[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
    query.stop()
    return statistics.median(list(took.values())[TRIGGERS // 4 :] or [float("nan")])


def without_spark(namesrv: str, count: int) -> tuple[float, float, pstats.Stats]:
    """Wall and processor seconds of one process that only pulls and decodes, and where they went."""
    options = read_options(SourceOptions, {"nameServer": namesrv, "topic": TOPIC}, {})
    schema = pa.schema([(name, COLUMNS[name]) for name in message_columns(options)])
    each = count // QUEUES
    ranges = [Range(TOPIC, "broker-a", queue, 0, each) for queue in range(QUEUES)]
    puller = Puller(options, cached_cluster(options))
    shape = row_shape(options, schema)
    start, used = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in puller.batches(ranges, shape))
    times = time.perf_counter() - start, time.process_time() - used
    assert rows == each * QUEUES
    profile = cProfile.Profile()
    profile.enable()
    for _ in puller.batches(ranges, shape):
        pass
    profile.disable()
    return *times, pstats.Stats(profile)


def decoding(rounds: int) -> dict[str, float | int | str]:
    """The decoder with and without the core, beside the scalar one and a plain copy, in processor time: no I/O at all.

    As the source does it, each body is compared with its checksum.
    """
    properties = {"UNIQ_KEY": "0" * 32, "KEYS": "order-17", "TAGS": "paid", "WAIT": "true"}
    record = encode_record(ReceivedMessage(TOPIC, b"x" * BODY, properties, broker_name="broker-a"))
    buffer = record * DECODED
    starts = walk(buffer)
    segments = [Segment(DECODED, TOPIC, "broker-a")]
    usual, slim = RowSpec(DEFAULT, verify_crc=True), RowSpec(("queueId", "queueOffset", "storeTimestamp"))
    few = [Segment(FEW, TOPIC, "broker-a")]

    def spent(work: Callable[[], object]) -> Callable[[], float]:
        def timed() -> float:
            start = time.process_time()
            for _ in range(20):
                work()
            return (time.process_time() - start) / 20

        return timed

    def without_core(work: Callable[[], float]) -> Callable[[], float]:
        def timed() -> float:
            was, native.core.on = native.core.on, False
            try:
                return work()
            finally:
                native.core.on = was

        return timed

    works = {
        "decode": (DECODED, spent(lambda: decode(buffer, starts, segments, usual))),
        f"decode {FEW} rows": (FEW, spent(lambda: decode(buffer, starts[:FEW], few, usual))),
        "decode, no body": (DECODED, spent(lambda: decode(buffer, starts, segments, slim))),
        "find records": (DECODED, spent(lambda: walk(buffer))),
    }
    copy, scalar_way, *both = best_of(
        rounds,
        spent(lambda: bytearray(buffer)),
        spent(lambda: scalar.arrays(decode_records(buffer), DEFAULT)),
        *(form(work) for _, work in works.values() for form in (without_core, lambda work: work)),
    )
    figures: dict[str, float | int | str] = {"core": str(native.core)}
    for (name, (rows, _)), pure, ours in zip(works.items(), both[::2], both[1::2], strict=True):
        figures[f"{name}, µs of processor a row"] = ours / rows * 1e6
        figures[f"{name}, without the core"] = pure / rows * 1e6
    figures["decode / plain copy of the bytes"] = copy / both[1]
    figures["decode / scalar decoder"] = scalar_way / both[1]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=3, help="take the best of this many (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=400_000, help="of 1 KB each (default: %(default)s)")
    parser.add_argument("--decoder", action="store_true", help="only the decoder, without servers and Spark")
    parser.add_argument("--queues", type=int, default=10_000, help="of a look (default: %(default)s)")
    parser.add_argument("--looks", action="store_true", help="only looks at many queues, without Spark")
    parser.add_argument("--profile", action="store_true", help="print where a task spends its time")
    given = parser.parse_args()
    if given.looks:
        with tempfile.TemporaryDirectory(prefix="pyromq-looks-") as name:
            show("looks of a stream", looks(Path(name), given.queues), as_json=given.json)
        return
    figures = decoding(given.rounds)
    if given.decoder:
        show("spark decoder, 1 KB messages", figures, as_json=given.json)
        return
    count = given.messages // QUEUES * QUEUES
    with tempfile.TemporaryDirectory(prefix="pyromq-spark-") as name:
        folder = Path(name)
        fill(folder / "data", count)
        with broker(folder / "data") as namesrv:
            wall, used, profile = without_spark(namesrv, count)
            if given.profile:
                profile.sort_stats("tottime").print_stats(25)
            with session(folder) as spark:
                figures |= measure(spark, namesrv, folder, count, given.rounds)
    with tempfile.TemporaryDirectory(prefix="pyromq-looks-") as name:
        figures |= looks(Path(name), given.queues)
    figures |= {"pull and decode, one process, rows/s": count / wall, "the same per processor second": count / used}
    figures["peak memory of the driver, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show("spark sources, 1 KB messages", figures, as_json=given.json)


def measure(spark: SparkSession, namesrv: str, folder: Path, count: int, rounds: int) -> dict[str, float | int | str]:
    """The contenders in one session."""
    options = {"nameServer": namesrv, "topic": TOPIC}
    start = {"startingOffsets": "earliest"}
    parquet = str(folder / "parquet")
    network = spark.read.format("rocketmq").options(**options).load()
    network.write.parquet(parquet)
    log = spark.read.format("rocketmq-log").option("topic", TOPIC).load(str(folder / "data"))
    slim = spark.read.format("rocketmq").options(**options, columns="queueId,queueOffset,storeTimestamp").load()
    json = spark.read.format("rocketmq").options(
        **options,
        columns="queueId",
        bodyFormat="json",
        bodySchema="id bigint, user bigint, amount double, status string",
    )
    streamed = spark.readStream.format("rocketmq").options(**options, **start, maxOffsetsPerTrigger="200000").load()
    seconds = best_of(
        rounds,
        lambda: drain(spark.read.parquet(parquet)),
        lambda: drain(network),
        lambda: drain(slim),
        lambda: drain(json.load()),
        lambda: drain(log),
        lambda: stream(streamed, folder),
    )
    names = ("parquet", "network", "network, no body", "network, json fields", "log files", "network, stream")
    figures: dict[str, float | int | str] = {
        f"{name}, rows/s": count / each for name, each in zip(names, seconds, strict=True)
    }
    for name, each in zip(names[1:], seconds[1:], strict=True):
        figures[f"{name} / parquet"] = seconds[0] / each
    few = spark.readStream.format("rocketmq").options(**options, **start, maxOffsetsPerTrigger="16").load()
    rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10).load()
    figures["trigger p50, rate source, ms"] = base = triggers(rate, folder)
    figures["trigger p50, network, ms"] = ours = triggers(few, folder)
    figures["trigger, network / rate source"] = ours / base
    return figures


if __name__ == "__main__":
    main()
