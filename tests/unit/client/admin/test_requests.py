"""What admin calls put on the wire, for those whose effect no broker of ours shows."""

import asyncio

import pytest

from pyromq.client.errors import ClientError
from pyromq.protocol import javaproperties
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy, UserInfo
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.queues import SetMessageRequestMode
from pyromq.protocol.bodies.replication import EpochEntry, EpochEntryCache, HARuntimeInfo
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.headers.admin import (
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    ResumeCheckHalfMessageHeader,
    SetCommitlogReadModeHeader,
    UpdateAndCreateTopicHeader,
)
from pyromq.protocol.headers.auth import AuthDeleteAclHeader, AuthGetUserHeader
from pyromq.protocol.headers.replication import ResetMasterFlushOffsetHeader
from pyromq.protocol.lenient import dumps
from tests.unit.client.admin.cluster import AdminCluster, accept
from tests.unit.client.fakes import Answer


async def test_a_topic_is_asked_for_as_mqadmin_does() -> None:
    # P-54
    cluster = AdminCluster("broker-a", "broker-b")
    cluster.everywhere(RequestCode.UPDATE_AND_CREATE_TOPIC, accept)
    async with cluster.admin() as admin:
        await admin.create_topic("orders", attributes={"message.type": "FIFO", "reserve.time": None}, unit=True)
    sent = cluster.transport.sent(RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert sorted(address for address, _ in sent) == ["10.0.0.1:10911", "10.0.0.2:10911"]
    for _, command in sent:
        header = command.header(UpdateAndCreateTopicHeader)
        assert (header.read_queue_nums, header.write_queue_nums, header.perm) == (8, 8, 6)
        assert (header.default_topic, header.topic_filter_type, header.topic_sys_flag) == ("TBW102", "SINGLE_TAG", 1)
        assert header.attributes == "+message.type=FIFO,-reserve.time"


async def test_waiting_for_a_topic_asks_every_name_server_until_all_have_it() -> None:
    cluster = AdminCluster("broker-a", name_servers=("ns1:9876", "ns2:9876"))
    async with cluster.admin() as admin:
        waiting = asyncio.ensure_future(admin.wait_for_topic("orders"))
        await cluster.clock.advance(1)
        assert not waiting.done()
        cluster.add_topic("orders")
        await cluster.clock.advance(1)
        await waiting
        impatient = asyncio.ensure_future(admin.wait_for_topic("orders", brokers=2, seconds=3))
        await cluster.clock.advance(4)
        with pytest.raises(ClientError, match=r"not on 2 broker\(s\) at ns1:9876 \(1\), ns2:9876 \(1\)"):
            await impatient


async def test_tables_are_read_until_the_total_is_reached() -> None:
    cluster = AdminCluster("broker-a")
    topics = {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(5)}

    def answer(command: Command) -> Answer:
        header = command.header(GetAllTopicConfigHeader)
        assert header.topic_seq is not None
        assert header.max_topic_num == 2
        page = dict(list(topics.items())[header.topic_seq : header.topic_seq + 2])
        return command.reply(
            header=GetAllTopicConfigResponseHeader(total_topic_num=5),
            body=TopicConfigTable(topic_config_table=page).encode(),
        )

    cluster.everywhere(RequestCode.GET_ALL_TOPIC_CONFIG, answer)
    async with cluster.admin(page_size=2) as admin:
        assert (await admin.topic_configs())["broker-a"].topic_config_table == topics
    assert len(cluster.transport.sent(RequestCode.GET_ALL_TOPIC_CONFIG)) == 3


async def test_a_broker_that_knows_no_pages_is_asked_once() -> None:
    cluster = AdminCluster("broker-a")
    groups = {f"g{number}": SubscriptionGroupConfig(group_name=f"g{number}") for number in range(5)}
    whole = SubscriptionGroupTable(subscription_group_table=groups).encode()
    cluster.everywhere(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, lambda command: command.reply(body=whole))
    async with cluster.admin(page_size=2) as admin:
        assert await admin.groups() == sorted(groups)
    assert len(cluster.transport.sent(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)) == 1


async def test_the_request_mode_of_a_group() -> None:
    cluster = AdminCluster("broker-a")
    cluster.everywhere(RequestCode.SET_MESSAGE_REQUEST_MODE, accept)
    async with cluster.admin() as admin:
        await admin.set_request_mode("g", "orders", MessageRequestMode.POP, share_queues=8)
    ((_, command),) = cluster.transport.sent(RequestCode.SET_MESSAGE_REQUEST_MODE)
    assert SetMessageRequestMode.decode(command.body) == SetMessageRequestMode(
        consumer_group="g", topic="orders", mode=MessageRequestMode.POP, pop_share_queue_num=8
    )


async def test_replication_and_epochs() -> None:
    cluster = AdminCluster("broker-a")
    state = HARuntimeInfo(master=True, master_commit_log_max_offset=9)
    epochs = EpochEntryCache(broker_name="broker-a", epoch_list=[EpochEntry(epoch=1)])
    cluster.everywhere(RequestCode.GET_BROKER_HA_STATUS, lambda command: command.reply(body=state.encode()))
    cluster.everywhere(RequestCode.GET_BROKER_EPOCH_CACHE, lambda command: command.reply(body=epochs.encode()))
    cluster.everywhere(RequestCode.RESET_MASTER_FLUSH_OFFSET, accept)
    async with cluster.admin() as admin:
        assert await admin.ha_status() == {"broker-a": state}
        assert await admin.broker_epochs() == {"broker-a": epochs}
        await admin.reset_master_flush_offset("10.0.0.1:10911", 77)
    ((_, command),) = cluster.transport.sent(RequestCode.RESET_MASTER_FLUSH_OFFSET)
    assert command.header(ResetMasterFlushOffsetHeader).master_flush_offset == 77


async def test_cold_data_and_reading_ahead() -> None:
    cluster = AdminCluster("broker-a")
    for code in (
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.SET_COMMITLOG_READ_MODE,
    ):
        cluster.everywhere(code, accept)
    cluster.everywhere(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, lambda command: command.reply(body=b"{}"))
    async with cluster.admin() as admin:
        assert await admin.set_cold_data_limits({"g": 1024}) == ["broker-a"]
        assert await admin.remove_cold_data_limit("g") == ["broker-a"]
        assert await admin.cold_data_info() == {"broker-a": "{}"}
        assert await admin.set_read_ahead(enabled=False) == ["broker-a"]
    ((_, update),) = cluster.transport.sent(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
    assert javaproperties.loads(bytes(update.body).decode()) == {"g": "1024"}
    ((_, remove),) = cluster.transport.sent(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG)
    assert bytes(remove.body) == b"g"
    ((_, mode),) = cluster.transport.sent(RequestCode.SET_COMMITLOG_READ_MODE)
    assert mode.header(SetCommitlogReadModeHeader).read_ahead_mode == 1


async def test_a_half_message_is_resumed_where_it_is_stored() -> None:
    cluster = AdminCluster("broker-a", "broker-b")
    cluster.everywhere(RequestCode.RESUME_CHECK_HALF_MESSAGE, accept)
    place = offset_message_id("10.0.0.2", 10911, 512)
    async with cluster.admin() as admin:
        await admin.resume_half_message("orders", place)
    ((address, command),) = cluster.transport.sent(RequestCode.RESUME_CHECK_HALF_MESSAGE)
    assert address == "10.0.0.2:10911"
    assert command.header(ResumeCheckHalfMessageHeader).msg_id == place


async def test_users_and_rules() -> None:
    cluster = AdminCluster("broker-a", "broker-b")
    kept = UserInfo(username="ann", user_type="Normal", user_status="enable")
    rule = AclInfo(
        subject="User:ann",
        policies=[
            AclPolicy(policy_type="Custom", entries=[AclEntry(resource="Topic:t*", actions=["Pub"], decision="Allow")])
        ],
    )
    for code in (
        RequestCode.AUTH_CREATE_USER,
        RequestCode.AUTH_UPDATE_USER,
        RequestCode.AUTH_DELETE_USER,
        RequestCode.AUTH_CREATE_ACL,
        RequestCode.AUTH_UPDATE_ACL,
        RequestCode.AUTH_DELETE_ACL,
    ):
        cluster.everywhere(code, accept)

    def get_user(command: Command) -> Answer:
        known = command.header(AuthGetUserHeader).username == "ann"
        return command.reply(body=kept.encode() if known else b"")

    cluster.everywhere(RequestCode.AUTH_GET_USER, get_user)
    cluster.everywhere(RequestCode.AUTH_LIST_USER, lambda command: command.reply(body=dumps([kept])))
    cluster.everywhere(RequestCode.AUTH_GET_ACL, lambda command: command.reply(body=rule.encode()))
    cluster.everywhere(RequestCode.AUTH_LIST_ACL, lambda command: command.reply(body=dumps([rule])))
    async with cluster.admin() as admin:
        await admin.create_user("ann", "secret", cluster="C")
        await admin.update_user(UserInfo(username="ann", user_status="disable"))
        assert await admin.user("ann", broker="broker-a") == kept
        assert await admin.user("bob", broker="broker-a") is None
        assert await admin.users(broker="broker-b") == [kept]
        await admin.create_acl(rule)
        await admin.update_acl(rule)
        assert await admin.acl("User:ann", broker="broker-a") == rule
        assert await admin.acls(broker="broker-a", subject_contains="ann") == [rule]
        await admin.delete_acl("User:ann", resource="Topic:t*")
        await admin.delete_user("ann")
    created = cluster.transport.sent(RequestCode.AUTH_CREATE_USER)
    # Both brokers, and the name server, which need not know what users are.
    assert {address for address, _ in created} == {"10.0.0.1:10911", "10.0.0.2:10911", "ns1:9876"}
    assert UserInfo.decode(created[0][1].body).password == "secret"  # noqa: S105 - of nobody
    deleted = cluster.transport.sent(RequestCode.AUTH_DELETE_ACL)[0][1].header(AuthDeleteAclHeader)
    assert (deleted.subject, deleted.resource) == ("User:ann", "Topic:t*")
