"""Which broker has which queues of which topic: the topic side of the route table. Pure, no sockets, no clock.

Invariant: no topic without an entry, never more topics or entries than the bounds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from pyromq.protocol.bodies.route import QueueData, TopicQueueMappingInfo
from pyromq.protocol.routes import READ_WRITE, WRITE


class TopicTable:
    """topic → broker name → queues, and the mappings of static topics."""

    def __init__(self, *, max_topics: int, max_entries: int) -> None:
        self._max_topics = max_topics
        self._max_entries = max_entries
        self._entries = 0
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def entries(self) -> int:
        """Pairs of topic and broker name."""
        return self._entries

    def names(self) -> list[str]:
        """Every topic, in the order of arrival."""
        return list(self._queues)

    def queues(self, topic: str) -> Mapping[str, QueueData]:
        """Queues of a topic by broker name; empty when there is no such topic."""
        return self._queues.get(topic, {})

    def mappings(self, topic: str) -> Mapping[str, TopicQueueMappingInfo]:
        """Static mapping of a topic by broker name; empty for an ordinary topic."""
        return self._mappings.get(topic, {})

    def put(self, topic: str, queues: QueueData) -> bool:
        """Add or replace the queues of one broker. False when a bound leaves no room for it."""
        brokers = self._queues.get(topic, {})
        if queues.broker_name not in brokers:
            if self._entries >= self._max_entries or (not brokers and len(self._queues) >= self._max_topics):
                return False
            self._entries += 1
        brokers[queues.broker_name] = queues
        self._queues[topic] = brokers
        return True

    def put_mapping(self, topic: str, mapping: TopicQueueMappingInfo) -> None:
        """Add or replace the static mapping of one broker; only for a topic it has queues of."""
        if mapping.bname in self.queues(topic):
            self._mappings.setdefault(topic, {})[mapping.bname] = mapping

    def remove(self, topic: str, brokers: Iterable[str] | None = None) -> None:
        """Forget a topic, or only its queues on some brokers."""
        for broker in list(self.queues(topic)) if brokers is None else brokers:
            self._remove_entry(topic, broker)

    def remove_broker(self, broker: str) -> None:
        """Forget all queues of a broker name."""
        for topic in self.of_broker(broker):
            self._remove_entry(topic, broker)

    def of_broker(self, broker: str) -> list[str]:
        """Topics with queues on a broker name."""
        return [topic for topic, brokers in self._queues.items() if broker in brokers]

    def of_brokers(self, brokers: Collection[str]) -> list[str]:
        """Topics with queues on any of the broker names."""
        return [topic for topic, queues in self._queues.items() if not queues.keys().isdisjoint(brokers)]

    def flagged(self, accept: Callable[[int], bool]) -> list[str]:
        """Topics whose system flag is accepted; the first broker's flag counts."""
        return [topic for topic, brokers in self._queues.items() if accept(next(iter(brokers.values())).topic_sys_flag)]

    def forbid_writes(self, broker: str) -> int:
        """Clear the write bit on all queues of a broker name; returns the number of topics."""
        held = self._held_by(broker)
        for queues in held:
            queues.perm &= ~WRITE
        return len(held)

    def allow_writes(self, broker: str) -> int:
        """Set permission to read and write on all queues of a broker name; returns the number of topics."""
        held = self._held_by(broker)
        for queues in held:
            queues.perm = READ_WRITE
        return len(held)

    def _held_by(self, broker: str) -> list[QueueData]:
        return [self._queues[topic][broker] for topic in self.of_broker(broker)]

    def _remove_entry(self, topic: str, broker: str) -> None:
        brokers = self._queues.get(topic, {})
        if brokers.pop(broker, None) is None:
            return
        self._entries -= 1
        mappings = self._mappings.get(topic, {})
        mappings.pop(broker, None)
        if not brokers:
            del self._queues[topic]
        if not mappings:
            self._mappings.pop(topic, None)
