"""Other masters of the cluster that take messages of a topic, as the name servers tell; remembered for a while."""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyromq.broker.config import BrokerConfig
from pyromq.errors import PyroMQError
from pyromq.protocol.requests import Request, cluster_info, topic_route
from pyromq.protocol.routes import MASTER_ID, is_writable, masters
from pyromq.remoting.client import Client
from pyromq.remoting.connect.nameservers import NameServers

log = logging.getLogger(__name__)

T = TypeVar("T")

CALL_TIMEOUT = 3.0
MAX_AGE_MS = 5_000
MAX_TOPICS = 1_000


@dataclass(frozen=True, slots=True)
class OtherMaster:
    """Where a message may go."""

    address: str
    queues: int


class OtherMasters:
    """What the name servers know of them."""

    def __init__(self, config: BrokerConfig, client: Client, clock: Callable[[], int]) -> None:
        self._config = config
        self._name_servers = NameServers(client, config.namesrv_addr)
        self._clock = clock
        self._turn = itertools.count()
        self._known: dict[str, tuple[int, list[OtherMaster]]] = {}

    async def of(self, topic: str) -> list[OtherMaster]:
        """Those that have the topic; without any, all others, which may make it. Each in turn comes first."""
        at, targets = self._known.get(topic, (0, []))
        if not targets or self._clock() - at >= MAX_AGE_MS:
            targets = await self._ask_all(topic)
            if len(self._known) >= MAX_TOPICS:
                self._known.clear()
            self._known[topic] = self._clock(), targets
        first = next(self._turn) % max(1, len(targets))
        return targets[first:] + targets[:first]

    def forget(self, topic: str) -> None:
        """What is known of a topic did not hold."""
        self._known.pop(topic, None)

    async def _ask_all(self, topic: str) -> list[OtherMaster]:
        try:
            return await self._having(topic) or await self._any()
        except PyroMQError as error:
            log.debug("the name servers do not know other masters: %s", error)
            return []

    async def _having(self, topic: str) -> list[OtherMaster]:
        route = await self._ask(topic_route(topic))
        if route is None:
            return []
        known = masters(route.broker_datas)
        # A slave that acts for its master is shown as one, too, but its queues are not writable.
        return [
            OtherMaster(address, max(1, queues.write_queue_nums))
            for queues in route.queue_datas
            if queues.broker_name != self._config.broker_name
            and is_writable(queues.perm)
            and (address := known.get(queues.broker_name))
        ]

    async def _any(self) -> list[OtherMaster]:
        info = await self._ask(cluster_info())
        if info is None:
            return []
        return [
            OtherMaster(address, 1)
            for each in info.broker_addr_table.values()
            if each.broker_name != self._config.broker_name
            and each.cluster == self._config.broker_cluster_name
            and (address := each.broker_addrs.get(MASTER_ID))
        ]

    async def _ask(self, request: Request[T]) -> T | None:
        answer = await self._name_servers.call(request.command, CALL_TIMEOUT)
        return request.read(answer) if request.is_answer(answer) else None
