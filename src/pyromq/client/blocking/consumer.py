"""What push and pull consumers for threads share."""

from pyromq.client.blocking.client import G_co, GroupClient


class BlockingConsumer(GroupClient[G_co]):
    """Base of the consumers for threads; not used by itself."""

    def __init__(self, consumer: G_co) -> None:
        super().__init__(consumer, f"consumer {consumer.group!r}")
        self._consumer = consumer
