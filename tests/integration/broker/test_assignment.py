"""Assignment of queues by the broker: over all brokers of the cluster, in pull and in pop mode."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.protocol.bodies.enums import MessageModel, MessageRequestMode
from pyromq.protocol.bodies.queues import (
    MessageRequestModeTable,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
)
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import DeleteTopicInBrokerHeader
from tests.integration.broker.servers import Peer, consumer_of, routed, standalone


@asynccontextmanager
async def cluster(path: Path) -> AsyncIterator[tuple[Broker, Peer]]:
    """Two brokers with two queues each of `orders`."""
    async with standalone(path / "a") as (first, peer):
        config = BrokerConfig(
            listen_port=0,
            broker_name="broker-b",
            store_path_root_dir=path / "b",
            namesrv_addr=first.config.namesrv_addr,
        )
        second = Broker(config)
        await second.start()
        try:
            for broker in (first, second):
                await broker.core.topics.put(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
                await routed(broker, "orders")
            # Both brokers announce it on their own; the route is whole once the second one is in it too.
            await second.core.topics.put(TopicConfig(topic_name="later", read_queue_nums=1, write_queue_nums=1))
            await routed(second, "later")
            yield first, peer
        finally:
            await second.stop()


async def assigned(peer: Peer, client: str, topic: str = "orders", **changes: object) -> list[tuple[str, int]] | None:
    fields: dict[str, object] = {"client_id": client, "consumer_group": "g", "topic": topic} | changes
    request = QueryAssignmentRequest(**fields)  # type: ignore[arg-type]  # tests name them by keyword
    answer = await peer.call(RequestCode.QUERY_ASSIGNMENT, body=request.encode())
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assignments = QueryAssignmentResponse.decode(answer.body).message_queue_assignments
    if assignments is None:
        return None
    return [(each.message_queue.broker_name, each.message_queue.queue_id) for each in assignments]


async def set_mode(peer: Peer, **changes: object) -> Command:
    fields: dict[str, object] = {"topic": "orders", "consumer_group": "g", "mode": MessageRequestMode.POP} | changes
    body = SetMessageRequestMode(**fields)  # type: ignore[arg-type]  # tests name them by keyword
    return await peer.call(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.encode())


async def test_queues_of_all_brokers_are_shared_out(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (broker, peer), Peer(broker.address) as other:
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        await other.heartbeat("c2", consumer=consumer_of("g", "orders"))
        assert await assigned(peer, "c1") == [("broker-a", 0), ("broker-a", 1)]
        assert await assigned(peer, "c2") == [("broker-b", 0), ("broker-b", 1)]
        assert await assigned(peer, "c1", strategy_name="AVG_BY_CIRCLE") == [("broker-a", 0), ("broker-b", 0)]
        assert await assigned(peer, "c2", strategy_name="AVG_BY_CIRCLE") == [("broker-a", 1), ("broker-b", 1)]
        everything = [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
        assert await assigned(peer, "c1", message_model=MessageModel.BROADCASTING) == everything
        assert await assigned(peer, "stranger") == []
        broker.config.server_load_balancer_enable = False
        assert await assigned(peer, "c1") == everything


async def test_what_nobody_can_tell_keeps_the_assignment(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, peer):
        assert await assigned(peer, "c1", "missing") is None
        assert await assigned(peer, "c1") is None, "no heartbeat of the group arrived yet"
        request = QueryAssignmentRequest(client_id="c1", consumer_group="g", topic="orders", strategy_name="ODD")
        answer = await peer.call(RequestCode.QUERY_ASSIGNMENT, body=request.encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "AVG" in str(answer.remark)


async def test_pop_mode_shares_queues(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (broker, peer):
        peers = [Peer(broker.address) for _ in range(6)]
        for number, each in enumerate(peers[:4]):
            await each.heartbeat(f"c{number}", consumer=consumer_of("g", "orders"))
        assert (await set_mode(peer)).code == ResponseCode.SUCCESS
        assert await assigned(peer, "c0") == [("broker-a", -1), ("broker-b", -1)]
        await set_mode(peer, pop_share_queue_num=1)
        assert await assigned(peer, "c0") == [("broker-a", 0), ("broker-a", 1)]
        assert await assigned(peer, "c3") == [("broker-b", 1), ("broker-a", 0)]
        await set_mode(peer, pop_share_queue_num=3)
        assert await assigned(peer, "c0") == [("broker-a", -1), ("broker-b", -1)]
        await peers[4].heartbeat("c4", consumer=consumer_of("g", "orders"))
        await set_mode(peer, pop_share_queue_num=1)
        assert await assigned(peer, "c4") == [("broker-a", 0)], "more members than queues: round and round"
        for each in peers:
            await each.__aexit__(None, None, None)


async def test_modes_are_kept_listed_and_refused(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        cases = [
            ({"topic": "%RETRY%g"}, ResponseCode.NO_PERMISSION),
            ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
            ({"consumer_group": "missing"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ]
        for changes, code in cases:
            assert (await set_mode(peer, **changes)).code == code, changes
        await peer.pull("orders", group="g")
        assert (await set_mode(peer, pop_share_queue_num=2)).code == ResponseCode.SUCCESS
    async with standalone(tmp_path) as (broker, peer):
        answer = await peer.call(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        table = MessageRequestModeTable.decode(answer.body).message_request_mode_map
        assert table["orders"]["g"].pop_share_queue_num == 2
        await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic="orders"))
        assert broker.core.tables.modes.table().message_request_mode_map == {}
