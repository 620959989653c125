"""What a send returns. All four statuses are results, not errors: the message is stored in each of them."""

from enum import StrEnum

import msgspec

from pyromq.protocol.message import MessageQueue


class SendStatus(StrEnum):
    """How safely the message was stored when the broker answered."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class LocalTransactionState(StrEnum):
    """Outcome of a local transaction; the names are those that traces carry."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's receipt for a message, or for a batch (`message_id` and `offset_message_id` are then comma-joined).

    `message_id` is the unique id the client gave the message, `offset_message_id` the place where the broker put it.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True


class TransactionSendResult(SendResult, frozen=True, kw_only=True):
    """A receipt plus what the local transaction decided."""

    local_state: LocalTransactionState
