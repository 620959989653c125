"""Topics of messages that came from the master before the table of topics did: nobody could read them here yet."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyromq.broker.tables.savedtable import Save
from pyromq.broker.tables.topics import Topics
from pyromq.store.arrival import Arrival


class _Newcomer(NamedTuple):
    """Where its first message lies, how many queues it has at least."""

    place: int
    queues: int


class UnsavedTopics:
    """Those of a slave that are not on disk."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._newcomers: dict[str, _Newcomer] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._newcomers))

    def note(self, message: Arrival) -> None:
        """A message came over whose topic is not there."""
        before = self._newcomers.get(message.topic, _Newcomer(message.physical_offset, 0))
        self._newcomers[message.topic] = before._replace(queues=max(before.queues, message.queue_id + 1))

    def first(self) -> int | None:
        """Where in the log the first message lies whose topic is not on disk: without it nobody could read it."""
        self.forget(topic for topic in self if topic in self._topics)
        return min((each.place for each in self._newcomers.values()), default=None)

    def assume(self, topic: str) -> Save | None:
        """Make up a topic; None when there are as many as may be."""
        return self._topics.assume(topic, self._newcomers[topic].queues)

    def forget(self, topics: Iterable[str]) -> None:
        """Wait for these no more."""
        for topic in topics:
            self._newcomers.pop(topic, None)
