"""Damaged and poisonous records: told to whoever wants to know, and set aside as the consumer's settings say.

A record is damaged when its body does not match its checksum, cannot be inflated within `max_body_size`, is an inner
batch that cannot be taken apart, has text that is not UTF-8, or has no frame to speak of (`protocol.salvage`). None of
that may hold up the messages behind it, and none goes without a word: it is logged with its place and told to hooks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from pyromq.client.consumer.retry import Retry
from pyromq.client.errors import ClientError
from pyromq.client.hooks import run_hooks
from pyromq.protocol.message import MessageQueue, ReceivedMessage

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 60
"""Refusals of a dead letter, a second or more apart, before it is only logged: a broker that refuses it for good must
not stop the queue."""


class OnDamaged(StrEnum):
    """What becomes of a damaged record."""

    DEAD_LETTER = "dead-letter"
    """It goes to the dead letters of the group, as it is, and is not consumed."""
    DELIVER = "deliver"
    """It is consumed like any other; `message.fault` says what is wrong, and its body is as it was found."""
    SKIP = "skip"
    """It is logged with its place and passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageContext:
    """What a damage hook sees. A record that the broker left out, since it has no frame, has an empty body."""

    group: str
    queue: MessageQueue
    message: ReceivedMessage
    fault: str
    action: OnDamaged


@runtime_checkable
class DamageHook(Protocol):
    """Told of every damaged record, after it was dealt with. Runs on the event loop and must not block."""

    name: str

    def damaged(self, context: DamageContext) -> None: ...


class Damage:
    """Deals with the damaged records of one group (its name on the wire). `total` counts them."""

    def __init__(self, group: str, action: OnDamaged, retry: Retry, hooks: Sequence[DamageHook]) -> None:
        self._group = group
        self._action = action
        self._retry = retry
        self._hooks = hooks
        self._refused: dict[MessageQueue, tuple[int, int]] = {}
        """How often the dead letter at an offset was refused: one a queue, the one that everything behind waits for."""
        self.total = 0

    @property
    def delivers(self) -> bool:
        """Whether damaged messages are consumed like others."""
        return self._action is OnDamaged.DELIVER

    async def sorted_out(
        self, queue: MessageQueue, messages: Sequence[ReceivedMessage]
    ) -> tuple[list[ReceivedMessage], ReceivedMessage | None]:
        """The messages that are to be consumed, and the first that could not be set aside yet: ask for it again.

        Nothing behind such a one is among them.
        """
        wanted: list[ReceivedMessage] = []
        for message in messages:
            if message.fault is None:
                wanted.append(message)
            elif not await self.set_aside(queue, message):
                return wanted, message
            elif self.delivers:
                wanted.append(message)
        return wanted, None

    async def set_aside(self, queue: MessageQueue, message: ReceivedMessage) -> bool:
        """Do with it what the settings say; False when that has to be tried again."""
        message.broker_name = queue.broker_name
        if self._action is OnDamaged.DEAD_LETTER and not await self._bury(queue, message):
            return False
        self._tell(queue, message, self._action)
        return True

    def left_out(self, queue: MessageQueue, offsets: Sequence[int]) -> None:
        """The broker says that it has no readable record at these offsets of a queue."""
        for offset in offsets:
            fault = "the broker left it out: its record is broken beyond recognition; its log says where it is"
            self._tell(queue, ReceivedMessage(queue.topic, b"", {}, queue_offset=offset, fault=fault), OnDamaged.SKIP)

    async def _bury(self, queue: MessageQueue, message: ReceivedMessage) -> bool:
        try:
            await self._retry.bury(message, queue.topic)
        except ClientError as error:
            offset, times = self._refused.get(queue, (-1, 0))
            times = times + 1 if offset == message.queue_offset else 1
            self._refused[queue] = message.queue_offset, times
            if times < MAX_ATTEMPTS:
                log.warning(
                    "the damaged message at %s cannot be made a dead letter yet and holds up its queue: %s",
                    _place(queue, message), error,
                )  # fmt: skip
                return False
            log.error(  # noqa: TRY400 - the error says it all
                "the damaged message at %s is no dead letter: %d attempts failed, the last with: %s. "
                "It is passed over and stays in the broker's log", _place(queue, message), times, error,
            )  # fmt: skip
        self._refused.pop(queue, None)
        return True

    def _tell(self, queue: MessageQueue, message: ReceivedMessage, action: OnDamaged) -> None:
        self.total += 1
        fault = message.fault or ""
        log.warning("damaged message at %s (%s): %s", _place(queue, message), action, fault)
        context = DamageContext(group=self._group, queue=queue, message=message, fault=fault, action=action)
        run_hooks(self._hooks, lambda hook: hook.damaged(context), "damage")


def _place(queue: MessageQueue, message: ReceivedMessage) -> str:
    return (
        f"offset {message.queue_offset} of queue {queue.queue_id} of {queue.topic} on {queue.broker_name}, "
        f"log offset {message.physical_offset}"
    )
