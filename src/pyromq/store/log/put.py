"""What goes into a put and what comes out: the message, the status, the result. Values only, no behaviour of the store.

A broker that delays, schedules or hides messages rewrites `topic` and `queue_id` of the `PutMessage` before it puts it.
"""

from enum import Enum
from functools import lru_cache
from struct import pack
from typing import Final

import msgspec

from pyromq import native
from pyromq.protocol.message import Message
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.queueentry import ENTRY

LOCALHOST: Final = pack_host(Host("127.0.0.1", 0))


class PutStatus(Enum):
    """How a put ended. The first four mean that the message is stored."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    __hash__ = object.__hash__  # members are singletons; Enum's own is a call into Python for every look-up


_STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


@lru_cache(maxsize=16)
def host_text(host: bytes) -> str:
    """A host as message ids begin with it."""
    return host.hex().upper()


class PutMessage(msgspec.Struct, gc=False):
    """A message on its way into the log. `body` is stored as it is, compressed or not.

    `properties` is the encoded text; `property_map` the same decoded, when the caller has it at hand anyway, or None.
    They must agree: the text is stored, the map feeds queue and index. For `put_batch`, `body` is the batch as the
    producer sent it, and the properties are those common to the batch (not stored).
    """

    topic: str
    queue_id: int
    body: bytes | bytearray | memoryview
    properties: bytes = b""
    property_map: dict[str, str] | None = None
    sys_flag: int = 0
    flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = LOCALHOST
    """As `pack_host` gives it."""
    store_host: bytes | None = None
    """None: the store's own."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def of(cls, message: Message, queue_id: int = 0, *, born_timestamp: int = 0) -> "PutMessage":
        """A user's message, uncompressed. Raises MessageError for properties that cannot be encoded."""
        return cls(
            message.topic,
            queue_id,
            message.body,
            encode_properties(message.properties),
            message.properties,
            flag=message.flag,
            born_timestamp=born_timestamp,
        )


class PutResult(msgspec.Struct, gc=False):
    """The outcome of a put. With a batch, the offsets are those of its first message and `size` is of all of them."""

    status: PutStatus
    physical_offset: int = -1
    size: int = 0
    queue_offset: int = -1
    store_timestamp: int = 0
    store_host: bytes = b""
    count: int = 1
    entries: bytes = b""
    """The queue entries of the messages of a batch."""
    reason: str = ""
    """Why the message was refused, for the remark of the answer."""

    @property
    def stored(self) -> bool:
        """Whether the message is in the log, durable or not."""
        return self.status is PutStatus.PUT_OK or self.status in _STORED

    @property
    def end(self) -> int:
        """Offset after the last byte stored: what a flush or a replica must have reached."""
        return self.physical_offset + self.size

    @property
    def offsets(self) -> tuple[int, ...]:
        """Physical offset of each message of a batch."""
        return tuple(offset for offset, _, _ in ENTRY.iter_unpack(self.entries))

    @property
    def message_id(self) -> str:
        """The offset message id, or several joined with commas; "" when nothing was stored."""
        if self.physical_offset < 0:
            return ""
        host = host_text(self.store_host)
        if not self.entries:
            return f"{host}{self.physical_offset:016X}"
        return message_ids(host, self.entries)


@native.twin
def message_ids(host: str, entries: bytes) -> str:
    """The offset message ids of the records that queue entries name, joined with commas."""
    offsets = [offset for offset, _, _ in ENTRY.iter_unpack(entries)]
    places = pack(f">{len(offsets)}Q", *offsets).hex(",", 8).upper()
    return host + places.replace(",", f",{host}")
