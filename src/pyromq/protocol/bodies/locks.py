"""Locking queues for orderly consumers."""

from msgspec import field

from pyromq.protocol.bodies.base import Body
from pyromq.protocol.message import MessageQueue


class LockBatchRequest(Body):
    """The queues a client wants to hold for its group."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


class UnlockBatchRequest(LockBatchRequest):
    """The queues a client gives back."""


class LockBatchResponse(Body):
    """The queues the client holds now."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, name="lockOKMQSet")
