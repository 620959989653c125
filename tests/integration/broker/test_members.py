"""What members of a consumer group are told, and what becomes of the locks of one that goes away."""

import asyncio
from pathlib import Path

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import GetRouteInfoByTopicHeader, NotifyConsumerIdsChangedHeader
from pyromq.protocol.names import retry_topic
from tests.integration.broker.servers import TIMEOUT, Peer, consumer_of, standalone


async def told(peer: Peer) -> str:
    """The group that the next notice is about."""
    notice = await asyncio.wait_for(peer.received.get(), TIMEOUT)
    return notice.header(NotifyConsumerIdsChangedHeader).consumer_group


async def test_members_are_told_when_a_topic_they_wait_for_has_a_route(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.heartbeat("me", consumer=consumer_of("g", "later", retry_topic("g")))
        assert [await told(peer), await told(peer)] == ["g", "g"]  # it joined, and its retry topic has a route
        await peer.stored("other")
        await peer.stored("later")
        assert await told(peer) == "g"
        assert peer.received.empty()
        request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic="later"))
        answer = await broker.client.call(broker.config.namesrv_addr[0], request, TIMEOUT)
        assert answer.code == ResponseCode.SUCCESS
