"""Queue selectors: functions from the queues of a topic, a message and an argument to one of the queues.

A selector sees names without the namespace. A send through a selector is not retried on another broker, since the same
argument must go to the same queue.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.records.tags import java_hash

Selector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue | None]


def by_hash(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:  # noqa: ARG001 - a Selector
    """The same queue for the same argument, and the same one that a Java client picks.

    >>> queues = [MessageQueue("orders", "broker-a", n) for n in range(8)]
    >>> by_hash(queues, Message("orders", b"x"), "order-1").queue_id
    6
    """
    return queues[abs(argument_hash(arg)) % len(queues)]


def by_random(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:  # noqa: ARG001 - a Selector
    """Any queue."""
    return random.choice(queues)


class ByMachineRoom:
    """Any queue of the brokers in some machine rooms, for brokers named `room@name`; None when there is no such broker.

    RocketMQ has a selector of this name that never finds a queue; this one looks.
    """

    def __init__(self, rooms: Iterable[str]) -> None:
        self.rooms = frozenset(rooms)

    def __call__(self, queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue | None:  # noqa: ARG002
        near = [queue for queue in queues if queue.broker_name.partition("@")[0] in self.rooms]
        return random.choice(near) if near else None


def argument_hash(arg: object) -> int:
    """Java's hash of an argument: of text, of an int that fits 32 or 64 bits, of a boolean; else of its text."""
    if isinstance(arg, bool):
        return 1231 if arg else 1237
    if isinstance(arg, int):
        if -(2**31) <= arg < 2**31:
            return arg
        if -(2**63) <= arg < 2**63:
            folded = (arg ^ (arg >> 32)) & 0xFFFF_FFFF
            return folded - 2**32 if folded & 0x8000_0000 else folded
    return java_hash(str(arg))
