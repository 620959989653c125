"""From ranges of queues to the tasks that read them from files: each task gets one stretch of the log.

Cut by queue, every task would read the whole log for its share of it. So the log is cut instead, at positions that
leave about as many wanted messages on either side, and each queue where these cuts fall. A sample of its entries tells
where; a cut that is a little off makes neighbours overlap in what they read, never in what they return.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pyromq.spark.log.storefiles import Queue
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.partitions import MAX_PARTITIONS

SAMPLES = 64
"""Entries looked at in each range."""


def cut(wanted: Sequence[Range], tasks: int, queue_of: Callable[[Range], Queue]) -> list[tuple[Range, ...]]:
    """The ranges in about so many groups of even size, of one broker each; empty groups are left out."""
    wanted = [each for each in wanted if each.messages > 0]
    total = sum(each.messages for each in wanted)
    groups: list[tuple[Range, ...]] = []
    for broker in sorted({each.broker for each in wanted}):
        own = [each for each in wanted if each.broker == broker]
        share = sum(each.messages for each in own) * tasks / total
        groups += _cut_log(own, min(max(round(share), 1), MAX_PARTITIONS), queue_of)
    return groups


def _cut_log(wanted: Sequence[Range], tasks: int, queue_of: Callable[[Range], Queue]) -> list[tuple[Range, ...]]:
    if tasks == 1:
        return [tuple(wanted)]
    samples = [_sample(each, queue_of(each)) for each in wanted]
    positions = np.concatenate([each[1] for each in samples])
    weights = np.concatenate(
        [np.full(len(at), each.messages / len(at)) for each, (_, at) in zip(wanted, samples, strict=True)]
    )
    order = np.argsort(positions)
    sums = np.cumsum(weights[order])
    cuts = np.interp(np.arange(1, tasks) * sums[-1] / tasks, sums, positions[order])
    bounds = [
        np.concatenate(([each.start], np.ceil(np.interp(cuts, at, offsets)).astype(np.int64), [each.end]))
        for each, (offsets, at) in zip(wanted, samples, strict=True)
    ]
    groups = (
        tuple(
            each._replace(start=int(own[number]), end=int(own[number + 1]))
            for each, own in zip(wanted, bounds, strict=True)
            if own[number] < own[number + 1]
        )
        for number in range(tasks)
    )
    return [group for group in groups if group]


def _sample(wanted: Range, queue: Queue) -> tuple[np.ndarray, np.ndarray]:
    """Offsets spread over a range, its ends among them, and the positions of their messages."""
    last = wanted.end - 1
    offsets = np.unique(np.linspace(wanted.start, last, min(wanted.messages, SAMPLES)).astype(np.int64))
    entries = [queue.entry(int(offset)) for offset in offsets]
    found = np.array([entry[0] if entry is not None else -1 for entry in entries], np.int64)
    return np.append(offsets, wanted.end), np.append(np.maximum.accumulate(found), found.max() + 1)
