"""Group administration against a real broker: each request, what it refuses, and names that mean harm."""

from pathlib import Path

import pytest

from pyromq.protocol.bodies.groups import (
    GroupForbidden,
    GroupSubscription,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    DeleteSubscriptiongroupHeader,
    GetAllSubscriptiongroupConfigHeader,
    GetAllSubscriptiongroupConfigResponseHeader,
    GetSubscriptiongroupConfigHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
    UpdateAndGetGroupForbiddenHeader,
)
from tests.integration.broker.servers import Peer, consumer_of, standalone

HOSTILE = ("../../etc", "a/b", "..", "a\x00b", "a b", "", "ü", "x" * 121)


async def create(peer: Peer, name: str, **changes: object) -> Command:
    config = SubscriptionGroupConfig(group_name=name, **changes)  # type: ignore[arg-type]  # tests name them by keyword
    return await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())


async def test_create_change_read_and_delete(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        assert (await create(peer, "g", retry_max_times=3, consume_broadcast_enable=False)).code == ResponseCode.SUCCESS
        version = broker.core.groups.version
        assert (await create(peer, "g", retry_max_times=3, consume_broadcast_enable=False)).code == ResponseCode.SUCCESS
        assert broker.core.groups.version == version, "the same configuration again is no change"
        header = GetSubscriptiongroupConfigHeader(group="g")
        found = SubscriptionGroupConfig.decode((await peer.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)).body)
        assert (found.retry_max_times, found.consume_broadcast_enable) == (3, False)
        broker.core.offsets.commit("g", "orders", 0, 5)
        deletion = DeleteSubscriptiongroupHeader(group_name="g")
        assert (await peer.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, deletion)).code == ResponseCode.SUCCESS
        assert "g" not in broker.core.groups
        assert broker.core.offsets.get("g", "orders", 0) == 5, "offsets stay unless cleanOffset says otherwise"
        deletion = DeleteSubscriptiongroupHeader(group_name="g", clean_offset=True)
        assert (await peer.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, deletion)).code == ResponseCode.SUCCESS
        assert broker.core.offsets.get("g", "orders", 0) is None
        missing = await peer.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert missing.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    async with standalone(tmp_path) as (broker, _):
        assert "g" not in broker.core.groups


@pytest.mark.parametrize("changes", [{"retry_queue_nums": -1}, {"retry_queue_nums": 2**30}, {"retry_max_times": -2}])
async def test_bad_group_settings_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    async with standalone(tmp_path) as (broker, peer):
        answer = await create(peer, "g", **changes)
        assert answer.code == ResponseCode.INVALID_PARAMETER, answer.remark
        assert "g" not in broker.core.groups


async def test_hostile_names_are_refused(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        known = len(broker.core.groups)
        for name in HOSTILE:
            assert (await create(peer, name)).code == ResponseCode.INVALID_PARAMETER, name
            both = [SubscriptionGroupConfig(group_name="fine"), SubscriptionGroupConfig(group_name=name)]
            body = SubscriptionGroupList(group_config_list=both).encode()
            answer = await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
            assert answer.code == ResponseCode.INVALID_PARAMETER, name
        assert len(broker.core.groups) == known, "a list is taken whole or not at all"
        for bad in (b"", b"[", b'{"groupName":7}', b"\xff\xfe"):
            answer = await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=bad)
            assert answer.code != ResponseCode.SUCCESS, bad
            assert answer.remark
        assert len(broker.core.groups) == known


async def test_many_groups_at_once_and_all_of_them(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        wanted = [SubscriptionGroupConfig(group_name=f"g{n}") for n in range(30)]
        body = SubscriptionGroupList(group_config_list=wanted).encode()
        answer = await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
        assert answer.code == ResponseCode.SUCCESS
        answer = await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        everything = SubscriptionGroupTable.decode(answer.body)
        assert everything.subscription_group_table.keys() == {group.group_name for group in broker.core.groups}
        assert everything.data_version == broker.core.groups.version
        header = GetAllSubscriptiongroupConfigHeader(group_seq=5, max_group_num=10)
        answer = await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
        page = SubscriptionGroupTable.decode(answer.body).subscription_group_table
        assert list(page) == list(everything.subscription_group_table)[5:15]
        total = answer.header(GetAllSubscriptiongroupConfigResponseHeader).total_group_num
        assert total == len(broker.core.groups)
        odd = GetAllSubscriptiongroupConfigHeader(group_seq=-1)
        answer = await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, odd)
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_a_topic_is_forbidden_to_a_group_and_allowed_again(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await create(peer, "g")
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))

        async def forbid(group: str, topic: str, *, readable: bool | None) -> Command:
            header = UpdateAndGetGroupForbiddenHeader(group=group, topic=topic, readable=readable)
            return await peer.call(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)

        for readable, pulls in ((None, 0), (False, 16), (None, 16), (True, 0)):
            answer = GroupForbidden.decode((await forbid("g", "orders", readable=readable)).body)
            assert answer.readable is (pulls == 0)
            assert (await peer.pull("orders", tags=None)).code == pulls
        assert (await forbid("no", "orders", readable=None)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await forbid("g", "no", readable=None)).code == ResponseCode.TOPIC_NOT_EXIST
        await forbid("g", "orders", readable=False)
    async with standalone(tmp_path) as (broker, _):
        assert broker.core.groups.is_forbidden("g", "orders")


async def test_topics_and_subscription_of_a_group(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        broker.core.offsets.commit("g", "orders", 0, 1)
        broker.core.offsets.commit("g", "bills", 0, 1)
        answer = await peer.call(RequestCode.QUERY_TOPICS_BY_CONSUMER, QueryTopicsByConsumerHeader(group="g"))
        topics = TopicList.decode(answer.body)
        assert (topics.topic_list, topics.broker_addr) == (["bills", "orders"], broker.address)
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders", version=7))
        header = QuerySubscriptionByConsumerHeader(group="g", topic="orders")
        answer = await peer.call(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        subscription = GroupSubscription.decode(answer.body).subscription_data
        assert subscription is not None
        assert subscription.sub_version == 7
        header = QuerySubscriptionByConsumerHeader(group="nobody", topic="orders")
        answer = await peer.call(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        assert GroupSubscription.decode(answer.body).subscription_data is None


async def test_a_pull_with_its_own_expression_is_forbidden_too(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await create(peer, "g")
        await broker.core.groups.forbid("g", "orders", readable=False)
        assert (await peer.pull("orders", tags="*")).code == ResponseCode.SUCCESS, "as Apache's broker has it"
