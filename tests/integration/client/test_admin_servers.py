"""Administration of brokers and name servers as processes."""

from pathlib import Path

import pytest

from pyromq.aio import Admin, BrokerError, ClientError, Message, PartialFailureError, Producer
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import ServiceState
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import MessageQueue
from tests.integration.client.clusters import cluster, standalone

BOTH = ["broker-a", "broker-b"]


async def test_figures_and_settings_of_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        info = await admin.cluster_info()
        assert {name: sorted(brokers) for name, brokers in info.cluster_addr_table.items()} == {"DefaultCluster": BOTH}
        assert info.broker_addr_table["broker-a"].broker_addrs == {0: running.brokers["broker-a"].address}
        status = await admin.broker_status(cluster="DefaultCluster")
        assert list(status) == BOTH
        assert {"putTps", "brokerVersionDesc", "commitLogMaxOffset"} <= status["broker-b"].keys()
        config = await admin.broker_config(broker="broker-b")
        assert config["broker-b"]["brokerName"] == "broker-b"
        assert await admin.update_broker_config({"traceOn": "false"}) == BOTH
        assert {table["traceOn"] for table in (await admin.broker_config()).values()} == {"false"}
        with pytest.raises(PartialFailureError) as refused:
            await admin.update_broker_config({"storePathRootDir": "/"})
        assert refused.value.code == ResponseCode.NO_PERMISSION
        with pytest.raises(ClientError, match="no settings"):
            await admin.update_broker_config({})


async def test_statistics_and_cleaning(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await admin.create_topic("orders", queues=1)
        await running.routed("orders", 2)
        async with Producer("pg", namesrv=running.namesrv) as producer:
            await producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))
        counted = await admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", "orders")
        assert counted.stats_minute.sum >= 0
        with pytest.raises(BrokerError):
            await admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", "unheard-of")
        assert await admin.clean_expired_queues() == BOTH
        assert await admin.delete_expired_logs(broker="broker-a") == ["broker-a"]
        assert await admin.clean_unused_topics(cluster="DefaultCluster") == BOTH
        assert (await admin.topic_stats("orders")).offset_table[MessageQueue("orders", "broker-a", 0)].max_offset == 1


async def test_values_are_kept_by_all_name_servers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        assert set(admin.name_servers()) == {server.address for server in running.name_servers}
        await admin.put_kv("plans", "colour", "blue")
        await admin.put_kv("plans", "shape", "round")
        for server in running.name_servers:
            async with Admin(namesrv=server.address) as one:
                assert await one.list_kv("plans") == {"colour": "blue", "shape": "round"}
        await admin.delete_kv("plans", "shape")
        assert await admin.get_kv("plans", "shape") is None
        assert await admin.get_kv("plans", "colour") == "blue"
        assert await admin.list_kv("nothing here") == {}


async def test_settings_of_name_servers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        assert len(await admin.update_name_server_config({"orderMessageEnable": "true"})) == 2
        config = await admin.name_server_config()
        assert {table["orderMessageEnable"] for table in config.values()} == {"true"}


async def test_writing_to_a_broker_is_taken_away_and_given_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await admin.create_topic("orders", queues=1)
        await running.routed("orders", 2)
        wiped = await admin.wipe_write_permission("broker-a")
        assert len(wiped) == 2
        assert min(wiped.values()) > 0
        perms = {data.broker_name: data.perm for data in (await admin.topic_route("orders")).queue_datas}
        assert perms == {"broker-a": 4, "broker-b": 6}
        assert min((await admin.add_write_permission("broker-a")).values()) > 0
        perms = {data.broker_name: data.perm for data in (await admin.topic_route("orders")).queue_datas}
        assert perms == {"broker-a": 6, "broker-b": 6}


async def test_a_name_server_that_is_gone_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, timeout=10) as admin:
        gone = running.name_servers[1].address
        await running.name_servers[1].stop()
        assert "TBW102" in await admin.topics()
        with pytest.raises(PartialFailureError, match=gone) as partial:
            await admin.put_kv("plans", "colour", "red")
        assert list(partial.value.done) == [running.name_servers[0].address]


async def test_the_life_of_an_admin_client(tmp_path: Path) -> None:
    # P-21 P-24
    async with standalone(tmp_path) as server:
        admin = Admin(namesrv=server.namesrv_address)
        with pytest.raises(ServiceStateError, match="CREATE_JUST"):
            await admin.topics()
        await admin.start()
        with pytest.raises(ServiceStateError, match="RUNNING"):
            await admin.start()
        assert "#" in admin._servers.instance.client_id
        await admin.close()
        await admin.close()
        assert admin.state is ServiceState.SHUTDOWN_ALREADY
        with pytest.raises(ServiceStateError, match="SHUTDOWN_ALREADY"):
            await admin.topics()
    with pytest.raises(ClientError, match="namespace%name"):
        Admin(namesrv=server.namesrv_address, namespace="ns")
