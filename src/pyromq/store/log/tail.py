"""The ends of queues as the append path sees them: which offset the next message of a queue gets.

Invariant: a tail is ahead of its queue by the messages that are in the log and not dispatched yet.
"""

from collections.abc import Sequence

from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.record import MAGIC_V1, MAGIC_V2
from pyromq.store.arrival import Waiting
from pyromq.store.log.plainrecord import MAX_TOPIC, MIN_SIZE
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.table import ConsumeQueues


class Tail:
    """The end of one queue, and what all its records have in common."""

    __slots__ = ("fixed_size", "magic", "next_offset", "plain", "queue", "scheduled", "short", "topic", "topic_field")

    def __init__(self, topic: str, queue: ConsumeQueue, next_offset: int) -> None:
        self.topic = topic.encode()
        self.queue = queue
        self.next_offset = next_offset
        self.fixed_size = MIN_SIZE + len(self.topic) + (len(self.topic) > MAX_TOPIC) - 2 * V4_SIZE
        """Bytes of a record besides body, properties and hosts."""
        self.short = len(self.topic) <= MAX_TOPIC
        self.magic = MAGIC_V1 if self.short else MAGIC_V2
        self.topic_field = len(self.topic).to_bytes(1 if self.short else 2) + self.topic
        self.scheduled = topic == SCHEDULE_TOPIC
        self.plain = self.short and not self.scheduled


class Tails:
    """The tails of the queues of one store that take messages at present; `waiting` is what is not in them yet."""

    def __init__(self, queues: ConsumeQueues, waiting: Sequence[Waiting]) -> None:
        self._queues = queues
        self._waiting = waiting
        self.known: dict[tuple[str, int], Tail] = {}
        """Where messages may go without asking again. Empty whenever the store as a whole takes none."""

    def get_or_create(self, topic: str, queue_id: int) -> Tail:
        """The end of a queue, made on first use. Raises StoreFormatError for a topic that cannot be stored."""
        tail = self.known.get((topic, queue_id))
        if tail is None:
            queue = self._queues.get_or_create(topic, queue_id)
            tail = self.known[topic, queue_id] = Tail(topic, queue, self.next_offset(topic, queue_id))
        return tail

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets."""
        tail = self.known.get((topic, queue_id))
        if tail is not None:
            return tail.next_offset
        for entry in reversed(self._waiting):
            for place, end in entry.ends():
                if place == (topic, queue_id):
                    return end
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def forget(self, topic: str | None = None) -> None:
        """Numbering of a topic (all without one) is taken from its queues again."""
        if topic is None:
            self.known.clear()
        else:
            for key in [key for key in self.known if key[0] == topic]:
                del self.known[key]
