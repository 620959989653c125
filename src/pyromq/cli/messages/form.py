"""The formats of messages outside a broker: what `pyromq consume` writes, `pyromq send` reads back."""

import base64
import binascii
from enum import StrEnum
from typing import Any

import msgspec

from pyromq.cli.output import body_text
from pyromq.client.errors import ClientError
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.properties import RESERVED, Property


class Format(StrEnum):
    """How messages stand in files and streams."""

    LINES = "lines"
    RAW = "raw"
    JSONL = "jsonl"
    JSON = "json"


class MessageForm(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One message. A body that is no text is in `body_base64`; when sending, any JSON value may be a body.

    What only a stored message has is passed over when it is sent again.
    """

    topic: str | None = None
    body: Any = None
    body_base64: str | None = None
    tags: str | None = None
    keys: list[str] = []
    properties: dict[str, str] = {}
    flag: int = 0
    delay_level: int = 0
    sharding_key: str | None = None
    message_id: str | None = None
    offset_message_id: str | None = None
    broker_name: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    born_timestamp: int | None = None
    store_timestamp: int | None = None
    reconsume_times: int = 0
    fault: str | None = None

    @classmethod
    def of(cls, message: ReceivedMessage) -> "MessageForm":
        """A stored message."""
        text = body_text(message.body)
        return cls(
            topic=message.topic,
            body=text,
            body_base64=base64.b64encode(message.body).decode() if text is None else None,
            tags=message.tags,
            keys=list(message.keys),
            properties={name: value for name, value in sorted(message.properties.items()) if name not in RESERVED},
            flag=message.flag,
            sharding_key=message.sharding_key,
            message_id=message.message_id,
            offset_message_id=message.offset_message_id,
            broker_name=message.broker_name,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            born_timestamp=message.born_timestamp,
            store_timestamp=message.store_timestamp,
            reconsume_times=message.reconsume_times,
            fault=message.fault,
        )

    def message(self, topic: str) -> Message:
        """The message to send to a topic, whatever topic it came from. Raises ClientError, ValidationError."""
        made = Message(
            topic,
            self._raw_body(),
            tags=self.tags,
            keys=self.keys,
            flag=self.flag,
            delay_level=self.delay_level,
            sharding_key=self.sharding_key,
        )
        for name, value in self.properties.items():
            made.put_property(name, value)
        if self.fault:
            made.properties[Property.FAULT] = self.fault
        return made

    def _raw_body(self) -> bytes:
        if (self.body is None) == (self.body_base64 is None):
            raise ClientError("a message has either a body or a bodyBase64")
        if self.body_base64 is not None:
            try:
                return base64.b64decode(self.body_base64, validate=True)
            except (binascii.Error, ValueError):
                raise ClientError("bodyBase64 is not base64") from None
        return self.body.encode() if isinstance(self.body, str) else msgspec.json.encode(self.body)


def read_form(line: bytes) -> MessageForm:
    """A message out of one line. Raises ClientError."""
    form: MessageForm = _decoded(line, _ONE)
    return form


def read_forms(document: bytes) -> list[MessageForm]:
    """The messages of a JSON document: one object, or a list of them. Raises ClientError."""
    return _decoded(document, _MANY) if document.lstrip()[:1] == b"[" else [read_form(document)]


def _decoded(data: bytes, decoder: "msgspec.json.Decoder[Any]") -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(f"no message in JSON: {error}") from None


_ONE = msgspec.json.Decoder(MessageForm)
_MANY = msgspec.json.Decoder(list[MessageForm])
