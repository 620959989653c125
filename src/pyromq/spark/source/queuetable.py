"""Values of queues as JSON: topic to broker to queue, `{"orders": {"broker-a": {"0": 120, "1": 98}}}`.

Many queues that are numbered without a gap are a list, `{"orders": {"broker-a": [120, 98]}}`: ten thousand of them are
in each entry of Spark's offset log. Both forms are read wherever offsets are given.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import OptionError

MANY = 32
"""Queues of a topic on a broker from which on a list is written: fewer are easier to read with their numbers."""

V = TypeVar("V")


def nest(values: Mapping[MessageQueue, V]) -> dict[str, dict[str, Any]]:
    """The JSON form, sorted."""
    shape: dict[str, dict[str, Any]] = {}
    for queue in sorted(values):
        shape.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[queue.queue_id] = values[queue]
    for brokers in shape.values():
        for broker, queues in brokers.items():
            if len(queues) >= MANY and next(reversed(queues)) == len(queues) - 1:
                brokers[broker] = list(queues.values())
            else:
                brokers[broker] = {str(number): value for number, value in queues.items()}
    return shape


def whole(value: object) -> int:
    """Raises ValueError for anything but a whole number."""
    if type(value) is not int:
        raise ValueError(value)
    return value


def flatten(shape: object) -> dict[MessageQueue, int]:
    """The reverse, of offsets. Raises OptionError for any other shape."""
    return flatten_values(shape, whole)


def flatten_values(shape: object, read: Callable[[object], V]) -> dict[MessageQueue, V]:
    """The reverse; `read` takes each value and raises ValueError or TypeError. Raises OptionError."""
    found: dict[MessageQueue, V] = {}
    try:
        for topic, brokers in shape.items():  # type: ignore[attr-defined]  # anything else is refused below
            for broker, queues in brokers.items():
                numbered = enumerate(queues) if isinstance(queues, list) else queues.items()
                for number, value in numbered:
                    found[MessageQueue(topic, broker, int(number))] = read(value)
    except (AttributeError, ValueError, TypeError):
        raise OptionError(
            f'offsets must have the form {{"topic": {{"broker": {{"0": 17}}}}}}, not {str(shape)[:200]}'
        ) from None
    return found
