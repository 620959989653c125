"""Dead letters as values: what they were, how to write them down, how to make them fit to be sent again. Pure."""

import base64
from dataclasses import dataclass

import msgspec

from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.names import retry_topic
from pyromq.protocol.properties import RESERVED, Property

_KEPT = frozenset(
    {
        Property.KEYS,
        Property.TAGS,
        Property.UNIQ_KEY,
        Property.BUYER_ID,
        Property.INSTANCE_ID,
        Property.ORIGIN_MESSAGE_ID,
    }
)
"""Of the properties with a meaning, those that stay; the others are what earlier deliveries left behind."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group failed on for good, as it lies in the group's dead-letter topic."""

    group: str
    message: ReceivedMessage

    @property
    def origin_topic(self) -> str | None:
        """The topic it was first sent to; None when the record does not say."""
        properties = self.message.properties
        return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)

    @property
    def origin_message_id(self) -> str | None:
        """The id of the place where it was first stored."""
        properties = self.message.properties
        return properties.get(Property.ORIGIN_MESSAGE_ID) or properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)

    @property
    def message_id(self) -> str:
        """The id its sender gave it, which all copies share."""
        return self.message.message_id

    def to_json(self) -> bytes:
        """One line of JSON without its end; the body in base64."""
        message = self.message
        return msgspec.json.encode(
            {
                "messageId": self.message_id,
                "offsetMessageId": message.offset_message_id,
                "group": self.group,
                "originTopic": self.origin_topic,
                "originMessageId": self.origin_message_id,
                "reconsumeTimes": message.reconsume_times,
                "bornTimestamp": message.born_timestamp,
                "storeTimestamp": message.store_timestamp,
                "brokerName": message.broker_name,
                "queueId": message.queue_id,
                "queueOffset": message.queue_offset,
                "flag": message.flag,
                "properties": dict(sorted(message.properties.items())),
                **({"fault": message.fault} if message.fault else {}),
                "body": base64.b64encode(message.body).decode(),
            }
        )


def revived(letter: DeadLetter, topic: str | None = None) -> Message:
    """The message to send so that it is consumed anew: in `topic`, or by the letter's group alone.

    It keeps its unique id, keys, tags and own properties, so that it can be recognised; its retries begin at 0.
    """
    old = letter.message
    message = Message(topic or retry_topic(letter.group), old.body, flag=old.flag)
    message.properties.update(
        {name: value for name, value in old.properties.items() if name in _KEPT or name not in RESERVED}
    )
    if old.fault:
        message.properties[Property.FAULT] = old.fault
    if topic is None and letter.origin_topic is not None:
        # By this a consumer knows which topic the message is of.
        message.properties[Property.RETRY_TOPIC] = letter.origin_topic
    return message
