"""The basic administrative calls for threads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pyromq.client.queries import QueryMethods
from pyromq.protocol.message import MessageQueue, ReceivedMessage

T = TypeVar("T")


class BlockingQueryMethods(ABC):
    """`QueryMethods` of a client, with a wait around each."""

    @abstractmethod
    def _query(self) -> QueryMethods:
        """The client that does the work."""

    @abstractmethod
    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for what it does on its own loop."""

    def create_topic(
        self, key: str, topic: str, queues: int, *, sys_flag: int = 0, attributes: dict[str, str] | None = None
    ) -> None:
        """Create or change a topic on every master that serves `key`; fails only when none of them did it."""
        self._run(lambda: self._query().create_topic(key, topic, queues, sys_flag=sys_flag, attributes=attributes))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time."""
        return self._run(lambda: self._query().search_offset(queue, timestamp_ms))

    def max_offset(self, queue: MessageQueue) -> int:
        """One past the last message of the queue."""
        return self._run(lambda: self._query().max_offset(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return self._run(lambda: self._query().min_offset(queue))

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the first message that the queue still has was stored, in Unix ms."""
        return self._run(lambda: self._query().earliest_store_time(queue))

    def view_message(self, topic: str, message_id: str) -> ReceivedMessage:
        """A message by either of its ids."""
        return self._run(lambda: self._query().view_message(topic, message_id))

    def query_message(
        self, topic: str, key: str, max_num: int = 64, begin_ms: int = 0, end_ms: int = 2**63 - 1
    ) -> list[ReceivedMessage]:
        """Messages with a key, from all brokers of the topic. Raises ClientError NO_MESSAGE when there is none."""
        return self._run(lambda: self._query().query_message(topic, key, max_num, begin_ms, end_ms))
