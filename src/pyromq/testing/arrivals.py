"""Waiting for messages in a test: exactly as long as it takes, with a bound and an error that tells what came."""

import time
from collections.abc import Callable

from pyromq.client.blocking.pull_consumer import PullConsumer
from pyromq.protocol.message import ReceivedMessage

SECONDS = 30.0


class NotReceivedError(AssertionError):
    """Not enough messages came in time; `messages` are those that did."""

    def __init__(self, wanted: int, seconds: float, messages: list[ReceivedMessage]) -> None:
        self.messages = messages
        bodies = ", ".join(repr(message.body[:40]) for message in messages[:10]) or "none"
        super().__init__(f"{len(messages)} of {wanted} messages came within {seconds:g} s: {bodies}")


def receive(
    consumer: PullConsumer,
    count: int = 1,
    *,
    seconds: float = SECONDS,
    where: Callable[[ReceivedMessage], bool] | None = None,
) -> list[ReceivedMessage]:
    """The next `count` messages of a consumer, those `where` something holds, as soon as they are there.

    Raises NotReceivedError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    found: list[ReceivedMessage] = []
    while len(found) < count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotReceivedError(count, seconds, found)
        # Never more than are wanted: what is polled counts as consumed.
        polled = consumer.poll(left, count - len(found))
        found += [message for message in polled if where is None or where(message)]
    return found
