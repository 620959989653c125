"""Every request of the name server over a real connection."""

import zlib
from pathlib import Path

import msgspec
import pytest

from pyromq.protocol.bodies.route import BrokerMemberGroupBody, ClusterInfo, QueueData, TopicRouteData
from pyromq.protocol.bodies.tables import DataVersion, KVTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable, TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import (
    AddWritePermOfBrokerHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatHeader,
    DeleteKvConfigHeader,
    DeleteTopicInNamesrvHeader,
    GetBrokerMemberGroupHeader,
    GetKvConfigHeader,
    GetKvConfigResponseHeader,
    GetKvlistByNamespaceHeader,
    GetTopicsByClusterHeader,
    PutKvConfigHeader,
    QueryDataVersionHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicInNamesrvHeader,
    UnregisterBrokerHeader,
    WipeWritePermOfBrokerHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from tests.integration.namesrv.serving import Peer, name_server, registration, run


def topics_in(response: Command) -> list[str]:
    assert response.code == ResponseCode.SUCCESS, response.remark
    return sorted(TopicList.decode(response.body).topic_list)


def test_routes_in_both_forms(tmp_path: Path) -> None:
    # N-01 N-13
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T")
            await peer.register("a", broker_id=1)
            legacy = (
                b'{"brokerDatas":[{"brokerAddrs":{0:"a-0:10911",1:"a-1:10911"},"brokerName":"a","cluster":"c",'
                b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,'
                b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
            )
            strict = legacy.replace(b'{0:"', b'{"0":"').replace(b',1:"', b',"1":"')
            assert bytes((await peer.route("T", version=400)).body) == legacy
            assert bytes((await peer.route("T", version=400, strict=True)).body) == strict
            assert bytes((await peer.route("T", version=401)).body) == strict
            msgspec.json.decode(strict)
            missing = await peer.route("TBW102")  # N-14
            assert missing.code == ResponseCode.TOPIC_NOT_EXIST
            assert missing.remark == "No topic route info in name server for the topic: TBW102"

    run(scenario())


def test_registration_answers_slaves_with_their_master_and_all_with_ordered_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            response = await peer.register("a", "T")
            assert response.code == ResponseCode.SUCCESS
            assert bytes(response.body) == b""
            assert response.header(RegisterBrokerResponseHeader) == RegisterBrokerResponseHeader()
            await peer.ask(
                RequestCode.PUT_KV_CONFIG, PutKvConfigHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="a:4")
            )
            response = await peer.register("a", broker_id=1)
            assert response.header(RegisterBrokerResponseHeader) == RegisterBrokerResponseHeader(
                ha_server_addr="10.0.0.1:10912", master_addr="a-0:10911"
            )
            assert KVTable.decode(response.body).table == {"T": "a:4"}

    run(scenario())


@pytest.mark.parametrize("announced", [True, False])
def test_compressed_registrations_announced_or_not(tmp_path: Path, announced: bool) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            header = RegisterBrokerHeader(
                broker_name="a", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0,
                compressed=announced,
            )  # fmt: skip
            body = registration(("T1", "T2"), compressed=True)
            response = await peer.ask(RequestCode.REGISTER_BROKER, header, body)
            assert response.code == ResponseCode.SUCCESS
            assert server.routes.topics.names() == ["T1", "T2"]

    run(scenario())


def test_registrations_of_very_old_brokers_are_a_bare_table(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            header = RegisterBrokerHeader(
                broker_name="a", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0
            )
            body = TopicConfigTable(topic_config_table={"T": TopicConfig(topic_name="T")}).encode()
            await peer.ask(RequestCode.REGISTER_BROKER, header, body, version=36)
            assert server.routes.topics.names() == ["T"]

    run(scenario())


def test_the_checksum_of_a_registration_is_checked_when_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            checksum = zlib.crc32(registration(("T",))) & 0x7FFFFFFF
            refused = await peer.register("a", "T", crc=checksum ^ 1)
            assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
            assert not server.routes.brokers
            for crc in (checksum, 0, None):
                assert (await peer.register("a", "T", crc=crc)).code == ResponseCode.SUCCESS

    run(scenario())


def test_unregistration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T")
            header = UnregisterBrokerHeader(broker_name="a", broker_addr="a-0:10911", cluster_name="c", broker_id=0)
            assert (await peer.ask(RequestCode.UNREGISTER_BROKER, header)).code == ResponseCode.SUCCESS
            assert (await peer.route("T")).code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario())


def test_key_value_configuration(tmp_path: Path) -> None:
    # N-02
    async def scenario() -> None:
        get = GetKvConfigHeader(namespace="ns", key="k")
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            absent = await peer.ask(RequestCode.GET_KV_CONFIG, get)
            assert absent.code == ResponseCode.QUERY_NOT_FOUND
            listed = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKvlistByNamespaceHeader(namespace="ns"))
            assert listed.code == ResponseCode.QUERY_NOT_FOUND
            for key in ("k", "l"):
                put = PutKvConfigHeader(namespace="ns", key=key, value="v")
                assert (await peer.ask(RequestCode.PUT_KV_CONFIG, put)).code == ResponseCode.SUCCESS
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            found = await peer.ask(RequestCode.GET_KV_CONFIG, get)
            assert found.header(GetKvConfigResponseHeader).value == "v"
            listed = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKvlistByNamespaceHeader(namespace="ns"))
            assert KVTable.decode(listed.body).table == {"k": "v", "l": "v"}
            delete = DeleteKvConfigHeader(namespace="ns", key="k")
            for _ in range(2):
                assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, delete)).code == ResponseCode.SUCCESS
            assert (await peer.ask(RequestCode.GET_KV_CONFIG, get)).code == ResponseCode.QUERY_NOT_FOUND

    run(scenario())


def test_order_configuration_appears_in_routes_only_when_enabled(tmp_path: Path) -> None:
    # N-16
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T", "U")
            await peer.ask(
                RequestCode.PUT_KV_CONFIG, PutKvConfigHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="a:4")
            )
            assert b"orderTopicConf" not in bytes((await peer.route("T")).body)
            changed = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
            assert changed.code == ResponseCode.SUCCESS
            assert TopicRouteData.decode((await peer.route("T")).body).order_topic_conf == "a:4"
            assert b"orderTopicConf" not in bytes((await peer.route("U")).body)

    run(scenario())


def test_cluster_info_and_member_group(tmp_path: Path) -> None:
    # N-04 N-05
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("b", "T", cluster="c1")
            await peer.register("a", "T", cluster="c1")
            await peer.register("a", broker_id=1, cluster="c1")
            await peer.register("x", "T", cluster="c2")
            response = await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
            info = ClusterInfo.decode(response.body)
            assert info.cluster_addr_table == {"c1": ["a", "b"], "c2": ["x"]}
            assert info.broker_addr_table["a"].broker_addrs == {0: "a-0:10911", 1: "a-1:10911"}
            assert b'{0:"a-0:10911",1:"a-1:10911"}' in bytes(response.body)
            for name, members in (("a", {0: "a-0:10911", 1: "a-1:10911"}), ("nobody", {})):
                header = GetBrokerMemberGroupHeader(cluster_name="c1", broker_name=name)
                response = await peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, header)
                assert BrokerMemberGroupBody.decode(response.body).broker_member_group.broker_addrs == members

    run(scenario())


def test_topic_lists(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "plain", cluster="c1")
            await peer.register("b", "unit", cluster="c1", flag=1)
            await peer.register("d", "sub", cluster="c2", flag=2)
            await peer.register("e", "both", cluster="c2", flag=3)
            expected = {
                RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ["both", "plain", "sub", "unit"],
                RequestCode.GET_UNIT_TOPIC_LIST: ["both", "unit"],
                RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: ["both", "sub"],
                RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: ["sub"],
                RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: ["a", "b", "c1", "c2", "d", "e"],
            }
            for code, names in expected.items():
                assert topics_in(await peer.ask(code)) == names
            system = await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            assert TopicList.decode(system.body).broker_addr == "a-0:10911"
            for cluster, names in (("c1", ["plain", "unit"]), ("nowhere", [])):
                header = GetTopicsByClusterHeader(cluster=cluster)
                assert topics_in(await peer.ask(RequestCode.GET_TOPICS_BY_CLUSTER, header)) == names
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false\nenableAllTopicList=false")
            for code in (
                RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
                RequestCode.GET_UNIT_TOPIC_LIST,
                RequestCode.GET_TOPICS_BY_CLUSTER,
            ):
                response = await peer.ask(code, GetTopicsByClusterHeader(cluster="c1"))
                assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "disable")

    run(scenario())


def test_single_topics_are_registered_and_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T", cluster="c1")
            await peer.register("b", "T", cluster="c2")
            body = TopicRouteData(queue_datas=[QueueData(broker_name="a", perm=6, read_queue_nums=2)]).encode()
            header = RegisterTopicInNamesrvHeader(topic="new")
            assert (await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, header, body)).code == ResponseCode.SUCCESS
            assert TopicRouteData.decode((await peer.route("new")).body).queue_datas[0].read_queue_nums == 2
            hostile = RegisterTopicInNamesrvHeader(topic="../../etc")
            refused = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, hostile, body)
            assert refused.code == ResponseCode.INVALID_PARAMETER
            delete = DeleteTopicInNamesrvHeader(topic="T", cluster_name="c1")
            await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, delete)
            assert [each.broker_name for each in TopicRouteData.decode((await peer.route("T")).body).queue_datas] == [
                "b"
            ]
            await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic="T"))
            assert (await peer.route("T")).code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario())


def test_write_permission_is_wiped_and_restored(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T1", "T2")
            response = await peer.ask(
                RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerHeader(broker_name="a")
            )
            assert response.header(WipeWritePermOfBrokerResponseHeader).wipe_topic_count == 2
            assert TopicRouteData.decode((await peer.route("T1")).body).queue_datas[0].perm == 4
            response = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerHeader(broker_name="a"))
            assert response.header(AddWritePermOfBrokerResponseHeader).add_topic_count == 2
            assert TopicRouteData.decode((await peer.route("T1")).body).queue_datas[0].perm == 6

    run(scenario())


def test_data_versions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:

            async def query(version: DataVersion) -> tuple[bool, bytes]:
                header = QueryDataVersionHeader(broker_name="a", broker_addr="a-0:10911", cluster_name="c", broker_id=0)
                response = await peer.ask(RequestCode.QUERY_DATA_VERSION, header, version.encode())
                return response.header(QueryDataVersionResponseHeader).changed, bytes(response.body)

            same = DataVersion(counter=1, timestamp=7)
            assert await query(same) == (True, b"")
            await peer.register("a", "T", counter=1)
            assert await query(same) == (False, same.encode())
            assert await query(DataVersion(counter=2, timestamp=7)) == (True, same.encode())
            assert await query(DataVersion(counter=1, timestamp=8)) == (True, same.encode())

    run(scenario())


def test_remote_configuration_is_an_allow_list(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            text = bytes((await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
            assert "supportActingMaster=false\n" in text
            for hidden in ("kvConfigPath", "bindAddress", "certPath", "Password", str(tmp_path), "127.0.0.1"):
                assert hidden not in text
            for key in ("kvConfigPath", "bindAddress", "listenPort", "tls.server.keyPassword", "configBlackList"):
                response = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"{key}=1".encode())
                assert response.code == ResponseCode.NO_PERMISSION, key
            for body in (b"supportActingMasters=true", b"supportActingMaster=maybe", b"\xff", b"a=\\u1"):
                response = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
                assert response.code == ResponseCode.SYSTEM_ERROR, body
            assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG)).code == ResponseCode.SUCCESS
            assert not server.config.support_acting_master
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true")
            assert server.config.support_acting_master

    run(scenario())


def test_unknown_requests_are_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            response = await peer.ask(RequestCode.SEND_MESSAGE)
            assert (response.code, response.remark) == (3, " request type 10 not supported")

    run(scenario())


def test_heartbeats_are_answered_and_keep_a_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        now = 0.0
        async with name_server(tmp_path, clock=lambda: now) as server, Peer(server.address) as peer:
            await peer.register("a", "T", timeout_ms=1000)
            header = BrokerHeartbeatHeader(cluster_name="c", broker_addr="a-0:10911", broker_name="a")
            for _ in range(3):
                now += 0.9
                assert (await peer.ask(RequestCode.BROKER_HEARTBEAT, header)).code == ResponseCode.SUCCESS
                server.scan()
            assert (await peer.route("T")).code == ResponseCode.SUCCESS

    run(scenario())


def test_routes_are_refused_for_a_while_when_configured(tmp_path: Path) -> None:
    async def scenario() -> None:
        now = 100.0
        async with (
            name_server(tmp_path, clock=lambda: now, need_wait_for_service=True) as server,
            Peer(server.address) as peer,
        ):
            await peer.register("a", "T")
            response = await peer.route("T")
            assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
            now += 45
            assert (await peer.route("T")).code == ResponseCode.SUCCESS

    run(scenario())
