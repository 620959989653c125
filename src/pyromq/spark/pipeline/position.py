"""Where a pipeline stands against its topics, and where it could go: lag, and targets of a rewind."""

import json

import msgspec

from pyromq.spark.cluster import Cluster
from pyromq.spark.errors import OptionError, RouteError
from pyromq.spark.offsets import Bounds, Offset, flatten
from pyromq.spark.pipeline.checkpoint import Checkpoint
from pyromq.spark.pipeline.definition import Definition
from pyromq.spark.pipeline.plan import source_options
from pyromq.spark.pipeline.state import State
from pyromq.spark.sourceoptions import instant
from pyromq.spark.starting import all_bounds


class QueueLag(msgspec.Struct, kw_only=True):
    """One queue."""

    topic: str
    broker: str
    queue: int
    position: int | None
    """Next message to read; None before the first batch."""
    end: int

    @property
    def lag(self) -> int | None:
        return None if self.position is None else max(0, self.end - self.position)


def lag(definition: Definition) -> list[QueueLag]:
    """How far each queue is behind. Raises RouteError, BrokerError, StateError."""
    position = Checkpoint(State(definition.checkpoint).checkpoint).position()
    cluster = Cluster(source_options(definition))
    try:
        queues = cluster.queues()
        return [
            QueueLag(
                topic=queue.topic,
                broker=queue.broker_name,
                queue=queue.queue_id,
                position=None if position is None else position.positions.get(queue, first),
                end=last,
            )
            for queue, (first, last) in sorted(all_bounds(cluster, queues).items())
        ]
    finally:
        cluster.wire.close()


def resolve(definition: Definition, to: str) -> Offset:
    """The offset that `earliest`, `latest`, a time or JSON means now. Raises OptionError, RouteError, BrokerError."""
    cluster = Cluster(source_options(definition))
    try:
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
        moment = instant(to, "--to")
        found = cluster.by_time(dict.fromkeys(queues, moment))
        return Offset({queue: min(max(found.get(queue, last), first), last) for queue, (first, last) in bounds.items()})
    finally:
        cluster.wire.close()


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
    state = State(definition.checkpoint)
    with state.locked():
        position = resolve(definition, to)
        return Checkpoint(state.checkpoint).rewind(position), position
