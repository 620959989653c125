"""Offsets as the files of stores tell them, in the place of brokers; see `source.bounds.Offsets`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from pyromq.protocol.message import MessageQueue
from pyromq.settings.declaration import options
from pyromq.spark.errors import OptionError
from pyromq.spark.log.options import LogOptions
from pyromq.spark.log.storefiles import Queue, StoreFiles
from pyromq.spark.options import ConnectionOptions
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.offsets import Positions, Range
from pyromq.spark.source.options import Fallback, SourceOptions

R = TypeVar("R")
SAMPLE = 256


class StoreOffsets:
    """Queues, bounds and times of some stores by the name of their broker."""

    def __init__(self, options: LogOptions, stores: Mapping[str, StoreFiles]) -> None:
        self.options = options
        self.stores = stores
        self.group_fallback = Fallback.EARLIEST

    def patiently(self, ask: Callable[[], R]) -> R:
        return ask()

    def of_group(self, queues: Sequence[MessageQueue]) -> Positions:
        raise OptionError(f"files know nothing of groups ({len(queues)} queues)")

    def topics(self, store: StoreFiles) -> list[str]:
        """The topics to read of one store, by the user's name."""
        return self.options.topic_names or self.options.matching_topics(store.topics())

    def queues(self) -> list[MessageQueue]:
        return sorted(
            MessageQueue(topic, broker, queue.queue_id)
            for broker, store in self.stores.items()
            for topic in self.topics(store)
            for queue in store.queues(self.options.wire_name(topic))
        )

    def bounds(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        found = {}
        for queue in queues:
            store = self.stores[queue.broker_name]
            found[queue] = store.bounds(store.queue(self.options.wire_name(queue.topic), queue.queue_id))
        return self._published(found)

    def _published(self, found: dict[MessageQueue, tuple[int, int]]) -> dict[MessageQueue, tuple[int, int]]:
        """Not beyond what a living broker shows to its consumers, where one can be asked."""
        if not self.options.name_server:
            return found
        shared = {name: getattr(self.options, name) for name in options(ConnectionOptions)}
        with Cluster(SourceOptions(**shared, topics=",".join({queue.topic for queue in found}))) as cluster:
            known = cluster.bounds(cluster.queues())
        return {
            queue: (low, min(high, known[queue][1]) if queue in known else high) for queue, (low, high) in found.items()
        }

    def by_time(self, times: Mapping[MessageQueue, int]) -> Positions:
        found = {}
        for queue, millis in times.items():
            store = self.stores[queue.broker_name]
            found[queue] = store.by_time(store.queue(self.options.wire_name(queue.topic), queue.queue_id), millis)
        return found

    def queue(self, wanted: Range) -> Queue:
        """The queue of a range."""
        return self.stores[wanted.broker].queue(self.options.wire_name(wanted.topic), wanted.queue)

    def mean_size(self, ranges: Sequence[Range]) -> float:
        """Bytes of a record, by a sample of each range."""
        total = count = 0.0
        for each in ranges:
            sizes = self.queue(each).entries(each.start, min(each.end, each.start + SAMPLE))["size"]
            weight = each.messages / max(len(sizes), 1)
            total += float(sizes.astype(np.int64).sum()) * weight
            count += each.messages
        return total / count if count else 1.0
