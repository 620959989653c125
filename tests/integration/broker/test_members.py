"""What members of a consumer group are told, and what becomes of the locks of one that goes away."""

import asyncio
from pathlib import Path

from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.callbacks import NotifyConsumerIdsChangedHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.message import MessageQueue
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
        answer = await broker.core.client.call(broker.config.namesrv_addr[0], request, TIMEOUT)
        assert answer.code == ResponseCode.SUCCESS


async def lock(peer: Peer, client_id: str, queue: MessageQueue, *, tied: bool = False) -> bool:
    """Whether the client has the queue now."""
    body = LockBatchRequest(client_id=client_id, consumer_group="g", mq_set=[queue]).encode()
    ext = {"endsWithConnection": "true"} if tied else None
    answer = await peer.call(RequestCode.LOCK_BATCH_MQ, body=body, ext=ext)
    return queue in LockBatchResponse.decode(answer.body).lock_ok_mq_set


async def test_a_lock_ends_with_the_connection_of_a_client_that_asked_for_that(tmp_path: Path) -> None:
    async with standalone(tmp_path, queue_lock_grace_time="50") as (broker, peer):
        await peer.stored("orders")
        await peer.heartbeat("two", consumer=consumer_of("g", "orders"))
        queue = MessageQueue("orders", broker.config.broker_name, 0)
        async with Peer(peer.address) as dead:
            await dead.heartbeat("one", consumer=consumer_of("g", "orders"))
            assert await lock(dead, "one", queue, tied=True)
            assert not await lock(peer, "two", queue)
        async with asyncio.timeout(TIMEOUT):  # a lock that is not renewed lasts twice as long
            while not await lock(peer, "two", queue):  # noqa: ASYNC110 - nobody is told when a lock is free
                await asyncio.sleep(0.01)


async def test_a_lock_of_another_client_outlives_its_connection(tmp_path: Path) -> None:
    async with standalone(tmp_path, queue_lock_grace_time="0") as (broker, peer):
        await peer.stored("orders")
        await peer.heartbeat("two", consumer=consumer_of("g", "orders"))
        queue = MessageQueue("orders", broker.config.broker_name, 0)
        assert [await told(peer)] == ["g"]
        async with Peer(peer.address) as dropped:
            await dropped.heartbeat("one", consumer=consumer_of("g", "orders"))
            assert await told(peer) == "g"
            assert await lock(dropped, "one", queue)
        assert await told(peer) == "g"  # the broker saw the end
        assert not await lock(peer, "two", queue)
