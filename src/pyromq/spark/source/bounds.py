"""The two ends of a read within its queues: words, offsets, times and groups become one offset for each queue."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import OptionError, RouteError
from pyromq.spark.source.offsets import EARLIEST, LATEST, Bounds, Positions
from pyromq.spark.source.options import Fallback, SelectionOptions, queue_offsets
from pyromq.spark.units import option_instant

WORDS = {"earliest": EARLIEST, "latest": LATEST}
R = TypeVar("R")


class Offsets(Protocol):
    """Who knows offsets: brokers, or the files of stores."""

    @property
    def options(self) -> SelectionOptions: ...
    @property
    def group_fallback(self) -> Fallback: ...
    def patiently(self, ask: Callable[[], R]) -> R: ...
    def bounds(self, queues: Sequence[MessageQueue]) -> Bounds: ...
    def by_time(self, times: Mapping[MessageQueue, int]) -> Positions: ...
    def of_group(self, queues: Sequence[MessageQueue]) -> Positions: ...


def starting_offsets(cluster: Offsets, queues: Sequence[MessageQueue], bounds: Bounds, *, default: str) -> Positions:
    """The first offset to read of each queue. Times win over offsets. Raises OptionError or RouteError."""
    options = cluster.options
    times = _times(options.starting_timestamp, options.starting_offsets_by_timestamp, queues, "starting")
    positions = by_time(cluster, times, bounds, options.timestamp_fallback)
    rest = [queue for queue in queues if queue not in positions]
    where = options.starting_offsets or default
    if where == "group":
        positions |= _of_group(cluster, rest, bounds)
    elif where in WORDS:
        positions |= {queue: _meant(WORDS[where], bounds[queue]) for queue in rest}
    else:
        given = _named(queue_offsets(where, "startingOffsets"), queues, "startingOffsets")
        otherwise = WORDS[options.starting_offsets_default]
        positions |= {queue: _meant(given.get(queue, otherwise), bounds[queue]) for queue in rest}
    return positions


def ending_offsets(cluster: Offsets, queues: Sequence[MessageQueue], bounds: Bounds) -> Positions:
    """The offset at which a batch ends in each queue. Raises OptionError or RouteError."""
    options = cluster.options
    times = _times(options.ending_timestamp, options.ending_offsets_by_timestamp, queues, "ending")
    positions = by_time(cluster, times, bounds, Fallback.LATEST)
    rest = [queue for queue in queues if queue not in positions]
    where = options.ending_offsets or "latest"
    given = {} if where == "latest" else _named(queue_offsets(where, "endingOffsets"), queues, "endingOffsets")
    if EARLIEST in given.values():
        raise OptionError("endingOffsets: a batch cannot end at the earliest offset (-2)")
    return positions | {queue: _meant(given.get(queue, LATEST), bounds[queue]) for queue in rest}


def by_time(cluster: Offsets, times: Positions, bounds: Bounds, fallback: Fallback) -> Positions:
    """The first offset stored at or after a time; behind the last message, the fallback."""
    if not times:
        return {}
    found = complete(cluster, list(times), lambda: cluster.by_time(times))
    positions = {}
    for queue, offset in found.items():
        low, high = bounds[queue]
        positions[queue] = low if offset >= high and fallback is Fallback.EARLIEST else min(max(offset, low), high)
    return positions


def complete(
    cluster: Offsets, queues: Sequence[MessageQueue], ask: Callable[[], dict[MessageQueue, int]]
) -> dict[MessageQueue, int]:
    """An answer about every queue. Raises RouteError when some broker does not give one in time."""

    def once() -> dict[MessageQueue, int]:
        found = ask()
        missing = sorted({queue.broker_name for queue in queues if queue not in found})
        if missing:
            raise RouteError(f"no answer about offsets from {', '.join(missing)}; they are needed to begin")
        return found

    return cluster.patiently(once)


def all_bounds(cluster: Offsets, queues: Sequence[MessageQueue]) -> Bounds:
    """The bounds of every queue. Raises RouteError when some broker does not answer in time."""
    bounds: dict[MessageQueue, tuple[int, int]] = {}

    def ask() -> dict[MessageQueue, int]:
        bounds.update(cluster.bounds(queues))
        return {queue: high for queue, (_, high) in bounds.items()}

    complete(cluster, queues, ask)
    return bounds


def _of_group(cluster: Offsets, queues: Sequence[MessageQueue], bounds: Bounds) -> Positions:
    committed = complete(cluster, queues, lambda: cluster.of_group(queues))
    otherwise = WORDS[cluster.group_fallback]
    return {queue: offset if offset >= 0 else _meant(otherwise, bounds[queue]) for queue, offset in committed.items()}


def _times(single: str | None, each: str | None, queues: Sequence[MessageQueue], kind: str) -> Positions:
    times = {}
    if single is not None:
        times = dict.fromkeys(queues, option_instant(single, f"{kind}Timestamp"))
    if each is not None:
        key = f"{kind}OffsetsByTimestamp"
        times |= _named(queue_offsets(each, key), queues, key)
    return times


def _named(given: Positions, queues: Sequence[MessageQueue], key: str) -> Positions:
    unknown = sorted(set(given) - set(queues))
    if unknown:
        queue = unknown[0]
        raise OptionError(
            f"{key} names queue {queue.queue_id} of {queue.topic} on {queue.broker_name}, which is not read"
        )
    return given


def _meant(offset: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    if offset == EARLIEST:
        return low
    return high if offset == LATEST else offset
