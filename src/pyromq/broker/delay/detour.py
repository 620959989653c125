"""Messages that wait in a topic of the broker until their time has come: how they get there and how they come out.

`REAL_TOPIC` and `REAL_QID` say where a message on its detour belongs. The body is never copied or inflated on the way.
"""

import logging
from collections.abc import Mapping
from zlib import crc32

from pyromq.protocol import names
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, append_properties, encode_properties
from pyromq.protocol.records.record import RecordSummary, pack_record, peek_record
from pyromq.store.log.damage import Stretch
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)

_OUT_OF_BOUNDS = names.FORBIDDEN_TOPICS | {names.TIMER_TOPIC}
MAX_DIGITS = 18
"""Of a number in a property; anybody may send longer ones."""


def detour(message: PutMessage, topic: str, queue_id: int, added: Mapping[str, str]) -> None:
    """Send a message to a waiting place instead, with more properties. Raises MessageError if they do not fit."""
    properties = {
        **(message.property_map or {}),
        **added,
        Property.REAL_TOPIC: message.topic,
        Property.REAL_QUEUE_ID: str(message.queue_id),
    }
    message.properties = encode_properties(properties)
    message.property_map = properties
    message.topic, message.queue_id = topic, queue_id


def number(text: str | None, digits: int = MAX_DIGITS) -> int | None:
    """A property that should be a whole number, None if it is not one."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= digits else None


def real_place(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """Topic and queue that a message belongs to; None when it does not say, or names a waiting place itself.

    A client may write such a message into the timer topic: it must neither go round for ever nor get where a client
    cannot send.
    """
    topic, queue_id = properties.get(Property.REAL_TOPIC), properties.get(Property.REAL_QUEUE_ID, "")
    if not topic or topic in _OUT_OF_BOUNDS or not (queue_id.isascii() and queue_id.isdigit()):
        return None
    return topic, int(queue_id[:MAX_DIGITS])


def read_record(store: MessageStore, physical_offset: int, size: int | None) -> tuple[RecordSummary, memoryview] | None:
    """A record with its summary; None when it is no longer in the log or damaged."""
    record = store.lookup.record_at(physical_offset) if size is None else store.commit_log.read(physical_offset, size)
    if record is None:
        return None
    try:
        summary = peek_record(record, 0)
    except MessageError as error:
        if size is not None:  # a queue says that there is one; otherwise anybody may have asked for anything
            store.damage.add(Stretch(physical_offset, physical_offset + size, str(error)))
        return None
    return (summary, record) if summary.physical_offset == physical_offset else None


def delivery_of(
    summary: RecordSummary, record: memoryview, place: tuple[str, int], text: bytes, properties: dict[str, str]
) -> PutMessage:
    """The message as a new one for the place it belongs to; its record says where it waited.

    That stands in the field that commits of transactions have for their half message: others leave it 0, nobody reads
    it outside the broker, and no client can write it. One more than the offset, since the log begins at 0.
    """
    message = copy_of(summary, record, place, text, properties)
    message.prepared_transaction_offset = summary.physical_offset + 1
    return message


def waited_at(origin: int) -> int:
    """Where a delivered message waited, by the prepared transaction offset of its record; -1 for nowhere."""
    return origin - 1


def copy_of(
    summary: RecordSummary,
    record: memoryview,
    place: tuple[str, int],
    text: bytes,
    properties: dict[str, str],
    *,
    reconsume_times: int | None = None,
) -> PutMessage:
    """The stored message as a new one for another place, with these properties.

    The copy of a damaged body has a checksum of its own that holds; a property says that it is damaged all the same.
    """
    body = record[summary.body_start : summary.body_end]
    if crc32(body) & 0x7FFFFFFF != summary.body_crc and Property.FAULT not in properties:
        text, properties = _with_fault(summary, text, properties)
    return PutMessage(
        *place,
        body,
        text,
        properties,
        summary.sys_flag,
        summary.flag,
        summary.born_timestamp,
        summary.born_host,
        summary.store_host,
        summary.reconsume_times if reconsume_times is None else reconsume_times,
    )


def record_for(summary: RecordSummary, record: memoryview, topic: str, queue_id: int, properties: bytes) -> bytes:
    """The stored record as a reader is to see it: under the topic and queue that it is for, with these properties."""
    return pack_record(
        topic.encode(),
        record[summary.body_start : summary.body_end],
        properties,
        queue_id,
        summary.queue_offset,
        summary.physical_offset,
        summary.store_timestamp,
        summary.store_host,
        summary.born_timestamp,
        summary.born_host,
        summary.sys_flag,
        summary.flag,
        summary.reconsume_times,
        summary.prepared_transaction_offset,
    )


def _with_fault(summary: RecordSummary, text: bytes, properties: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    fault = f"the body at {summary.physical_offset} does not match its checksum {summary.body_crc}"
    log.warning(
        "message %d in queue %d of %s is copied with its damage: %s",
        summary.queue_offset, summary.queue_id, summary.topic, fault,
    )  # fmt: skip
    try:
        return append_properties(text, {Property.FAULT: fault}), {**properties, Property.FAULT: fault}
    except MessageError:  # no room for it
        return text, properties
