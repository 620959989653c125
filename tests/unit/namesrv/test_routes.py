"""What route queries answer, and the changes administrators make."""

import pytest

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies.route import QueueData, TopicQueueMappingInfo
from pyromq.protocol.bodies.topics import UNIT, UNIT_SUBSCRIBED
from pyromq.protocol.errors import ValidationError
from tests.unit.namesrv.conftest import Register


def test_a_route_has_queues_brokers_filters_and_mappings(table: RouteTable, register: Register) -> None:
    # N-13
    mapping = TopicQueueMappingInfo(bname="b", topic="T", total_queues=2)
    register("b", 0, "T", mappings={"T": mapping})
    register("a", 0, "T", filters=["10.0.0.9:1"])
    register("a", 1)
    route = table.route("T")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["a", "b"]
    assert [(group.broker_name, group.broker_addrs) for group in route.broker_datas] == [
        ("a", {0: "a-0:10911", 1: "a-1:10911"}),
        ("b", {0: "b-0:10911"}),
    ]
    assert route.filter_server_table == {"a-0:10911": ["10.0.0.9:1"]}
    assert route.topic_queue_mapping_by_broker == {"b": mapping}
    assert route.order_topic_conf is None


def test_no_topic_no_route_and_no_substitute(table: RouteTable, register: Register) -> None:
    # N-13 N-14
    register("a", 0, "TBW102")
    assert table.route("unknown") is None
    assert table.route("") is None


def test_an_answer_does_not_change_with_the_table(table: RouteTable, register: Register) -> None:
    register("a", 0, "T")
    route = table.route("T")
    register("a", 1)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "a-0:10911"}


def lone_slaves(register: Register, *, acting: bool) -> None:
    register("a", 2, "T", "rmq_sys_SYNC_BROKER_MEMBER_a", acting=acting)
    register("a", 3, acting=acting)


def shown(table: RouteTable, topic: str = "T") -> dict[int, str]:
    route = table.route(topic)
    assert route is not None
    return route.broker_datas[0].broker_addrs


def test_the_smallest_slave_acts_as_master_when_supported(
    table: RouteTable, register: Register, config: NamesrvConfig
) -> None:
    lone_slaves(register, acting=True)
    assert shown(table) == {2: "a-2:10911", 3: "a-3:10911"}
    config.support_acting_master = True
    assert shown(table) == {0: "a-2:10911", 3: "a-3:10911"}
    assert shown(table, "rmq_sys_SYNC_BROKER_MEMBER_a") == {2: "a-2:10911", 3: "a-3:10911"}
    assert table.brokers["a"].broker_addrs == {2: "a-2:10911", 3: "a-3:10911"}


def test_no_acting_master_beside_a_real_one_or_with_writable_queues(
    table: RouteTable, register: Register, config: NamesrvConfig
) -> None:
    config.support_acting_master = True
    lone_slaves(register, acting=True)
    table.topics.allow_writes("a")
    assert 0 not in shown(table)
    table.topics.forbid_writes("a")
    register("a", 0, "T", acting=True)
    assert shown(table)[0] == "a-0:10911"


def test_no_acting_master_without_the_broker_switch(
    table: RouteTable, register: Register, config: NamesrvConfig
) -> None:
    config.support_acting_master = True
    lone_slaves(register, acting=False)
    table.topics.forbid_writes("a")
    assert 0 not in shown(table)


def test_write_permission_is_wiped_until_the_version_changes(table: RouteTable, register: Register) -> None:
    register("a", 0, "T1", "T2", perm=7)
    register("b", 0, "T1")
    assert table.topics.forbid_writes("a") == 2
    assert table.topics.forbid_writes("nobody") == 0
    assert table.topics.queues("T1")["a"].perm == 5
    assert table.topics.queues("T1")["b"].perm == 6
    register("a", 0, "T1", "T2", perm=7)
    assert table.topics.queues("T1")["a"].perm == 5
    register("a", 0, "T1", "T2", perm=7, version=2)
    assert table.topics.queues("T1")["a"].perm == 7


def test_write_permission_is_restored(table: RouteTable, register: Register) -> None:
    register("a", 0, "T1", "T2", perm=4)
    assert table.topics.allow_writes("a") == 2
    assert table.topics.queues("T2")["a"].perm == 6


def test_deleting_a_topic_everywhere_or_in_one_cluster(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", "U", cluster="c1")
    register("b", 0, "T", "U", cluster="c2")
    table.delete_topic("T")
    assert table.route("T") is None
    table.delete_topic("U", "c1")
    assert list(table.topics.queues("U")) == ["b"]
    table.delete_topic("U", "unknown")
    table.delete_topic("never")
    assert table.topics.entries == 1


def test_single_topics_register_for_known_brokers_only(table: RouteTable, register: Register) -> None:
    register("a", 0, "T")
    table.register_topic("new", [QueueData(broker_name="a", perm=6, read_queue_nums=3, write_queue_nums=3)])
    assert table.topics.queues("new")["a"].read_queue_nums == 3
    with pytest.raises(ValidationError, match="unknown"):
        table.register_topic("half", [QueueData(broker_name="a"), QueueData(broker_name="nobody")])
    assert "half" not in table.topics.names()
    with pytest.raises(ValidationError):
        table.register_topic("../x", [QueueData(broker_name="a")])


def test_topics_are_found_by_their_flags_and_brokers(table: RouteTable, register: Register) -> None:
    register("a", 0, "unit", flag=UNIT)
    register("b", 0, "sub", flag=UNIT_SUBSCRIBED)
    register("d", 0, "both", flag=UNIT | UNIT_SUBSCRIBED)
    register("e", 0, "plain")
    assert table.topics.flagged(lambda flag: bool(flag & UNIT)) == ["unit", "both"]
    assert table.topics.of_brokers({"a", "e", "nobody"}) == ["unit", "plain"]
    assert table.topics.of_broker("d") == ["both"]
