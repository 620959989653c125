"""Two message brokers as sources of one Spark session: what is read, into what, and how that is timed.

Every time begins with `load`, so what a source does on the driver counts. Rates are those of whole reads: planning,
tasks, commit. Each wait has a bound.
"""

import contextlib
import signal
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

KAFKA = "kafka"
OURS = "pyromq"
BOUND = 300.0
"""Seconds for one measurement."""
BATCHES = 32
"""Micro-batches of one measurement; the first quarter does not count."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic of one broker as Spark reads it."""

    name: str
    format: str
    options: Mapping[str, str]
    narrow: Mapping[str, str] = field(default_factory=dict)
    """Options for the columns that both sources have."""
    select: Sequence[str] = ()
    """The same by selection, for a source without such options."""

    def batch(self, spark: SparkSession, *, all_columns: bool = False) -> DataFrame:
        """Everything that is there."""
        reader = spark.read.format(self.format).options(**self.options, **({} if all_columns else self.narrow))
        return self._selected(reader.load(), all_columns)

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        """From the first message on."""
        given = {**self.options, **self.narrow, "startingOffsets": "earliest", **options}
        return self._selected(spark.readStream.format(self.format).options(**given).load(), False)

    def _selected(self, frame: DataFrame, all_columns: bool) -> DataFrame:
        return frame if all_columns or not self.select else frame.select(*self.select)


def kafka_source(address: str, topic: str) -> Source:
    """Spark's own Kafka source."""
    columns = ("key", "value", "topic", "partition", "offset", "timestamp")
    return Source(KAFKA, "kafka", {"kafka.bootstrap.servers": address, "subscribe": topic}, select=columns)


def our_source(namesrv: str, topic: str) -> Source:
    """PyroMQ's."""
    columns = "keys,body,topic,queueId,queueOffset,storeTimestamp"
    return Source(OURS, "rocketmq", {"nameServer": namesrv, "topic": topic}, narrow={"columns": columns})


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a row is measured."""

    spark: SparkSession
    folder: Path
    count: int
    """Messages of the topic."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `measure` may give parts of it too, by name."""

    name: str
    unit: str
    lower: bool
    measure: Callable[[Bench, Source], tuple[float, dict[str, float]]]
    needs: int = 1
    """Messages that the topic must have."""


def rows() -> list[Row]:
    """All of them."""
    return [
        _rate("batch → noop, same columns", lambda bench, source: _write(source.batch(bench.spark), "noop")),
        _rate(
            "batch → noop, all columns by default",
            lambda bench, source: _write(source.batch(bench.spark, all_columns=True), "noop"),
        ),
        _rate("stream → noop", lambda bench, source: _drain(bench, source.stream(bench.spark), "noop")),
        _rate(
            "batch → Parquet",
            lambda bench, source: _write(source.batch(bench.spark), "parquet", tempfile.mkdtemp(dir=bench.folder)),
        ),
        _rate("stream → Parquet", lambda bench, source: _drain(bench, source.stream(bench.spark), "parquet")),
        _triggers(16),
        _triggers(1_000),
    ]


def _rate(name: str, work: Callable[[Bench, Source], dict[str, float]]) -> Row:
    def measure(bench: Bench, source: Source) -> tuple[float, dict[str, float]]:
        start = time.perf_counter()
        phases = work(bench, source)
        return bench.count / (time.perf_counter() - start), phases

    return Row(name, "rows/s", False, measure)


def _write(frame: DataFrame, sink: str, path: str | None = None) -> dict[str, float]:
    frame.write.format(sink).mode("append").save(path)
    return {}


def _drain(bench: Bench, frame: DataFrame, sink: str) -> dict[str, float]:
    """Read what is there as a stream that ends; returns the milliseconds that its phases took in all."""
    writer = frame.writeStream.format(sink).option("checkpointLocation", tempfile.mkdtemp(dir=bench.folder))
    if sink != "noop":
        writer = writer.option("path", tempfile.mkdtemp(dir=bench.folder))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(int(BOUND)):
        query.stop()
        raise TimeoutError(f"the stream did not end within {BOUND:.0f} s")
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != bench.count:
        raise RuntimeError(f"the stream read {read} of {bench.count} messages")
    phases: Counter[str] = Counter()
    for progress in query.recentProgress:
        phases.update(progress["durationMs"])
    return {phase: float(took) for phase, took in phases.items()}


def _triggers(limit: int) -> Row:
    def measure(bench: Bench, source: Source) -> tuple[float, dict[str, float]]:
        frame = source.stream(bench.spark, maxOffsetsPerTrigger=str(limit))
        checkpoint = tempfile.mkdtemp(dir=bench.folder)
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            # Seldom, so that asking takes no time from the batches.
            while (query.lastProgress or {"batchId": 0})["batchId"] + 1 < BATCHES:
                if error := query.exception():
                    raise error
                time.sleep(0.25)
            return typical(query.recentProgress)
        finally:
            query.stop()

    return Row(f"micro-batch of {limit:,} rows, p50", "ms", True, measure, limit * BATCHES)


def typical(progress: Sequence[Mapping[str, Any]]) -> tuple[float, dict[str, float]]:
    """Median milliseconds of micro-batches with data, and of each of their phases; the first quarter does not count."""
    filled = [each["durationMs"] for each in progress if each["numInputRows"]]
    phases: dict[str, list[float]] = defaultdict(list)
    for durations in filled[len(filled) // 4 :]:
        for phase, took in durations.items():
            phases[phase].append(took)
    medians = {phase: statistics.median(values) for phase, values in phases.items()}
    return medians.pop("triggerExecution", float("nan")), medians


@contextlib.contextmanager
def bounded(seconds: float, what: str) -> Iterator[None]:
    """TimeoutError when the block takes longer; for the main thread, where a signal ends any wait."""

    def expired(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
