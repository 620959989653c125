"""Messages on their way to brokers: checked, and as the properties, flags and bytes that brokers store.

A plain message is most of what there is, so each field is read once, and what it does not have costs a comparison.
"""

import re
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.send import SendMessageV2Header, send_fields, send_head, send_tail
from pyromq.protocol.names import DEFAULT_TOPIC
from pyromq.protocol.properties import RESERVED, Property, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import batch_item
from pyromq.protocol.records.compression import CompressionType
from pyromq.proxy.limits import Limits
from pyromq.proxy.messages.moments import millis
from pyromq.proxy.schema.enums import Code, Encoding, MessageType
from pyromq.proxy.status import Refusal

DEFAULT_QUEUES: Final = 4
"""Queues of a topic that a broker makes for its first message, if it does that."""

_NORMAL, _FIFO, _DELAY, _TRANSACTION = MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION
_UNSERVED: Final = frozenset({MessageType.LITE, MessageType.PRIORITY})
_GZIP: Final = int(Encoding.GZIP)
_GZIP_MAGIC: Final = b"\x1f\x8b"
_find_control = re.compile("[\x00-\x1f\x7f-\x9f]").search
_WAITS: Final = {Property.WAIT: "true"}


class Outgoing(NamedTuple):
    """A message as a broker gets it."""

    kind: MessageType
    message_id: str
    properties: dict[str, str]
    body: bytes
    sys_flag: int
    born: int
    group: str
    """What the messages have in common that are to stay in order; empty when it is none of those."""


def outgoing(message: Any, topic: str, peer: str, now: int, limits: Limits) -> Outgoing:
    """What a `Message` for a topic amounts to. Raises Refusal, with a code for each kind of fault."""
    system, body = message.system_properties, message.body
    if not body:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > limits.max_body:
        raise Refusal(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body)} bytes, more than {limits.max_body}; split it"
        )
    said = system.message_type
    if said in _UNSERVED:
        raise Refusal(Code.UNSUPPORTED, f"brokers here keep no messages of type {MessageType(said).name}")
    message_id = system.message_id
    if not message_id or message_id.isspace() or _control(message_id):
        raise Refusal(Code.ILLEGAL_MESSAGE_ID, "a message needs an id: text without control characters")
    properties: dict[str, str] = {}
    given, tag, keys = message.user_properties, system.tag, system.keys
    if given:
        properties.update(given)
        _check_properties(properties, limits)
    if tag:
        _check_tag(tag)
        properties[Property.TAGS] = tag
    if keys:
        properties[Property.KEYS] = _joined(keys)
    if properties:
        _check_size(properties, limits)
    properties[Property.UNIQ_KEY] = message_id
    born = millis(system.born_timestamp) or now
    kind, flag = _kind(system, said, properties, now, limits)
    if system.body_encoding == _GZIP:
        body, compression = _inflated(body, limits)
        flag |= compression
    host, context = system.born_host, system.trace_context
    if context:
        if _control(context):
            raise Refusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the trace context contains a control character")
        properties[Property.TRACE_CONTEXT] = context
    properties[Property.BORN_HOST] = host if host and not _control(host) else peer
    properties[Property.BORN_TIMESTAMP] = str(born)
    properties[Property.PRODUCER_GROUP] = topic
    return Outgoing(kind, message_id, properties, body, flag, born, properties.get(Property.SHARDING_KEY, ""))


def _kind(system: Any, said: int, properties: dict[str, str], now: int, limits: Limits) -> tuple[MessageType, int]:
    """The type of a message and the flag it is stored with; adds the properties that make it one of that type."""
    kind = _NORMAL
    group = system.message_group
    if group:
        _check_group(group, limits)
        properties[Property.SHARDING_KEY] = group
    if Property.SHARDING_KEY in properties:  # a name that is not reserved
        kind = _FIFO
    if system.HasField("delivery_timestamp"):
        properties[Property.TIMER_DELIVER_MS] = _delivery(millis(system.delivery_timestamp), now, limits)
        kind = _DELAY
    if said != _TRANSACTION:
        return kind, 0
    _begin_transaction(system, properties, limits)
    return _TRANSACTION, sysflag.PREPARED


def send_command(message: Outgoing, topic: str, broker: str, queue_id: int) -> Command:
    """SEND_MESSAGE_V2. Raises Refusal for properties that cannot be written."""
    try:
        fields = send_fields(
            send_head(topic, topic, DEFAULT_TOPIC, DEFAULT_QUEUES),
            queue_id,
            message.sys_flag,
            message.born,
            0,
            message.properties,
            0,
            send_tail(False, False, broker),
        )
        header = fields or _header(message, topic, broker, queue_id)
    except MessageError as error:
        raise _unwritable(error) from None
    return Command(RequestCode.SEND_MESSAGE_V2, fields=header, body=message.body)


def batch_command(messages: Sequence[Outgoing], topic: str, broker: str, queue_id: int) -> Command:
    """SEND_BATCH_MESSAGE of plain messages. Raises Refusal for properties that cannot be written.

    The batch itself has no properties that a broker could give to its members.
    """
    try:
        pieces = [piece for each in messages for piece in batch_item(0, each.body, encode_properties(each.properties))]
    except MessageError as error:
        raise _unwritable(error) from None
    together = Outgoing(_NORMAL, "", _WAITS, b"".join(pieces), 0, messages[0].born, "")
    header = _header(together, topic, broker, queue_id, batch=True)
    return Command(RequestCode.SEND_BATCH_MESSAGE, fields=header, body=together.body)


def _header(message: Outgoing, topic: str, broker: str, queue_id: int, *, batch: bool = False) -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group=topic,
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=DEFAULT_QUEUES,
        queue_id=queue_id,
        sys_flag=message.sys_flag,
        born_timestamp=message.born,
        flag=0,
        properties=encode_properties(message.properties).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=batch,
        bname=broker,
    )


def _control(text: str) -> bool:
    """Whether it contains a control character; most texts are printable, which is quicker to tell."""
    return not text.isprintable() and _find_control(text) is not None


def _check_properties(properties: dict[str, str], limits: Limits) -> None:
    if len(properties) > limits.max_user_properties:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(properties)} user properties, more than {limits.max_user_properties}",
        )
    if not RESERVED.isdisjoint(properties):
        name = next(name for name in properties if name in RESERVED)
        raise Refusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property name {name!r} is reserved, choose another one")
    if _control("".join(properties)) or _control("".join(properties.values())):
        name = next(name for name, value in properties.items() if _control(name) or _control(value))
        raise Refusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r} contains a control character")


def _check_size(properties: dict[str, str], limits: Limits) -> None:
    """Of user properties, tag and keys; at first in characters, of which UTF-8 makes at most four bytes each."""
    if sum(map(len, properties)) + sum(map(len, properties.values())) <= limits.max_properties // 4:
        return
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if size > limits.max_properties:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys take {size} bytes, more than {limits.max_properties}",
        )


def _check_tag(tag: str) -> None:
    if tag.isspace() or "|" in tag or _control(tag):
        raise Refusal(Code.ILLEGAL_MESSAGE_TAG, f"tag {tag[:80]!r} is blank, or contains '|' or a control character")


def _joined(keys: Sequence[str]) -> str:
    text = " ".join(keys)
    if _control(text) or any(key.isspace() for key in (keys if len(keys) > 1 else (text,))):
        raise Refusal(Code.ILLEGAL_MESSAGE_KEY, f"a key of {text[:80]!r} is blank or contains a control character")
    return text


def _check_group(group: str, limits: Limits) -> None:
    if group.isspace() or _control(group):
        raise Refusal(
            Code.ILLEGAL_MESSAGE_GROUP, f"message group {group[:80]!r} is blank or contains a control character"
        )
    if (size := len(group.encode())) >= limits.max_message_group:
        raise Refusal(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"message group {group[:80]!r} has {size} bytes; fewer than {limits.max_message_group} are allowed",
        )


def _delivery(due: int, now: int, limits: Limits) -> str:
    """When to deliver; what is past is delivered at once, by the broker."""
    if due - now > limits.max_delay:
        raise Refusal(
            Code.ILLEGAL_DELIVERY_TIME,
            f"the delivery time is {(due - now) // 1000} s ahead, more than {limits.max_delay // 1000} s",
        )
    return str(max(due, 1))


def _begin_transaction(system: Any, properties: dict[str, str], limits: Limits) -> None:
    properties[Property.TRANSACTION_PREPARED] = "true"
    if not system.HasField("orphaned_transaction_recovery_duration"):
        return
    recovery = millis(system.orphaned_transaction_recovery_duration)
    if not 0 <= recovery <= limits.max_transaction_recovery:
        raise Refusal(
            Code.BAD_REQUEST,
            f"the recovery duration of a transaction is 0 to {limits.max_transaction_recovery // 1000} s, "
            f"not {recovery / 1000:g} s",
        )
    if recovery >= 1000:
        properties[Property.CHECK_IMMUNITY_TIME] = str(recovery // 1000)


def _inflated(body: bytes, limits: Limits) -> tuple[bytes, int]:
    """The body and the flag it is stored with. Consumers know zlib; gzip, which they do not, is undone."""
    if not body.startswith(_GZIP_MAGIC):
        return body, CompressionType.ZLIB.flag
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = inflater.decompress(body, limits.max_body + 1)
    except zlib.error as error:
        raise Refusal(Code.MESSAGE_CORRUPTED, f"the body is not the gzip that it says: {error}") from None
    if len(plain) > limits.max_body:
        raise Refusal(Code.MESSAGE_BODY_TOO_LARGE, f"the body inflates to more than {limits.max_body} bytes; split it")
    if not inflater.eof:
        raise Refusal(Code.MESSAGE_CORRUPTED, "the body is gzip that was cut off")
    if not plain:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    return plain, 0


def _unwritable(error: MessageError) -> Refusal:
    """What was checked holds no separators, so the text as a whole is too long."""
    return Refusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, str(error))
