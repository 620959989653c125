"""Fences raised before a look at a topic, so that what an earlier attempt still sends is refused from then on.

Two kinds, each the offset of a private group on the target queues: one for the whole sink, raised when
a run begins, and one for a partition, raised by a task that is not the first to write it. Every frame names the numbers
that it was sent under. Brokers of PyroMQ refuse older numbers; Apache's store the offsets and take every frame.
"""

from pyromq.protocol.message import MessageQueue
from pyromq.spark.sink.base import Attempt
from pyromq.spark.sink.target import Target, commit, committed, wire_name
from pyromq.spark.wire import Wire

PREFIX = "PYROMQ_FENCE_"
_TASKS = 1 << 24
"""Tasks of one batch that can be told apart."""


def raise_fence(wire: Wire, target: Target, stem: str) -> int:
    """Fence off all that came before, on every queue; returns the new number. Raises PyroMQError."""
    group = _group(wire, stem)
    number = max(committed(wire, target, group).values(), default=0) + 1
    commit(wire, target, group, dict.fromkeys(target.queues, number))
    return number


def raise_task_fence(wire: Wire, target: Target, queue: MessageQueue, stem: str, number: int, attempt: Attempt) -> None:
    """Fence off earlier attempts at this partition, on a queue. Raises PyroMQError."""
    commit(wire, target, _group(wire, stem, attempt), {queue: _task_number(number, attempt)})


def fence_field(wire: Wire, stem: str, number: int, attempt: Attempt) -> str:
    """What a frame says."""
    return f"{_group(wire, stem)}={number},{_group(wire, stem, attempt)}={_task_number(number, attempt)}"


def _group(wire: Wire, stem: str, attempt: Attempt | None = None) -> str:
    name = f"{PREFIX}{stem}" if attempt is None else f"{PREFIX}{stem}_p{attempt.partition}"
    return wire_name(wire, name)


def _task_number(number: int, attempt: Attempt) -> int:
    return number * _TASKS + attempt.task % _TASKS
