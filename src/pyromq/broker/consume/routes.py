"""Queues of a topic on all brokers of the cluster, as the name servers tell; remembered for a while."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyromq.errors import PyroMQError
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import topic_route
from pyromq.protocol.routes import readable_queues
from pyromq.remoting.client import Client
from pyromq.remoting.connect.nameservers import NameServers

log = logging.getLogger(__name__)

MAX_AGE_MS = 5_000
MAX_TOPICS = 10_000
TIMEOUT = 3.0

Queues = tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    queues: Queues | None
    at: int


class TopicRoutes:
    """Asks the name servers in turn; whoever asks for the same topic meanwhile shares the answer."""

    def __init__(self, client: Client, name_servers: tuple[str, ...], clock: Callable[[], int]) -> None:
        self._name_servers = NameServers(client, name_servers)
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[Queues | None]] = {}

    async def queues(self, topic: str) -> Queues | None:
        """The readable queues of the topic, sorted; None when there is no such topic or no name server answers."""
        known = self._known.get(topic)
        if known is not None and self._clock() - known.at < MAX_AGE_MS:
            return known.queues
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.get_running_loop().create_task(self._ask(topic))
            task.add_done_callback(lambda _task: self._asking.pop(topic, None))
        return await asyncio.shield(task)

    async def _ask(self, topic: str) -> Queues | None:
        request = topic_route(topic)
        try:
            answer = await self._name_servers.call(request.command, TIMEOUT)
            if request.is_answer(answer):
                route = request.read(answer)
                queues = None if route is None else tuple(sorted(readable_queues(topic, route)))
                return self._remember(topic, queues)
            log.warning("name server %s has no route to %s: %s", self._name_servers.current, topic, answer.remark)
        except PyroMQError as error:
            log.warning("no name server was asked for the route to %s: %s", topic, error)
        stale = self._known.get(topic)
        return stale.queues if stale is not None else None

    def _remember(self, topic: str, queues: Queues | None) -> Queues | None:
        self._known.pop(topic, None)
        if len(self._known) >= MAX_TOPICS:
            del self._known[next(iter(self._known))]
        self._known[topic] = _Known(queues, self._clock())
        return queues
