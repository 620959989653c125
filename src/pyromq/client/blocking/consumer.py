"""What push and pull consumers for threads share: hooks, and the small objects that are reached from a consumer."""

from typing import Any, TypeVar

from pyromq.client.blocking.client import BlockingPart, GroupClient, waiting
from pyromq.client.consumer.base import Consumer
from pyromq.client.consumer.damage import DamageHook
from pyromq.client.consumer.hooks import FilterHook
from pyromq.client.queries import Queries

C_co = TypeVar("C_co", bound=Consumer[Any], covariant=True)


class BlockingQueries(BlockingPart[Queries]):
    """`consumer.queries` for threads."""

    create_topic = waiting(Queries.create_topic)
    search_offset = waiting(Queries.search_offset)
    max_offset = waiting(Queries.max_offset)
    min_offset = waiting(Queries.min_offset)
    earliest_store_time = waiting(Queries.earliest_store_time)
    view_message = waiting(Queries.view_message)
    query_message = waiting(Queries.query_message)
    messages_of_id = waiting(Queries.messages_of_id)


class BlockingConsumer(GroupClient[C_co]):
    """Base of the consumers for threads; not used by itself."""

    def __init__(self, consumer: C_co) -> None:
        super().__init__(consumer, f"consumer {consumer.group!r}")

    @property
    def damage_hooks(self) -> list[DamageHook]:
        """Append hooks before `start`."""
        return self._client.damage_hooks

    @property
    def filter_hooks(self) -> list[FilterHook]:
        """Append hooks before `start`."""
        return self._client.filter_hooks

    @property
    def queries(self) -> BlockingQueries:
        """Offsets of queues, messages by id and key, new topics."""
        return BlockingQueries(self, lambda: self._client.queries)

    fetch_queues = waiting(Consumer.fetch_queues)
    send_back = waiting(Consumer.send_back)
