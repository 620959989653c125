"""What a scenario of our clients needs: names of its own, clients that are closed with it, and bounded waiting."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from pyromq import Admin, ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage
from tests.interop.servers import Cluster

T = TypeVar("T")

BOUND = 180.0
"""Ends a wait that hangs; nothing is expected to take so long."""


class Inbox:
    """Messages that a consumer got, in order of arrival."""

    def __init__(self) -> None:
        self._messages: list[ReceivedMessage] = []
        self._changed = threading.Condition()

    def put(self, message: ReceivedMessage) -> None:
        """Add one; usable as a listener."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    @property
    def messages(self) -> list[ReceivedMessage]:
        """What is there now."""
        with self._changed:
            return list(self._messages)

    @property
    def bodies(self) -> list[bytes]:
        """Their bodies, sorted."""
        return sorted(message.body for message in self.messages)

    def wait(self, count: int) -> list[ReceivedMessage]:
        """Wait until there are so many."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self._messages) >= count, BOUND)
            assert arrived, f"{len(self._messages)} of {count} messages arrived: {self._messages}"
            return list(self._messages)


class Stage:
    """One scenario with one cluster."""

    def __init__(self, cluster: Cluster, scenario: str, stack: ExitStack) -> None:
        self.cluster = cluster
        self.namesrv = cluster.namesrv
        self._stack = stack
        self._name = f"{scenario}_{time.time_ns():x}"
        self._numbers = itertools.count()
        self.topic = f"T_{self._name}"
        self.group = f"G_{self._name}"

    def unique(self, prefix: str) -> str:
        """A name that nobody else uses."""
        return f"{prefix}_{self._name}_{next(self._numbers)}"

    def enter(self, resource: Any) -> Any:
        """Use something until the scenario ends."""
        return self._stack.enter_context(resource)

    def options(self) -> dict[str, Any]:
        """Of a client that shares its connections with no other, and is patient on a busy machine."""
        return {
            "namesrv": self.namesrv,
            "instance_name": self.unique("I"),
            "api_timeout": 30.0,
            "connect_timeout": 30.0,
        }

    def producer(self, **options: Any) -> Producer:
        """A running producer."""
        patient = self.options() | {"send_timeout": 30.0}
        producer: Producer = self.enter(Producer(self.unique("P"), **(patient | options)))
        return producer

    def admin(self) -> Admin:
        """A running admin client."""
        admin: Admin = self.enter(Admin(timeout=30.0, **self.options()))
        return admin

    def consumer(self, group: str | None = None, **options: Any) -> PushConsumer:
        """A consumer of the scenario's group, or another, that begins at the oldest message; not started."""
        defaults = self.options() | {"consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}
        return PushConsumer(group or self.group, **(defaults | options))

    def collect(
        self, topic: str | None = None, tags: str | None = None, *, group: str | None = None, sql: str | None = None
    ) -> Inbox:
        """What a running consumer gets."""
        inbox = Inbox()
        consumer = self.consumer(group)
        consumer.subscribe(topic or self.topic, tags, sql=sql)
        consumer.listen(inbox.put)
        self.enter(consumer)
        return inbox

    def message(self, body: str | bytes, **options: Any) -> Message:
        """A message to the scenario's topic."""
        return Message(self.topic, body if isinstance(body, bytes) else body.encode(), **options)


def names(prefix: str, count: int) -> list[bytes]:
    """Bodies that sort as they count."""
    return [f"{prefix}{number:03}".encode() for number in range(count)]


def eventually(what: str, probe: Callable[[], T | None]) -> T:
    """Wait until a probe returns something true, and return that."""
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


@contextmanager
def stage(cluster: Cluster, scenario: str) -> Iterator[Stage]:
    """The stage of a scenario; what was entered is closed at the end."""
    with ExitStack() as stack:
        yield Stage(cluster, scenario, stack)
