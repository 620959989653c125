"""Choosing the queue for one round of a default send: round robin, away from the last broker and from faulty ones."""

from collections.abc import Callable

from pyromq.client.instance.routes import PublishInfo
from pyromq.client.producer.faults import FaultTable
from pyromq.protocol.message import MessageQueue


def choose_queue(info: PublishInfo, last_broker: str | None, faults: FaultTable | None) -> MessageQueue:
    """The next queue. With a fault table: one whose broker is available, else one whose broker is reachable.

    The broker of the previous round is only taken again when there is no other.
    """
    if faults is None:
        if last_broker is None:
            return info.next_queue()
        return _probe(info, last_broker, None) or info.next_queue()
    if last_broker is not None:
        info.index.reset()
    return (
        _probe(info, last_broker, faults.available) or _probe(info, last_broker, faults.reachable) or info.next_queue()
    )


def _probe(info: PublishInfo, last_broker: str | None, accept: Callable[[str], bool] | None) -> MessageQueue | None:
    """The first of at most as many probes as there are queues that is not on `last_broker` and is accepted."""
    for _ in range(len(info.queues)):
        queue = info.next_queue()
        if queue.broker_name != last_broker and (accept is None or accept(queue.broker_name)):
            return queue
    return None
