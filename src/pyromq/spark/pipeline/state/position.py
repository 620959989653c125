"""Where a pipeline stands against its topics, and where it could go: lag, and targets of a rewind."""

import json
import time
from collections.abc import Callable, Mapping

import msgspec

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import OptionError, RouteError
from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.definition.plan import source_options
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.source.bounds import all_bounds
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.marks import look_at, made_again
from pyromq.spark.source.offsets import Bounds, Offset, advanced, losses, standing
from pyromq.spark.source.queuetable import flatten
from pyromq.spark.units import option_instant


class QueueLag(msgspec.Struct, kw_only=True):
    """One queue."""

    topic: str
    broker: str
    queue: int
    position: int | None
    """Next message to read; None before the first batch."""
    end: int
    lag: int | None
    """Messages that wait to be read; None before the first batch."""
    seconds: float | None
    """Since the next message to read was stored, 0 without one; None when nobody can tell."""
    lost: int = 0
    """Messages before them that are gone, which the next batch will pass over or fail at."""


def lag(definition: Definition, *, clock: Callable[[], float] = time.time) -> list[QueueLag]:
    """How far each queue is behind. Raises RouteError, BrokerError, StateError."""
    position = SparkCheckpoint(State(definition.checkpoint, definition.storage).checkpoint).position()
    with Cluster(source_options(definition)) as cluster:
        queues = cluster.queues()
        if not queues:
            raise RouteError(
                f"nobody serves {', '.join(cluster.topics()) or 'these topics'}; check topic and nameServer"
            )
        bounds = all_bounds(cluster, queues)
        if position is None:
            return [_queue_lag(queue, None, last) for queue, (_, last) in sorted(bounds.items())]
        remade = made_again(look_at(cluster, position.marks, bounds).remade, position.positions, bounds)
        stand = standing(position.positions, bounds, gone=position.gone, anew=remade)
        ages = waiting_seconds(cluster, {queue: stand.begin[queue] for queue in stand.available}, clock)
        lost = {MessageQueue(*each[:3]): each.messages for each in losses(position, advanced(stand, {}))}
        found = []
        for queue, (first, last) in sorted(bounds.items()):
            each = _queue_lag(queue, position.positions.get(queue, first), last)
            each.lag = stand.available.get(queue, 0)
            each.seconds = ages.get(queue) if each.lag else 0.0
            each.lost = lost.get(queue, 0)
            found.append(each)
        return found


def _queue_lag(queue: MessageQueue, position: int | None, end: int) -> QueueLag:
    return QueueLag(
        topic=queue.topic,
        broker=queue.broker_name,
        queue=queue.queue_id,
        position=position,
        end=end,
        lag=None,
        seconds=None,
    )


def waiting_seconds(
    cluster: Cluster, positions: Mapping[MessageQueue, int], clock: Callable[[], float]
) -> dict[MessageQueue, float]:
    """How long ago the message at each position was stored, of the queues whose brokers answer and have it."""
    found = cluster.stored(positions)
    return {queue: max(0.0, clock() - each.time / 1000) for queue, each in found.items() if each is not None}


def resolve(definition: Definition, to: str) -> Offset:
    """The offset that `earliest`, `latest`, a time or JSON means now. Raises OptionError, RouteError, BrokerError."""
    with Cluster(source_options(definition)) as cluster:
        queues = cluster.queues()
        if not queues:
            raise RouteError("nobody serves the topics of this pipeline at present")
        bounds = all_bounds(cluster, queues)
        if to == "earliest":
            return Offset({queue: first for queue, (first, _) in bounds.items()})
        if to == "latest":
            return Offset({queue: last for queue, (_, last) in bounds.items()})
        if to.lstrip().startswith("{"):
            return _named(to, bounds)
        moment = option_instant(to, "--to")
        found = cluster.by_time(dict.fromkeys(queues, moment))
        return Offset({queue: min(max(found.get(queue, last), first), last) for queue, (first, last) in bounds.items()})


def _named(text: str, bounds: Bounds) -> Offset:
    try:
        given = flatten(json.loads(text))
    except ValueError as error:
        raise OptionError(f"--to is no JSON: {error}") from None
    positions = {queue: last for queue, (_, last) in bounds.items()}
    unknown = [str(queue) for queue in given if queue not in positions]
    if unknown:
        raise OptionError(f"--to names queues that are not there: {', '.join(unknown)}")
    return Offset({**positions, **given})


def rewind(definition: Definition, to: str) -> tuple[int, Offset]:
    """Let the next run begin elsewhere; returns the batch that stands for the jump and the new place.

    Raises StateError when the pipeline runs or keeps state, and as `resolve`.
    """
    state = State(definition.checkpoint, definition.storage)
    with state.locked():
        position = resolve(definition, to)
        return SparkCheckpoint(state.checkpoint).rewind(position), position
