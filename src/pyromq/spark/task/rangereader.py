"""The task's side of both sources: ranges in, record batches out."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.rowshape import RowShape
from pyromq.spark.errors import LostRange, OptionError
from pyromq.spark.log.ranges import covered, range_batches
from pyromq.spark.log.storefiles import StoreFiles, store_paths
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import FilterType, ReadMode, SourceOptions
from pyromq.spark.source.partitions import QueuePartition
from pyromq.spark.task.pull import Puller, cached_cluster
from pyromq.spark.task.quota import kept_quota


def read_ranges(
    partition: QueuePartition,
    options: SourceOptions,
    shape: RowShape,
    *,
    on_loss: Callable[[LostRange], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one task; `on_loss` is told what is gone. Raises ReadError, DataLossError or BadRecordError."""
    left = partition.ranges
    if options.read_mode in (ReadMode.LOG, ReadMode.AUTO):
        left = yield from _from_files(partition.ranges, options, shape)
    if left:
        quota = kept_quota(options, partition.share, time.monotonic)
        yield from Puller(options, cached_cluster(options), on_loss=on_loss, quota=quota).batches(left, shape)


def _from_files(
    ranges: Sequence[Range], options: SourceOptions, shape: RowShape
) -> Generator[pa.RecordBatch, None, tuple[Range, ...]]:
    """What the files hold; returns what is left for the brokers: above all, entries that are not in files yet."""
    paths = store_paths(options.store_path or "", "storePath")
    left = []
    held: dict[Path, list[Range]] = {}
    for wanted in ranges:
        path = paths.get(wanted.broker) or paths.get("")
        topic = options.wire_name(wanted.topic)
        try:
            if path is None or options.filter_type is FilterType.SQL92:
                raise OptionError(f"storePath names no directory of broker {wanted.broker}")  # noqa: TRY301 - see below
            part = covered(StoreFiles(path), wanted, topic)
        except OptionError:
            if options.read_mode is ReadMode.LOG:
                raise
            left.append(wanted)
            continue
        held.setdefault(path, []).append(part)
        if part.end < wanted.end:
            left.append(wanted._replace(start=part.end))
    for path, parts in held.items():
        yield from range_batches(StoreFiles(path), parts, shape, tags=options.wanted_tags, within=options.namespace)
    return tuple(left)
