"""What a broker tells a writer (see `protocol.writers`)."""

from msgspec import field

from pyromq.protocol.bodies.base import Body


class WriterQueues(Body):
    """Body of the answer to OPEN_WRITER: offsets of the topic's queues on that broker."""

    ends: dict[int, int] = field(default_factory=dict)
    """Behind everything that attempts before this one can ever have stored."""
    origins: dict[int, int] = field(default_factory=dict)
    """Before everything that any run of the writer has stored."""
