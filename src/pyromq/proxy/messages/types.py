"""Types of messages: which one properties amount to, and which ones a topic takes.

What a message says of its own type counts only for transactions: with a group it is a FIFO message, with a time of
delivery a delayed one, whatever else it says.
"""

from collections.abc import Mapping
from typing import Final

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.properties import Property
from pyromq.proxy.schema.enums import MessageType

ATTRIBUTE: Final = "message.type"
MIXED: Final = "MIXED"
_PLAIN: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
_NAMES: Final = {kind.name: (kind,) for kind in MessageType if kind} | {MIXED: _PLAIN}

_DELAYS: Final = frozenset(
    {Property.DELAY, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS}
)


def type_of(properties: Mapping[str, str]) -> MessageType:
    """The type of a message with these properties."""
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if not _DELAYS.isdisjoint(properties):
        return MessageType.DELAY
    return MessageType.FIFO if Property.SHARDING_KEY in properties else MessageType.NORMAL


def accepted_types(topic: TopicConfig) -> tuple[MessageType, ...]:
    """The types that a topic takes; NORMAL when it says nothing."""
    return _NAMES.get(topic.attributes.get(ATTRIBUTE, ""), (MessageType.NORMAL,))
