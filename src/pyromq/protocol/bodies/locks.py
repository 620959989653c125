"""Locking queues for orderly consumers."""

from typing import Annotated, ClassVar

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bounds import Bound, ClientName, ResourceName, declared
from pyromq.protocol.message import MessageQueue


class LockBatchRequest(Body):
    """The queues a client wants to hold for its group."""

    size: ClassVar[Bound] = bounds.HEARTBEAT

    client_id: ClientName = ""
    consumer_group: ResourceName = ""
    mq_set: Annotated[list[MessageQueue], declared(bounds.LOCKED_QUEUES)] = field(default_factory=list)
    only_this_broker: bool = False


class UnlockBatchRequest(LockBatchRequest):
    """The queues a client gives back."""


class LockBatchResponse(Body):
    """The queues the client holds now."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, name="lockOKMQSet")
