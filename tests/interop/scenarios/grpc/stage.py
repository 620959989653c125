"""What a scenario of gRPC clients needs: topics, groups and clients of its own.

Clients end with their driver and are not closed before: some libraries wait for their long poll then, 20 seconds.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyromq import Admin, ClientError
from pyromq.protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from tests.interop.grpcdrivers import GrpcDriver, GrpcMessage, RefusedError, Told
from tests.interop.grpcservers import Gateway
from tests.interop.scenarios.stage import eventually

CLUSTER = "DefaultCluster"
LONG_POLL = 5
"""Seconds that a simple consumer waits for messages; no less is allowed by Apache's proxy."""
INVISIBLE = 15
"""Seconds that it has for them; no less than 10 are."""


class Stage:
    """One scenario with one gateway and one driver."""

    def __init__(self, gateway: Gateway, driver: GrpcDriver, scenario: str) -> None:
        self.gateway = gateway
        self.driver = driver
        self._name = f"{scenario}_{time.time_ns():x}"
        self._numbers = itertools.count()
        self.admin = Admin(
            namesrv=gateway.cluster.namesrv,
            instance_name=self.unique("A"),
            timeout=30.0,
            api_timeout=30.0,
            connect_timeout=30.0,
            **gateway.cluster.access,
        )

    def unique(self, prefix: str) -> str:
        """A name that nobody else uses."""
        return f"{prefix}_{self._name}_{next(self._numbers)}"

    def topic(self, kind: str = "NORMAL", queues: int = 4) -> str:
        """A topic for one type of messages."""
        topic = self.unique("T")
        self.admin.create_topic(topic, queues=queues, attributes={"message.type": kind}, cluster=CLUSTER)

        def known() -> bool:
            with suppress(ClientError):
                return bool(self.admin.queues(topic))
            return False

        eventually("the route of a topic", known)
        return topic

    def group(self, *, orderly: bool = False, retries: int = 16, policy: GroupRetryPolicy | None = None) -> str:
        """A group of consumers; without a policy, it has the usual steps between attempts."""
        group = self.unique("G")
        config = SubscriptionGroupConfig(
            group_name=group,
            consume_message_orderly=orderly,
            retry_max_times=retries,
            group_retry_policy=policy or GroupRetryPolicy(),
        )
        self.admin.create_group(config, cluster=CLUSTER)
        return group

    def producer(self, *topics: str, **options: Any) -> str:
        """A running producer."""
        return self._started("producer", topics=list(topics), **options)

    def send(self, producer: str, topic: str, body: str | bytes, **options: Any) -> dict[str, Any]:
        """Send one message; what the driver answers."""
        return self.driver.ask("send", client=producer, message=message(topic, body, **options).to_json())

    def transact(self, producer: str, topic: str, body: str, outcome: str, **options: Any) -> None:
        """Send one message in a transaction and end that, or leave it open."""
        sent = message(topic, body, **options).to_json()
        self.driver.ask("transaction", client=producer, message=sent, outcome=outcome)

    def push(self, group: str, topic: str, **options: Any) -> Told:
        """What the listener of a push consumer tells, which is started."""
        return self.driver.told(self.pusher(group, topic, **options))

    def pusher(self, group: str, topic: str, **options: Any) -> str:
        """A running push consumer."""
        return self._started("push", group=group, topic=topic, **options)

    def simple(self, group: str, topic: str, **options: Any) -> str:
        """A running simple consumer."""
        return self._started("simple", group=group, topic=topic, wait=LONG_POLL, **options)

    def receive(self, consumer: str, count: int = 1) -> list[GrpcMessage]:
        """Receive until so many messages came, without acknowledging any."""
        got: list[GrpcMessage] = []

        def enough() -> bool:
            answer = self.driver.ask("receive", client=consumer, max=count - len(got), invisible=INVISIBLE)
            got.extend(GrpcMessage.from_json(said) for said in answer["messages"])
            return len(got) >= count

        eventually(f"{count} messages", enough)
        return got

    def collect(self, consumer: str, count: int) -> list[GrpcMessage]:
        """Receive and acknowledge so many messages."""
        got = self.receive(consumer, count)
        for each in got:
            self.driver.ask("ack", client=consumer, message=each.id)
        return got

    def _started(self, do: str, **options: Any) -> str:
        client = self.unique("C")
        self.driver.ask(do, client=client, **options)
        return client


def message(topic: str, body: str | bytes, **options: Any) -> GrpcMessage:
    """A message to send."""
    return GrpcMessage(topic, body if isinstance(body, bytes) else body.encode(), **options)


def bodies(messages: list[GrpcMessage]) -> list[str]:
    """Their bodies as text, as they came."""
    return [each.body.decode() for each in messages]


@contextmanager
def refusal(*codes: int) -> Iterator[None]:
    """What the library must raise, and with one of these codes if it tells any: some know before they ask."""
    try:
        yield
    except RefusedError as refused:
        if codes and refused.code not in (*codes, None):
            raise AssertionError(f"not refused with {codes}: {refused}") from refused
        return
    raise AssertionError("it was not refused")


@contextmanager
def stage(gateway: Gateway, driver: GrpcDriver, scenario: str) -> Iterator[Stage]:
    """The stage of a scenario."""
    made = Stage(gateway, driver, scenario)
    with made.admin:
        yield made
