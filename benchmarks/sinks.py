"""The two brokers as sinks of one Spark session, and their sources beside Spark's own Parquet reader.

All rows that are written come from the same Parquet files: key and body of every message of the topic. So what is timed
is Spark's reading, which is the same for both, and the sink. Kafka's sink knows at least once; ours is measured so and
exactly once, each time beside Kafka's.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.sources import KAFKA, Bench, Row, Source
from benchmarks.spark import QUEUES
from pyromq import Admin

TARGET = "bench-written"


def rows() -> list[Row]:
    """All of them."""
    return [
        Row("batch → noop, share of Spark's Parquet reader", "of it", False, _share),
        _written("batch → topic, at least once", _batch, "at-least-once"),
        _written("stream → topic, at least once", _stream, "at-least-once"),
        _written("batch → topic, ours exactly once", _batch, "exactly-once"),
        _written("stream → topic, ours exactly once", _stream, "exactly-once"),
    ]


def _share(bench: Bench, source: Source) -> tuple[float, dict[str, float]]:
    """The same columns of the same rows from Parquet files and from the source, in the same moment."""
    files = bench.folder.parent / f"columns-{source.name}"
    if not files.exists():
        source.batch(bench.spark).write.parquet(str(files))
    parquet = _timed(lambda: _read(bench.spark.read.parquet(str(files))))
    return parquet / _timed(lambda: _read(source.batch(bench.spark))), {}


def _read(frame: DataFrame) -> None:
    frame.write.format("noop").mode("append").save()


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _written(name: str, write: Callable[[Bench, Source, Path, dict[str, str]], None], delivery: str) -> Row:
    def measure(bench: Bench, source: Source) -> tuple[float, dict[str, float]]:
        files = _input(bench, source)
        options = _target(source) | ({} if source.name == KAFKA else {"delivery": delivery})
        seconds = _timed(lambda: write(bench, source, files, options))
        return bench.count / seconds, {}

    return Row(name, "rows/s", False, measure)


def _input(bench: Bench, source: Source) -> Path:
    """Keys and bodies, for both under the names of the one that is asked."""
    files = bench.folder.parent / f"rows-{source.name}"
    if not files.exists():
        columns = ("key", "value") if source.name == KAFKA else ("keys", "body")
        source.batch(bench.spark).select(*columns).write.parquet(str(files))
    return files


def _target(source: Source) -> dict[str, str]:
    if source.name == KAFKA:
        return {"kafka.bootstrap.servers": source.options["kafka.bootstrap.servers"], "topic": TARGET}
    with Admin(namesrv=source.options["nameServer"]) as admin:
        admin.create_topic(TARGET, queues=QUEUES, cluster="DefaultCluster")
        admin.wait_for_topic(TARGET, seconds=60)
    return {"nameServer": source.options["nameServer"], "topic": TARGET}


def _batch(bench: Bench, source: Source, files: Path, options: dict[str, str]) -> None:
    bench.spark.read.parquet(str(files)).write.format(source.format).options(**options).mode("append").save()


def _stream(bench: Bench, source: Source, files: Path, options: dict[str, str]) -> None:
    frame = bench.spark.readStream.schema(bench.spark.read.parquet(str(files)).schema).parquet(str(files))
    writer = frame.writeStream.format(source.format).options(**options)
    query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=bench.folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    if error := query.exception():
        raise error
