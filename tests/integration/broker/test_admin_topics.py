"""Topic administration against a real broker: each request, what it refuses, and names that mean harm."""

from pathlib import Path

import pytest

from pyromq.protocol.bodies.groups import GroupList
from pyromq.protocol.bodies.stats import TopicStatsTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicConfigTable, TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    DeleteTopicInBrokerHeader,
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
    UpdateAndCreateTopicHeader,
)
from pyromq.protocol.message import MessageQueue
from tests.integration.broker.servers import Peer, consumer_of, routed, standalone

HOSTILE = ("../../etc", "a/b", "..", "a\x00b", "a b", "", "ü", "x" * 128, "$(reboot)")


def creation(topic: str, **changes: object) -> UpdateAndCreateTopicHeader:
    fields: dict[str, object] = {
        "topic": topic,
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "order": False,
    }
    return UpdateAndCreateTopicHeader(**(fields | changes))  # type: ignore[arg-type]  # tests name them by keyword


async def create(peer: Peer, topic: str, **changes: object) -> Command:
    return await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, creation(topic, **changes))


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_create_change_read_and_delete(tmp_path: Path) -> None:
    # P-54 P-60
    async with standalone(tmp_path) as (broker, peer):
        assert (await create(peer, "orders", read_queue_nums=3, write_queue_nums=2, order=True)).code == 0
        await routed(broker, "orders")
        answer = await peer.call(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic="orders"))
        config = TopicConfig.decode(answer.body)
        assert (config.read_queue_nums, config.write_queue_nums, config.perm, config.order) == (3, 2, 6, True)
        version = broker.core.topics.version
        assert (await create(peer, "orders", read_queue_nums=3, write_queue_nums=2, order=True)).code == 0
        assert broker.core.topics.version == version, "the same configuration again is no change"
        assert (await create(peer, "orders", perm=4)).code == 0
        assert broker.core.topics.version != version
        await peer.stored("orders")
        await peer.pull("orders", group="g")
        broker.core.offsets.commit("g", "orders", 0, 1)
        await create(peer, "%RETRY%g_orders", read_queue_nums=1, write_queue_nums=1)
        assert (
            await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic="orders"))
        ).code == 0
        assert "orders" not in broker.core.topics
        assert "%RETRY%g_orders" not in broker.core.topics
        assert broker.core.offsets.get("g", "orders", 0) is None
        assert (
            await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic="orders"))
        ).code == 0
    async with standalone(tmp_path) as (broker, _):
        assert "orders" not in broker.core.topics


async def test_a_deleted_topic_starts_afresh(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders", b"old")
        await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic="orders"))
        assert (await peer.stored("orders", b"new")).queue_offset == 0
        assert [message.body for message in await peer.messages("orders")] == [b"new"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"read_queue_nums": -1}, ResponseCode.INVALID_PARAMETER),
        ({"write_queue_nums": 1_000_000}, ResponseCode.INVALID_PARAMETER),
        ({"perm": 8}, ResponseCode.INVALID_PARAMETER),
        ({"perm": -1}, ResponseCode.INVALID_PARAMETER),
        ({"topic_filter_type": "NO_SUCH_TYPE"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+message.type=ODD"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+unknown=1"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "message.type"}, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_bad_topic_settings_are_refused(tmp_path: Path, changes: dict[str, object], code: int) -> None:
    async with standalone(tmp_path, enable_mixed_message_type="false") as (broker, peer):
        answer = await create(peer, "orders", **changes)
        assert answer.code == code, answer.remark
        assert answer.remark
        assert "orders" not in broker.core.topics


async def test_system_topics_are_neither_changed_nor_deleted(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        for topic in ("TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"):
            before = broker.core.topics.get(topic)
            assert (await create(peer, topic)).code == ResponseCode.INVALID_PARAMETER
            answer = await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic=topic))
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert broker.core.topics.get(topic) == before


async def test_hostile_names_reach_no_path(tmp_path: Path) -> None:
    # P-60
    async with standalone(tmp_path / "data") as (broker, peer):
        await peer.stored("orders")
        for name in HOSTILE:
            assert (await create(peer, name)).code == ResponseCode.INVALID_PARAMETER, name
            deleted = await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic=name))
            assert deleted.code == ResponseCode.INVALID_PARAMETER, name
            listed = TopicConfigList(topic_config_list=[TopicConfig(topic_name="fine"), TopicConfig(topic_name=name)])
            answer = await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=listed.encode())
            assert answer.code == ResponseCode.INVALID_PARAMETER, name
            assert "fine" not in broker.core.topics, "a list is taken whole or not at all"
            assert (await peer.send(name)).code == ResponseCode.INVALID_PARAMETER, name
            assert (await peer.pull(name)).code == ResponseCode.TOPIC_NOT_EXIST, name
            stats = await peer.call(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoHeader(topic=name))
            assert stats.code == ResponseCode.TOPIC_NOT_EXIST, name
    assert names_in(tmp_path) == ["data"]
    assert names_in(tmp_path / "data" / "consumequeue") == ["orders"]


async def test_attributes_are_added_and_removed(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await create(peer, "orders", attributes="+message.type=FIFO")
        orders = broker.core.topics.get("orders")
        assert orders is not None
        assert orders.attributes == {"message.type": "FIFO"}
        assert (await create(peer, "orders", attributes="-message.type")).code == ResponseCode.SUCCESS
        orders = broker.core.topics.get("orders")
        assert orders is not None
        assert orders.attributes == {}
        removal = TopicConfig(topic_name="orders", attributes={"+message.type": "DELAY"})
        body = TopicConfigList(topic_config_list=[removal]).encode()
        assert (await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code == ResponseCode.SUCCESS
        orders = broker.core.topics.get("orders")
        assert orders is not None
        assert orders.attributes == {"message.type": "DELAY"}
        removal = TopicConfig(topic_name="orders", attributes={"-message.type": ""})
        body = TopicConfigList(topic_config_list=[removal]).encode()
        assert (await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code == ResponseCode.SUCCESS
        orders = broker.core.topics.get("orders")
        assert orders is not None
        assert orders.attributes == {}


async def test_many_topics_at_once_and_all_of_them(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        wanted = [TopicConfig(topic_name=f"t{n}", read_queue_nums=1, write_queue_nums=1) for n in range(50)]
        body = TopicConfigList(topic_config_list=wanted).encode()
        counter = broker.core.topics.version.counter
        assert (await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code == ResponseCode.SUCCESS
        assert broker.core.topics.version.counter == counter + 1
        await routed(broker, *(f"t{n}" for n in range(50)))
        everything = TopicConfigTable.decode((await peer.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        assert everything.topic_config_table.keys() == {topic.topic_name for topic in broker.core.topics}
        seen: list[str] = []
        while True:
            header = GetAllTopicConfigHeader(topic_seq=len(seen), max_topic_num=20)
            answer = await peer.call(RequestCode.GET_ALL_TOPIC_CONFIG, header)
            page = TopicConfigTable.decode(answer.body).topic_config_table
            seen += page
            assert len(page) <= 20
            if len(seen) == answer.header(GetAllTopicConfigResponseHeader).total_topic_num:
                break
        assert seen == list(everything.topic_config_table)
        odd = await peer.call(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigHeader(topic_seq=-3, max_topic_num=-1))
        assert odd.code == ResponseCode.INVALID_PARAMETER


async def test_statistics_and_consumers_of_a_topic(tmp_path: Path) -> None:
    # N-07
    async with standalone(tmp_path) as (broker, peer):
        for _ in range(3):
            await peer.stored("orders")
        answer = await peer.call(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoHeader(topic="orders"))
        table = TopicStatsTable.decode(answer.body).offset_table
        assert len(table) == 4
        first = table[MessageQueue("orders", "broker-a", 0)]
        assert (first.min_offset, first.max_offset) == (0, 3)
        assert first.last_update_timestamp > 0
        assert table[MessageQueue("orders", "broker-a", 1)].max_offset == 0
        await peer.heartbeat("c1", consumer=consumer_of("live", "orders"))
        broker.core.offsets.commit("gone", "orders", 0, 1)
        who = await peer.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoHeader(topic="orders"))
        assert GroupList.decode(who.body).group_list == ["gone", "live"]
        nobody = await peer.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoHeader(topic="none"))
        assert GroupList.decode(nobody.body).group_list == []


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        one = await peer.call(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic="missing"))
        stats = await peer.call(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoHeader(topic="missing"))
        for answer in (one, stats):
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
            assert "missing" in str(answer.remark)
        headless = await peer.call(RequestCode.GET_TOPIC_CONFIG)
        assert headless.code == ResponseCode.SYSTEM_ERROR
        assert "topic" in str(headless.remark)


async def test_the_system_topics_are_listed(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders")
        topics = TopicList.decode((await peer.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body).topic_list
        assert {"TBW102", "broker-a", "DefaultCluster", "RMQ_SYS_TRANS_HALF_TOPIC"} <= set(topics)
        assert "orders" not in topics
