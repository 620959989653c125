"""Stored messages as consumers get them.

Clients refuse what lacks a digest, an encoding or an attempt, so all of them are always there: MD5 in capitals, since
they spell CRC32 in three ways, and a body that is not compressed, since they unpack zlib in two.
"""

from hashlib import md5
from typing import Any, Final

from pyromq.protocol import names
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import RESERVED, Property
from pyromq.proxy.messages.types import type_of
from pyromq.proxy.schema.enums import DigestType, Encoding

HIDDEN: Final = RESERVED | {
    Property.SHARDING_KEY,
    Property.TRACE_CONTEXT,
    Property.CHECK_IMMUNITY_TIME,
    Property.TRANSACTION_CHECK_TIMES,
    Property.TRANSACTION_ID,
}
"""Properties that are no user's: the schema has a field for them, or nobody needs them."""


def fill(target: Any, message: ReceivedMessage, topic: Any, receipt_handle: str = "", invisible_ms: int = 0) -> None:
    """Write a stored message into an empty `Message`. `topic` is the `Resource` that the client knows it by.

    Without a handle it is one to look at, not to consume.
    """
    properties = message.properties
    target.topic.CopyFrom(topic)
    target.body = message.body
    for name, value in properties.items():
        if name not in HIDDEN:
            target.user_properties[name] = value
    system = target.system_properties
    if tag := properties.get(Property.TAGS):
        system.tag = tag
    if keys := properties.get(Property.KEYS):
        system.keys.extend(keys.split())
    system.message_id = message.message_id
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = md5(message.body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = Encoding.IDENTITY
    system.message_type = type_of(properties)
    _set_moment(system.born_timestamp, message.born_timestamp)
    system.born_host = properties.get(Property.BORN_HOST) or message.born_host.ip
    _set_moment(system.store_timestamp, message.store_timestamp)
    system.store_host = f"{message.store_host.ip}:{message.store_host.port}"
    if (due := properties.get(Property.TIMER_DELIVER_MS, "")).isdecimal():
        _set_moment(system.delivery_timestamp, int(due[:15]))
    if receipt_handle:
        system.receipt_handle = receipt_handle
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    if invisible_ms:
        system.invisible_duration.seconds = invisible_ms // 1000
        system.invisible_duration.nanos = invisible_ms % 1000 * 1_000_000
    system.delivery_attempt = max(message.reconsume_times, 0) + 1
    if group := properties.get(Property.SHARDING_KEY):
        system.message_group = group
    if context := properties.get(Property.TRACE_CONTEXT):
        system.trace_context = context
    _set_origin(system, message)


def _set_moment(moment: Any, unix_ms: int) -> None:
    moment.seconds = unix_ms // 1000
    moment.nanos = unix_ms % 1000 * 1_000_000


def _set_origin(system: Any, message: ReceivedMessage) -> None:
    """Of a dead letter: which message it was, and of which topic."""
    properties = message.properties
    topic, message_id = properties.get(Property.DLQ_ORIGIN_TOPIC), properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
    if names.is_dlq_topic(message.topic):
        topic = topic or properties.get(Property.RETRY_TOPIC)
        message_id = message_id or properties.get(Property.ORIGIN_MESSAGE_ID)
    if topic and message_id:
        system.dead_letter_queue.topic = topic
        system.dead_letter_queue.message_id = message_id
