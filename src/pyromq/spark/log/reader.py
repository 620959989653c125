"""`spark.read.format("rocketmq-log")`: plans over the files of stores, and the tasks that read them."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.arrow.errors import ReadError
from pyromq.arrow.fields import topics_of
from pyromq.arrow.policy import CorruptRecords
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import Segment
from pyromq.protocol import namespace
from pyromq.spark.log.options import LogOptions
from pyromq.spark.log.ranges import ROWS, range_batches
from pyromq.spark.log.storefiles import StoreFiles, store_paths
from pyromq.spark.log.storeoffsets import StoreOffsets
from pyromq.spark.log.stretches import cut
from pyromq.spark.log.walk import walk_file
from pyromq.spark.source.bounds import ending_offsets, starting_offsets
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import is_hidden
from pyromq.spark.source.partitions import WORTH_A_TASK


@dataclass(frozen=True)
class Stretch:
    """Part of one log file, to be walked."""

    broker: str
    root: Path
    start: int
    begin: int
    end: int


class LogPartition(InputPartition):
    """What one task reads: ranges of queues, or a stretch of a log."""

    def __init__(self, ranges: tuple[Range, ...] = (), stretch: Stretch | None = None) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.stretch = stretch


class LogReader(DataSourceReader):
    """A bounded read of stores."""

    def __init__(self, options: LogOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape

    def _stores(self) -> dict[str, StoreFiles]:
        return {broker: StoreFiles(path) for broker, path in store_paths(self._options.path or "", "path").items()}

    def partitions(self) -> Sequence[InputPartition]:
        stores = self._stores()
        if self._options.is_walk:
            return [LogPartition(stretch=each) for each in self._stretches(stores)]
        offsets = StoreOffsets(self._options, stores)
        queues = offsets.queues()
        if not queues and self._options.topic_names:
            raise ReadError(f"no store has {', '.join(self._options.topic_names)}")
        bounds = offsets.bounds(queues)
        begin = starting_offsets(offsets, queues, bounds, default="earliest")
        end = ending_offsets(offsets, queues, bounds)
        wanted = []
        for queue, start in begin.items():
            low, high = bounds[queue]
            key = (queue.topic, queue.broker_name, queue.queue_id)
            part = Range(*key, max(start, low), min(end[queue], high))
            if part.messages > 0:
                wanted.append(part)
        rows = max(1, int(self._options.max_bytes_per_partition / offsets.mean_size(wanted)))
        total = sum(each.messages for each in wanted)
        useful = min(os.cpu_count() or 1, max(1, total // WORTH_A_TASK))
        tasks = max(useful, -(-total // rows))
        return [LogPartition(group) for group in cut(wanted, tasks, offsets.queue)]

    def _stretches(self, stores: Mapping[str, StoreFiles]) -> Iterator[Stretch]:
        step = self._options.max_bytes_per_partition
        for broker, store in stores.items():
            for file in store.log_files():
                for begin in range(file.start, file.start + file.size, step):
                    yield Stretch(broker, store.root, file.start, begin, min(begin + step, file.start + file.size))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):
            return  # without any partition Spark reads one all the same, and calls it None
        stores = self._stores()
        if partition.stretch is not None:
            yield from self._walk(stores[partition.stretch.broker], partition.stretch)
        options = self._options
        for broker in sorted({each.broker for each in partition.ranges}):
            own = [each for each in partition.ranges if each.broker == broker]
            yield from range_batches(
                stores[broker], own, self._shape, tags=options.wanted_tags, within=options.namespace
            )

    def _walk(self, store: StoreFiles, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        found = store.log_files()
        file = next((each for each in found if each.start == stretch.start), None)
        if file is None:
            raise ReadError(f"the log file {stretch.start:020d} of {store.root} was deleted before it was read")
        skip = self._options.corrupt_records is not CorruptRecords.FAIL
        known: dict[str, bool] = {"": True}  # damaged: for the decoder to tell
        for window in walk_file(file, stretch.begin, stretch.end, is_last=file is found[-1], skip_corrupt=skip):
            topics, of_record = topics_of(window.buffer, window.starts)
            known |= {topic: self._is_wanted(topic) for topic in set(topics) - known.keys()}
            kept = window.starts[np.array([known[topic] for topic in topics], np.bool_)[of_record]]
            for begin in range(0, len(kept), ROWS):
                starts = kept[begin : begin + ROWS]
                segments = [Segment(len(starts), None, stretch.broker)]
                yield from (b for b in self._shape.batches(window.buffer, starts, segments) if b.num_rows)

    def _is_wanted(self, topic: str) -> bool:
        """Whether a topic, by its name in the log, is among those to read."""
        bare = namespace.unwrap(topic, self._options.namespace) if self._options.namespace else topic
        if self._options.topic_names:
            return bare in self._options.topic_names
        return not is_hidden(topic) and re.fullmatch(self._options.topics_pattern or ".*", bare) is not None
