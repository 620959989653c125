"""Who consumes which queue: assignment by the broker, and the locks of orderly consumers."""

from typing import Annotated, ClassVar

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int
from pyromq.protocol.bodies.enums import MessageModel, MessageRequestMode
from pyromq.protocol.bounds import Bound, ClientName, ResourceName, declared
from pyromq.protocol.message import MessageQueue


class QueryAssignmentRequest(Body):
    """Which queues of a topic belong to this client? Strategies: AVG, AVG_BY_CIRCLE."""

    client_id: ClientName = ""
    consumer_group: ResourceName = ""
    message_model: MessageModel = MessageModel.CLUSTERING
    strategy_name: str = "AVG"
    topic: ResourceName = ""


class MessageQueueAssignment(Body):
    """A queue and how to get its messages; queue id -1 stands for all queues of the broker."""

    message_queue: MessageQueue
    attachments: dict[str, str] | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL


class QueryAssignmentResponse(Body):
    """None keeps the assignment the client has; an empty list takes all queues away."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestMode(Body):
    consumer_group: ResourceName = ""
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int = 0
    topic: ResourceName = ""


class MessageRequestModeTable(Body):
    """Topic to group to mode: answer of 402 and file `messageRequestMode.json`."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestMode]] = field(default_factory=dict)


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
