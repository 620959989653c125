"""`Catalogue`: how brokers have configured topics and groups, remembered for a while.

Routes do not say of what type the messages of a topic are, nor whether a group consumes in order; its brokers do.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import GetSubscriptiongroupConfigHeader, GetTopicConfigHeader
from pyromq.protocol.routes import masters
from pyromq.proxy.cluster.cluster import Cluster
from pyromq.proxy.status import refused_by
from pyromq.remoting.errors import RemotingError

K = TypeVar("K")
V = TypeVar("V")

KEPT_SECONDS: Final = 10.0
MAX_KEPT: Final = 10_000
TIMEOUT: Final = 3.0

_WITHOUT = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    }
)
"""Answers of brokers that have no configuration of their own to tell."""


class Catalogue:
    """What is not configured is as a new topic or group would be. Both methods raise Refusal and RemotingError."""

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._monotonic = monotonic
        self._topics: dict[str, tuple[float, TopicConfig]] = {}
        self._groups: dict[tuple[str, str], tuple[float, SubscriptionGroupConfig]] = {}

    async def topic(self, topic: str) -> TopicConfig:
        """A topic, as one of its brokers has it."""
        kept = self._topics.get(topic)
        if kept is not None and kept[0] > self._monotonic():
            return kept[1]
        body = await self._ask(topic, RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic=topic))
        found = TopicConfig.decode(body) if body else TopicConfig(topic_name=topic)
        _keep(self._topics, topic, self._monotonic(), found)
        return found

    async def group(self, group: str, topic: str) -> SubscriptionGroupConfig:
        """A group, as one of the brokers of a topic has it that it consumes."""
        kept = self._groups.get((group, topic))
        if kept is not None and kept[0] > self._monotonic():
            return kept[1]
        header = GetSubscriptiongroupConfigHeader(group=group)
        body = await self._ask(topic, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        found = SubscriptionGroupConfig.decode(body) if body else SubscriptionGroupConfig(group_name=group)
        _keep(self._groups, (group, topic), self._monotonic(), found)
        return found

    async def _ask(
        self, topic: str, code: RequestCode, header: GetTopicConfigHeader | GetSubscriptiongroupConfigHeader
    ) -> bytes:
        """What the first master that can be asked answers; empty when it has nothing, or there is none."""
        route = await self._cluster.route(topic)
        failure: RemotingError | None = None
        for broker in sorted(masters(route.broker_datas)) if route is not None else ():
            try:
                response = await self._cluster.ask(None, broker, Command.request(code, header), TIMEOUT)
            except RemotingError as error:
                failure = error
                continue
            if response.code in _WITHOUT:
                return b""
            if response.code != ResponseCode.SUCCESS:
                raise refused_by(response)
            return bytes(response.body)
        if failure is not None:
            raise failure
        return b""


def _keep(table: dict[K, tuple[float, V]], key: K, now: float, value: V) -> None:
    """The oldest go first: a name that comes again is written behind all others."""
    table.pop(key, None)
    while len(table) >= MAX_KEPT:
        del table[next(iter(table))]
    table[key] = now + KEPT_SECONDS, value
