"""Administration of topics and groups on two brokers behind two name servers."""

from pathlib import Path

import pytest

from pyromq.aio import Admin, BrokerError, ClientError, Message, NoRouteError, PartialFailureError, Producer
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import ResponseCode
from tests.integration.client.clusters import Cluster, cluster

BOTH = ["broker-a", "broker-b"]


async def created(running: Cluster, admin: Admin, topic: str, queues: int = 4) -> None:
    await admin.create_topic(topic, queues=queues)
    await running.routed(topic, 2)


async def test_a_topic_is_created_with_the_same_queues_on_every_master(tmp_path: Path) -> None:
    # P-54
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        asked = await admin.create_topic("orders")
        assert sorted(asked) == BOTH
        await running.routed("orders", 2)
        route = await admin.topic_route("orders")
        assert {(data.read_queue_nums, data.write_queue_nums, data.perm) for data in route.queue_datas} == {(8, 8, 6)}
        assert {name: config.topic_name for name, config in (await admin.topic_config("orders")).items()} == {
            "broker-a": "orders",
            "broker-b": "orders",
        }
        assert "orders" in await admin.topics()
        assert "orders" in await admin.topics(cluster="DefaultCluster")
        assert await admin.topics(cluster="elsewhere") == []
        assert await admin.clusters_of_topic("orders") == ["DefaultCluster"]


async def test_one_broker_can_be_meant_by_name_or_address(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await admin.create_topic("only-a", broker="broker-a", read_queues=3, write_queues=2, attributes={})
        await admin.create_topic("only-b", broker=running.brokers["broker-b"].address)
        await running.routed("only-a", 1)
        await running.routed("only-b", 1)
        found = await admin.topic_config("only-a")
        assert list(found) == ["broker-a"]
        assert (found["broker-a"].read_queue_nums, found["broker-a"].write_queue_nums) == (3, 2)
        assert list(await admin.topic_config("only-b")) == ["broker-b"]
        with pytest.raises(ClientError, match="no master of broker 'broker-z'"):
            await admin.create_topic("nowhere", broker="broker-z")
        with pytest.raises(ClientError, match="not both"):
            await admin.create_topic("nowhere", broker="broker-a", cluster="DefaultCluster")


async def test_topics_change_and_are_read_page_by_page(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, page_size=2) as admin:
        wanted = [TopicConfig(topic_name=f"t{n}", read_queue_nums=n, write_queue_nums=n) for n in range(1, 8)]
        await admin.create_topics(wanted, cluster="DefaultCluster")
        await admin.create_topic("t7", queues=7, attributes={"message.type": "FIFO"})
        tables = await admin.topic_configs()
        assert sorted(tables) == BOTH
        for table in tables.values():
            assert {name: table.topic_config_table[name].read_queue_nums for name in ("t1", "t6")} == {"t1": 1, "t6": 6}
            assert table.topic_config_table["t7"].attributes == {"message.type": "FIFO"}
        await admin.create_topic("t7", queues=7, attributes={"message.type": None})
        assert {config.attributes.get("message.type") for config in (await admin.topic_config("t7")).values()} == {None}
        changed = await admin.set_topic_permission("t7", 4)
        assert {name: config.perm for name, config in changed.items()} == dict.fromkeys(BOTH, 4)
        assert {config.perm for config in (await admin.topic_config("t7")).values()} == {4}
        assert {config.write_queue_nums for config in (await admin.topic_config("t7")).values()} == {7}


async def test_an_ordered_topic_has_its_order_on_all_name_servers(tmp_path: Path) -> None:
    # P-48
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await admin.create_topic("ordered", queues=2, ordered=True)
        assert await admin.order_conf("ordered") == "broker-a:2;broker-b:2"
        for server in running.name_servers:
            async with Admin(namesrv=server.address) as one:
                assert await one.list_kv("ORDER_TOPIC_CONFIG") == {"ordered": "broker-a:2;broker-b:2"}
        await admin.set_order_conf("ordered", "broker-b:1")
        assert await admin.order_conf("ordered") == "broker-b:1"
        await admin.delete_topic("ordered")
        assert await admin.order_conf("ordered") is None


async def test_a_deleted_topic_is_gone_from_brokers_and_name_servers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await created(running, admin, "passing")
        await admin.delete_topic("passing", cluster="DefaultCluster")
        with pytest.raises(NoRouteError, match="passing"):
            await admin.topic_route("passing")
        with pytest.raises(BrokerError) as refused:
            await admin.topic_config("passing")
        assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_topic_figures_come_from_all_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await created(running, admin, "counted", queues=2)
        async with Producer("pg", namesrv=running.namesrv) as producer:
            for queue in await producer.publish_queues("counted"):
                await producer.send(Message("counted", b"x"), queue=queue)
        stats = await admin.topic_stats("counted")
        assert [(queue.broker_name, queue.queue_id) for queue in stats.offset_table] == [
            ("broker-a", 0),
            ("broker-a", 1),
            ("broker-b", 0),
            ("broker-b", 1),
        ]
        assert {(row.min_offset, row.max_offset) for row in stats.offset_table.values()} == {(0, 1)}
        assert "TBW102" in await admin.system_topics()


async def test_a_refusal_of_some_brokers_keeps_what_the_others_did(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, timeout=30) as admin:
        with pytest.raises(PartialFailureError) as refused:
            await admin.create_topic("bad", queues=-1)
        assert list(refused.value.failed) == BOTH
        assert refused.value.code == ResponseCode.INVALID_PARAMETER
        broker = running.brokers["broker-b"]
        await broker.core.ports.server.stop(0)
        with pytest.raises(PartialFailureError, match=r"on 1 of 2: broker-b: ") as partial:
            await admin.create_topic("half")
        assert list(partial.value.done) == ["broker-a"]
        assert list(partial.value.failed) == ["broker-b"]
        assert partial.value.retryable
        assert list(await admin.topic_config("half", broker="broker-a")) == ["broker-a"]


async def test_bad_names_are_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    # P-59
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        with pytest.raises(ClientError, match="topic cannot be created"):
            await admin.create_topic("../etc")
        with pytest.raises(ClientError, match="group cannot be created"):
            await admin.create_group("a b")


async def test_groups_are_created_listed_and_deleted_with_their_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv, page_size=3) as admin:
        await admin.create_group("plain")
        await admin.create_group(SubscriptionGroupConfig(group_name="tuned", retry_max_times=3), broker="broker-a")
        await admin.create_groups([SubscriptionGroupConfig(group_name=f"g{n}") for n in range(5)])
        assert {"plain", "tuned", "g0", "g4"} <= set(await admin.groups())
        found = await admin.group_config("tuned")
        assert {name: config.retry_max_times for name, config in found.items()} == {"broker-a": 3}
        assert sorted(await admin.group_config("plain")) == BOTH
        await created(running, admin, "%RETRY%plain", queues=1)
        await admin.delete_group("plain", clean_offsets=True)
        with pytest.raises(BrokerError) as gone:
            await admin.group_config("plain")
        assert gone.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        with pytest.raises(NoRouteError):
            await admin.topic_route("%RETRY%plain")


async def test_a_group_can_be_forbidden_to_read_a_topic(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running, Admin(namesrv=running.namesrv) as admin:
        await created(running, admin, "secret")
        await admin.create_group("nosy")
        assert await admin.group_may_read("nosy", "secret") == dict.fromkeys(BOTH, True)
        assert await admin.let_group_read("nosy", "secret", readable=False) == dict.fromkeys(BOTH, False)
        assert await admin.group_may_read("nosy", "secret") == dict.fromkeys(BOTH, False)
        assert await admin.let_group_read("nosy", "secret", readable=True) == dict.fromkeys(BOTH, True)
