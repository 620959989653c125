"""The body of a batch: messages back to back, each as

size 4 · magic 4 (0) · CRC 4 (0) · flag 4 · body length 4 · body · properties length 2 · properties

The same form is the body of an inner batch, which is stored as one record and unwrapped by its consumers.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from typing import Final, NamedTuple

from pyromq.protocol.errors import MessageError, ValidationError
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.names import is_retry_topic
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.records import sysflag

FIXED_SIZE: Final = 22
MAX_INNER_BATCH: Final = 32767
"""Messages in one inner batch: its queue entry counts them in a signed 16-bit number."""

_HEAD = Struct(">5i")
_SHORT = Struct(">h")


class BatchItem(NamedTuple):
    """One message of a batch; body and properties are views into the batch."""

    flag: int
    body: memoryview
    properties: memoryview


def check_batch(messages: Sequence[Message]) -> None:
    """Raises ValidationError for messages that cannot travel together."""
    if not messages:
        raise ValidationError("a batch needs at least one message")
    first = messages[0]
    for message in messages:
        if message.delay_level > 0:
            raise ValidationError("a batch must not contain messages with a delay level")
        if is_retry_topic(message.topic):
            raise ValidationError(f"a batch must not contain messages of a retry topic: {message.topic!r}")
        if message.topic != first.topic:
            raise ValidationError(f"a batch has one topic, not {first.topic!r} and {message.topic!r}")
        if message.wait_store_ok != first.wait_store_ok:
            raise ValidationError("all messages of a batch must agree in wait_store_ok")


def batch_item(flag: int, body: bytes, properties: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """One message of a batch body, in pieces to be joined. Raises struct.error for what does not fit its field."""
    size = FIXED_SIZE + len(body) + len(properties)
    return _HEAD.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The batch body. Raises MessageError for properties or flags that cannot be written."""
    parts: list[bytes] = []
    for message in messages:
        properties = encode_properties(message.properties)
        try:
            parts += batch_item(message.flag, message.body, properties)
        except StructError as error:
            raise MessageError(f"message {len(parts) // 4} of the batch cannot be written: {error}") from None
    return b"".join(parts)


def iter_batch(body: bytes | bytearray | memoryview) -> Iterator[BatchItem]:
    """The messages of a batch body, without copying them. Raises MessageError where the body stops making sense."""
    view = memoryview(body)
    start, end = 0, len(view)
    while start < end:
        if end - start < FIXED_SIZE:
            raise MessageError(f"batch ends with {end - start} stray bytes at {start}")
        size, _, _, flag, body_length = _HEAD.unpack_from(view, start)
        if not FIXED_SIZE <= size <= end - start:
            raise MessageError(f"batch item at {start} claims {size} bytes of {end - start} left")
        if not 0 <= body_length <= size - FIXED_SIZE:
            raise MessageError(f"batch item at {start} claims a body of {body_length} bytes in {size}")
        body_start = start + _HEAD.size
        body_end = body_start + body_length
        (properties_length,) = _SHORT.unpack_from(view, body_end)
        if properties_length != size - FIXED_SIZE - body_length:
            raise MessageError(f"batch item at {start} claims {properties_length} bytes of properties, size {size}")
        next_start = start + size
        yield BatchItem(flag, view[body_start:body_end], view[body_end + 2 : next_start])
        start = next_start


def unwrap(batch: ReceivedMessage) -> list[ReceivedMessage]:
    """The messages of an inner batch: message k has the queue offset base + k, all share the record's place and times.

    Raises MessageError when the body is no batch or has more than MAX_INNER_BATCH messages.
    """
    messages: list[ReceivedMessage] = []
    for item in iter_batch(batch.body):
        if len(messages) == MAX_INNER_BATCH:
            raise MessageError(f"inner batch at offset {batch.queue_offset} has more than {MAX_INNER_BATCH} messages")
        messages.append(
            ReceivedMessage(
                batch.topic,
                bytes(item.body),
                decode_properties(item.properties),
                flag=item.flag,
                broker_name=batch.broker_name,
                queue_id=batch.queue_id,
                queue_offset=batch.queue_offset + len(messages),
                physical_offset=batch.physical_offset,
                sys_flag=batch.sys_flag & ~sysflag.WRAPPED_BATCH,
                born_timestamp=batch.born_timestamp,
                born_host=batch.born_host,
                store_timestamp=batch.store_timestamp,
                store_host=batch.store_host,
                reconsume_times=batch.reconsume_times,
                prepared_transaction_offset=batch.prepared_transaction_offset,
                body_crc=batch.body_crc,
                store_size=batch.store_size,
            )
        )
    return messages
