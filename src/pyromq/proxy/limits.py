"""`Limits`: what clients may ask for. The figures are those of RocketMQ's own proxy."""

from dataclasses import dataclass

from pyromq.protocol.names import MAX_BODY

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are milliseconds, sizes are bytes."""

    max_body: int = MAX_BODY
    max_properties: int = 16 * 1024
    """User properties, tag and keys together."""
    max_user_properties: int = 128
    max_message_group: int = 64
    """A group has fewer bytes than this."""
    max_delay: int = 24 * HOUR
    max_transaction_recovery: int = HOUR
    batch_size: int = 32
    min_poll: int = 0
    max_poll: int = 20 * SECOND
    min_invisible: int = 10 * SECOND
    max_invisible: int = 12 * HOUR
    push_invisible: int = MINUTE
    """How long messages are hidden that the proxy renews itself."""


DEFAULT = Limits()
