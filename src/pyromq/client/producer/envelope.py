"""A message on its way out: checked, named, compressed once, whatever number of attempts follows.

The caller's message keeps its topic and body; what differs on the wire lives in `Envelope`. Only its unique id is
written into the message itself, so that sending it again is recognisable as the same message.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import UnsendableError
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import MessageError, ValidationError
from pyromq.protocol.message import Message
from pyromq.protocol.names import check_message, check_topic, is_retry_topic
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import check_batch, encode_batch
from pyromq.protocol.records.compression import compress

log = logging.getLogger(__name__)

REPLY_TYPE = "reply"


@dataclass(slots=True)
class Envelope:
    """What the attempts of one send have in common. `properties` is read at each attempt, after the hooks ran."""

    message: Message | list[Message]
    topic: str
    body: bytes
    flag: int
    sys_flag: int
    properties: dict[str, str]
    message_id: str
    is_batch: bool = False
    is_reply: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    @property
    def first(self) -> Message:
        """The message, or the first one of a batch."""
        return self.message[0] if isinstance(self.message, list) else self.message

    def finish(self) -> None:
        """After the last attempt: what only the broker was to see of a retry message goes."""
        if not self.is_batch and is_retry_topic(self.topic):
            self.properties.pop(Property.RECONSUME_TIME, None)
            self.properties.pop(Property.MAX_RECONSUME_TIMES, None)


def prepare(message: Message, config: ProducerConfig, next_id: Callable[[], str]) -> Envelope:
    """A single message. Raises UnsendableError for what may not be sent."""
    topic = checked_topic(message, config)
    properties = message.properties
    message_id = properties.get(Property.UNIQ_KEY)
    if message_id is None:
        message_id = properties[Property.UNIQ_KEY] = next_id()
    if config.namespace:
        properties[Property.INSTANCE_ID] = config.namespace
    body, flag = message.body, 0
    if len(body) >= config.compress_over:
        body, flag = _compressed(body, config)
    if properties.get(Property.TRANSACTION_PREPARED, "").lower() == "true":
        flag |= sysflag.PREPARED
    envelope = Envelope(message, topic, body, message.flag, flag, properties, message_id)
    envelope.is_reply = properties.get(Property.MSG_TYPE) == REPLY_TYPE
    if is_retry_topic(topic):
        envelope.reconsume_times = _number(properties.get(Property.RECONSUME_TIME)) or 0
        envelope.max_reconsume_times = _number(properties.get(Property.MAX_RECONSUME_TIMES))
    return envelope


def prepare_batch(messages: Sequence[Message], config: ProducerConfig, next_id: Callable[[], str]) -> Envelope:
    """Messages that travel as one request. They are never compressed.

    The batch itself carries only WAIT: many brokers append its properties to each member, where an id or keys of the
    batch would replace the member's own.
    """
    members = list(messages)
    try:
        check_batch(members)
    except ValidationError as error:
        raise UnsendableError(f"these messages cannot be a batch: {error}") from error
    ids = []
    for member in members:
        checked_topic(member, config)
        if member.unique_id is None:
            member.unique_id = next_id()
        if config.namespace:
            member.instance_id = config.namespace
        ids.append(member.properties[Property.UNIQ_KEY])
    topic = checked_topic(members[0], config)
    try:
        body = encode_batch(members)
    except MessageError as error:
        raise UnsendableError(str(error), code=ResponseCode.MESSAGE_ILLEGAL) from error
    if len(body) > config.max_message_size:
        raise UnsendableError(
            f"the batch of {len(members)} messages takes {len(body)} bytes, more than {config.max_message_size}; "
            "send it in pieces",
            code=ResponseCode.MESSAGE_ILLEGAL,
        )
    properties = {Property.WAIT: "true" if members[0].wait_store_ok else "false"}
    return Envelope(members, topic, body, 0, 0, properties, ",".join(ids), is_batch=True)


def checked_topic(message: Message, config: ProducerConfig) -> str:
    """The topic's name on the wire, after all checks of the message. Raises UnsendableError."""
    try:
        check_message(message, max_size=config.max_message_size)
        if not config.namespace:
            return message.topic
        topic = namespaces.wrap(config.namespace, message.topic)
        check_topic(topic)
    except ValidationError as error:
        code = error.code if error.code == ResponseCode.MESSAGE_ILLEGAL else None
        raise UnsendableError(f"this message cannot be sent: {error}", code=code) from error
    return topic


def _compressed(body: bytes, config: ProducerConfig) -> tuple[bytes, int]:
    try:
        return compress(body, config.compress_type, config.compress_level), config.compress_type.flag
    except MessageError as error:
        log.warning("body sent uncompressed: %s", error)
        return body, 0


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
