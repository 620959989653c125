"""`Outlet`: the writable queues of a topic, and whose turn is next.

Plain messages go to one queue after the other. Those of a group stay together: its queue follows from the group's name
and the number of queues alone, by the consistent hash that RocketMQ's own proxy uses, so that all proxies agree.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from random import randrange
from typing import Final

from pyromq.protocol.message import MessageQueue
from pyromq.protocol.records.tags import java_hash
from pyromq.protocol.routes import MAX_QUEUES
from pyromq.proxy.schema.enums import Code, MessageType
from pyromq.proxy.status import Refusal

_FACTOR: Final = 2862933555777941757
_MASK: Final = 2**64 - 1


class Outlet:
    """Where messages of a topic go until `expires`, a monotonic time."""

    __slots__ = ("_queues", "accepts", "expires", "topic", "turn")

    def __init__(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        accepts: Collection[MessageType] | None,
        expires: float,
        turn: Iterator[int] | None = None,
    ) -> None:
        """`accepts` are the types of messages that the topic takes, None for all.

        `turn` is that of the outlet before this one: topics with little traffic use all of their queues, too.
        """
        self.topic = topic
        self.accepts = accepts
        self.expires = expires
        self._queues = sorted(queues)
        self.turn = turn or count(randrange(MAX_QUEUES))

    def takes(self, kind: MessageType) -> bool:
        """Whether messages of a type belong here."""
        return self.accepts is None or kind in self.accepts

    def check(self, kind: MessageType) -> None:
        """Raises Refusal for a type that the topic does not take."""
        if not self.takes(kind):
            takes = " and ".join(each.name for each in self.accepts or ())
            raise Refusal(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"this is a {kind.name} message, topic {self.topic!r} takes {takes} (its attribute message.type)",
            )

    def queue(self, without: Collection[str] = ()) -> MessageQueue | None:
        """The next one, not of the brokers named; None when there is no other."""
        queues = self._queues
        if without:
            queues = [queue for queue in queues if queue.broker_name not in without]
        return queues[next(self.turn) % len(queues)] if queues else None

    def queue_of(self, group: str) -> MessageQueue:
        """Where messages of a group go."""
        return self._queues[consistent_hash(java_hash(group), len(self._queues))]


def consistent_hash(number: int, buckets: int) -> int:
    """A bucket from 0 on; of those that move when a bucket is added, all move to the new one.

    >>> [consistent_hash(17, buckets) for buckets in (1, 2, 8)]
    [0, 1, 7]
    """
    state, bucket = number & _MASK, 0
    while True:
        state = (_FACTOR * state + 1) & _MASK
        following = int((bucket + 1) * (2.0**31 / ((state >> 33) + 1)))
        if not 0 <= following < buckets:
            return bucket
        bucket = following
