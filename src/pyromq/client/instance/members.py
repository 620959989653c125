"""What a client instance asks of the producers, consumers and admin clients registered with it.

Small interfaces, so that the instance knows nothing about how each of them works.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from pyromq.client.instance.routes import PublishInfo
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage


class ProducerMember(Protocol):
    """A producer of one group, keyed by the group's name on the wire (namespace included)."""

    def published_topics(self) -> Collection[str]:
        """Topics (names on the wire) whose routes the instance refreshes."""

    def needs_route(self, topic: str) -> bool:
        """Whether the producer uses the topic and has no usable publish info for it."""

    def route_changed(self, topic: str, info: PublishInfo) -> None:
        """Take over a new route."""

    def check_transaction(self, address: str, message: ReceivedMessage, header: CheckTransactionStateHeader) -> None:
        """Answer, later and elsewhere, how a local transaction ended. Must return at once."""


class ConsumerMember(Protocol):
    """A consumer of one group, keyed by the group's name on the wire (namespace included)."""

    def subscribed_topics(self) -> Collection[str]:
        """Topics (names on the wire) whose routes the instance refreshes."""

    def needs_route(self, topic: str) -> bool:
        """Whether the consumer is subscribed to the topic and has no queues for it yet."""

    def route_changed(self, topic: str, queues: list[MessageQueue]) -> None:
        """Take over a new list of readable queues."""

    def heartbeat_data(self) -> ConsumerData:
        """How the group appears in heartbeats."""

    def wake_rebalance(self) -> None:
        """Group members or brokers changed: balance soon. Must return at once."""

    async def persist_offsets(self) -> None:
        """Called every `persist_offset_interval`."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moved the offsets of the group."""

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """Offsets in memory."""

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        """What the consumer is doing."""

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:
        """Hand one message to the listener now and report what it did."""


class AdminMember(Protocol):
    """An admin client; it only keeps the instance alive."""
