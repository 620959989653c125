"""From routes to queues."""

import pytest

from pyromq.client.instance.routes import (
    INT_MASK,
    PublishInfo,
    RotatingIndex,
    clamp_queues,
    publish_info,
    route_changed,
)
from pyromq.client.instance.topology import Topology
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.routes import NO_ENDPOINT, static_endpoints, subscribe_queues
from tests.unit.client.fakes import route_of


def names(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name[-1]}{queue.queue_id}" for queue in queues]


def test_publish_info_begins_empty() -> None:
    # P-43
    info = PublishInfo()
    assert not info.ordered
    assert not info.has_route
    assert info.queues == []
    assert info.route is None
    assert not info.usable


def test_expansion_sorts_by_broker_and_counts_write_queues() -> None:
    # P-50
    route = route_of({"broker-b": "b:1", "broker-a": "a:1"})
    info = publish_info("T", route)
    assert names(info.queues) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]
    assert info.has_route
    assert info.usable
    assert info.route is route


def test_expansion_skips_what_cannot_be_written() -> None:
    # P-50: not writable, broker unknown, no master
    route = TopicRouteData(
        broker_datas=[
            BrokerData(broker_name="a", broker_addrs={0: "a:1"}),
            BrokerData(broker_name="b", broker_addrs={0: "b:1"}),
            BrokerData(broker_name="c", broker_addrs={1: "c:1"}),
        ],
        queue_datas=[
            QueueData(broker_name="a", write_queue_nums=1, read_queue_nums=1, perm=4),
            QueueData(broker_name="b", write_queue_nums=2, read_queue_nums=2, perm=2),
            QueueData(broker_name="c", write_queue_nums=1, read_queue_nums=1, perm=6),
            QueueData(broker_name="d", write_queue_nums=1, read_queue_nums=1, perm=6),
        ],
    )
    assert names(publish_info("T", route).queues) == ["b0", "b1"]


def test_subscribe_expansion_takes_readable_queues_also_of_slaves() -> None:
    # P-51
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_name="a", broker_addrs={1: "a:1"})],
        queue_datas=[
            QueueData(broker_name="a", write_queue_nums=8, read_queue_nums=2, perm=4),
            QueueData(broker_name="b", write_queue_nums=8, read_queue_nums=2, perm=2),
        ],
    )
    assert names(subscribe_queues("T", route)) == ["a0", "a1"]


def test_ordered_topic_follows_its_configuration() -> None:
    # P-48: no permission or master check
    route = route_of({"broker-a": "a:1"}, perm=0)
    route.order_topic_conf = "broker-b:2;broker-a:1;;broken;x:y"
    info = publish_info("T", route)
    assert info.ordered
    assert names(info.queues) == ["b0", "b1", "a0"]


def mapping(broker: str, epoch: int, ids: dict[int, int], scope: str | None = "__global__") -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo(bname=broker, epoch=epoch, curr_id_map=ids, scope=scope, topic="T", total_queues=4)


def test_static_topic_has_logical_queues() -> None:
    # P-49
    route = route_of({"broker-a": "a:1", "broker-b": "b:1"})
    route.topic_queue_mapping_by_broker = {
        "broker-a": mapping("broker-a", 1, {0: 0, 1: 1}),
        "broker-b": mapping("broker-b", 2, {1: 0, 2: 1}),
    }
    info = publish_info("T", route)
    assert [(queue.broker_name, queue.queue_id) for queue in info.queues] == [
        ("__syslo__global__", number) for number in range(4)
    ]
    endpoints = static_endpoints("T", route)
    assert [endpoints[queue] for queue in info.queues] == ["broker-a", "broker-b", "broker-b", NO_ENDPOINT]
    assert sorted(subscribe_queues("T", route)) == info.queues
    topology = Topology()
    topology.learn_endpoints("T", route)
    assert topology.broker_of(info.queues[2]) == "broker-b"
    assert topology.broker_of(MessageQueue("T", "broker-x", 0)) == "broker-x"


def test_static_topic_of_another_scope_keeps_its_name() -> None:
    # P-49
    route = route_of({"broker-a": "a:1"})
    route.topic_queue_mapping_by_broker = {"broker-a": mapping("broker-a", 1, {0: 0}, scope="cell")}
    assert publish_info("T", route).queues[0].broker_name == "__syslo__cell"


def test_order_configuration_beats_the_static_mapping() -> None:
    # P-49: only without an order configuration
    route = route_of({"broker-a": "a:1"})
    route.order_topic_conf = ""
    route.topic_queue_mapping_by_broker = {"broker-a": mapping("broker-a", 1, {0: 0})}
    assert publish_info("T", route).queues[0].broker_name == "broker-a"


ROUTE = b"""{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",
"cluster":"C","enableActingMaster":true,"zoneName":"z"}],"filterServerTable":{"10.0.0.1:10911":["f:1"]},
"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSynFlag":1,"writeQueueNums":2}],
"topicQueueMappingByBroker":null}"""


def test_route_data() -> None:
    # P-45
    route = TopicRouteData.decode(ROUTE)
    assert route.order_topic_conf is None
    (broker,) = route.broker_datas
    assert (broker.cluster, broker.broker_name, broker.zone_name, broker.enable_acting_master) == (
        "C",
        "broker-a",
        "z",
        True,
    )
    assert broker.broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert route.filter_server_table == {"10.0.0.1:10911": ["f:1"]}
    assert route.topic_queue_mapping_by_broker is None
    assert names(publish_info("T", route).queues) == ["a0", "a1"]
    assert len(subscribe_queues("T", route)) == 4


def test_default_route_is_clamped() -> None:
    # P-41
    route = route_of({"a": "a:1", "b": "b:1"}, 8)
    route.queue_datas[1].read_queue_nums = 3
    clamped = clamp_queues(route, 4)
    assert [(data.read_queue_nums, data.write_queue_nums) for data in clamped.queue_datas] == [(4, 4), (3, 3)]
    assert route.queue_datas[0].write_queue_nums == 8


def test_change_test_ignores_order() -> None:
    # P-46
    old = route_of({"a": "a:1", "b": "b:1"})
    assert route_changed(None, old)
    same = route_of({"b": "b:1", "a": "a:1"})
    same.broker_datas[0].cluster = "other"
    assert not route_changed(old, same)
    assert route_changed(old, route_of({"a": "a:2", "b": "b:1"}))
    assert route_changed(old, route_of({"a": "a:1", "b": "b:1"}, 5))
    assert route_changed(old, route_of({"a": "a:1"}))


def test_rotating_index_wraps_to_zero() -> None:
    # P-44
    index = RotatingIndex(INT_MASK - 1)
    assert [index.next(), index.next(), index.next()] == [INT_MASK, 0, 1]
    negative = RotatingIndex(-3)
    assert negative.next() == INT_MASK - 1
    index.reset()
    assert 0 <= index.next() <= INT_MASK


def test_round_robin() -> None:
    # P-44, P-70
    info = publish_info("T", route_of({"a": "a:1"}, 3))
    info.index = RotatingIndex(2)
    assert names([info.next_queue() for _ in range(4)]) == ["a0", "a1", "a2", "a0"]


def test_absurd_queue_counts_do_not_fill_memory() -> None:
    route = route_of({"a": "a:1"}, 2**31 - 1)
    assert len(publish_info("T", route).queues) == 65_536
    assert len(subscribe_queues("T", route)) == 65_536


@pytest.mark.parametrize(
    ("asked", "only", "found"),
    [
        (0, False, ("m", False)),
        (1, False, ("s2", True)),
        (2, False, ("s2", True)),
        (5, False, ("m", False)),
        (5, True, None),
        (1, True, ("s2", True)),
    ],
)
def test_subscribe_address(asked: int, only: bool, found: tuple[str, bool] | None) -> None:
    topology = Topology()
    topology.brokers["b"] = {0: "m", 2: "s2"}
    topology.versions["s2"] = 479
    answer = topology.subscribe_address("b", asked, only_this=only)
    if found is None:
        assert answer is None
    else:
        assert answer is not None
        assert (answer.address, answer.is_slave) == found
        assert answer.version == (479 if found[0] == "s2" else 0)


def test_other_address_helpers() -> None:
    topology = Topology()
    route = route_of({"b": "b:1"})
    route.broker_datas[0].broker_addrs = {1: "s:1", 2: "s:2"}
    topology.routes["T"] = route
    topology.learn_brokers(route)
    assert topology.publish_address("b") is None
    assert topology.admin_address("b") == "s:1"
    assert topology.address_by_topic("T") in {"s:1", "s:2"}
    assert topology.address_by_topic("other") is None
    route.broker_datas[0].broker_addrs[0] = "m:1"
    assert topology.address_by_topic("T") == "m:1"
    assert topology.is_known("s:2")
    assert not topology.is_known("x:1")


def test_offline_brokers_are_dropped() -> None:
    topology = Topology()
    topology.routes["T"] = route_of({"a": "a:1"})
    topology.brokers = {"a": {0: "a:1", 1: "a:2"}, "gone": {0: "g:1"}}
    topology.versions = {"a:2": 1, "a:1": 2}
    assert sorted(topology.drop_offline()) == ["a:2", "g:1"]
    assert topology.brokers == {"a": {0: "a:1"}}
    assert topology.versions == {"a:1": 2}
