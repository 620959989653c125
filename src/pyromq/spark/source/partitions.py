"""From ranges to input partitions: large ranges are split, small ones packed. Pure and deterministic.

A task costs Spark about as much as reading ten thousand messages, and a queue costs next to nothing: so few tasks, each
with the queues of few brokers.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import SourceOptions

WORTH_A_TASK = 4_000
"""Messages below which another task costs more than it saves."""
LARGE_TASK = 100_000
"""Messages of a task from which on one more costs next to nothing, should there be no processor for it."""
MAX_PARTITIONS = 100_000


class Share(NamedTuple):
    """Tasks of a batch among which a quota is divided: all of them, and those that read from each broker."""

    tasks: int = 1
    by_broker: tuple[tuple[str, int], ...] = ()


ALONE = Share()


class QueuePartition(InputPartition):
    """The ranges that one task reads, one after another. Small, and readable wherever this package is installed."""

    def __init__(self, ranges: tuple[Range, ...], share: Share = ALONE) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.share = share

    def __repr__(self) -> str:
        return f"QueuePartition({', '.join(map(str, self.ranges))})"


def queue_partitions(ranges: Iterable[Range], options: SourceOptions) -> list[QueuePartition]:
    """The tasks of a batch."""
    ranges = list(ranges)
    groups = task_ranges(
        ranges,
        max_partitions=options.max_partitions or useful_tasks(ranges, os.cpu_count() or 1),
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    reading = Counter(broker for group in groups for broker in {each.broker for each in group})
    has_quota = options.max_bytes_per_second is not None or options.max_bytes_per_second_per_broker is not None
    share = Share(len(groups), tuple(sorted(reading.items()))) if has_quota else ALONE
    return [QueuePartition(group, share) for group in groups]


def useful_tasks(ranges: Sequence[Range], processors: int) -> int:
    """Tasks where nobody says how many: those of the driver's machine, or one a queue if there is much to read.

    Spark does not tell the processes of a Python source how large the cluster is.
    """
    return max(processors, min(len(ranges), sum(each.messages for each in ranges) // LARGE_TASK))


def task_ranges(
    wanted: Iterable[Range],
    *,
    max_partitions: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[tuple[Range, ...]]:
    """Ranges for each task. `max_records` and `min_partitions` split; they win over `max_partitions`."""
    found = sorted((each for each in wanted if each.messages > 0), key=lambda each: (each.broker, *each))
    total = sum(each.messages for each in found)
    if not total:
        return []
    least = min(min_partitions or 1, total, MAX_PARTITIONS)
    cap = min(max_records or total, total // least)
    pieces = [piece for each in found for piece in split(each, cap)]
    tasks = min(max_partitions, len(pieces))
    if max_records is None and min_partitions is None:
        tasks = min(tasks, max(1, total // WORTH_A_TASK))
    if max_records is not None:
        tasks = max(tasks, -(-total // max_records))
    return pack(pieces, min(max(tasks, least), MAX_PARTITIONS), max_records)


def split(wanted: Range, cap: int) -> list[Range]:
    """A range in pieces of at most `cap` messages, as even as can be."""
    count = min(-(-wanted.messages // cap), MAX_PARTITIONS)
    cuts = [wanted.start + wanted.messages * number // count for number in range(count + 1)]
    return [wanted._replace(start=low, end=high) for low, high in itertools.pairwise(cuts)]


def pack(pieces: Sequence[Range], tasks: int, cap: int | None = None) -> list[tuple[Range, ...]]:
    """Neighbours together, with even counts: at most `tasks` groups, more only where `cap` messages are exceeded."""
    total = sum(piece.messages for piece in pieces)
    groups: list[list[Range]] = []
    before = size = 0
    last = -1
    for piece in pieces:
        number = (2 * before + piece.messages) * tasks // (2 * total)
        if number != last or (cap is not None and size + piece.messages > cap):
            groups.append([])
            last, size = number, 0
        groups[-1].append(piece)
        before += piece.messages
        size += piece.messages
    return [tuple(group) for group in groups]
