"""A place where consumers of a test put what they got, and where the test waits for it."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.message import ReceivedMessage

QUICK: dict[str, Any] = {
    "rebalance_interval": 1.0,
    "rebalance_min_interval": 0.05,
    "first_pull_delay": 0.0,
    "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
}
"""Balance at once, so that tests do not wait; the rules are the same."""


class Inbox:
    """Collects messages from any thread."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, message: ReceivedMessage) -> None:
        with self._lock:
            self.messages.append(message)
        self._loop.call_soon_threadsafe(self._changed.set)

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(message.body for message in self.messages)

    @property
    def repeated(self) -> int:
        """Deliveries beyond the first."""
        return sum(count - 1 for count in self.bodies.values())

    async def until(self, done: Callable[["Inbox"], bool]) -> None:
        """Wait for something to be true; the test's own limit bounds it."""
        while not done(self):
            self._changed.clear()
            await self._changed.wait()

    async def different(self, count: int) -> None:
        """Wait for so many different messages."""
        await self.until(lambda inbox: len(inbox.bodies) >= count)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a state that no event announces; the test's own limit bounds it."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)


def balanced(consumers: list[PushConsumer], queues: int) -> bool:
    """Whether all queues are owned, each by one."""
    owned = [queue for consumer in consumers for queue in consumer.assignment()]
    return len(owned) == len(set(owned)) == queues
