"""Telling users when a topic gets or loses queues."""

import logging
from collections.abc import Callable

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.member import Member
from pyromq.client.errors import ClientError
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import MessageQueue

log = logging.getLogger(__name__)

TopicListener = Callable[[str, set[MessageQueue]], object]
"""Called with a topic and its queues when their set changed."""


class QueueWatch:
    """The topics (names on the wire) that are watched, and their queues when they were last looked at."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[TopicListener, set[MessageQueue] | None]] = {}

    def add(self, topic: str, listener: TopicListener) -> None:
        self._listeners[topic] = (listener, None)

    async def check(self, member: Member[PullConfig]) -> None:
        """Look once."""
        for topic, (listener, known) in list(self._listeners.items()):
            try:
                queues = set(await member.queues_of(topic))
            except ClientError as error:
                log.warning("queues of topic %s not learned: %s", topic, error)
                continue
            if queues == known:
                continue
            self._listeners[topic] = (listener, queues)
            if known is None:
                continue
            try:
                shown = {member.user_queue(queue) for queue in queues}
                listener(namespaces.unwrap(topic, member.namespace or ""), shown)
            except Exception:
                log.exception("a topic listener failed")
