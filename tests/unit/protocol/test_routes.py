"""Masters, addresses and permissions; the expansion into queues is tested with the client's use of it."""

from pyromq.protocol import routes
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.message import MessageQueue

BROKERS = [
    BrokerData(broker_name="b", broker_addrs={1: "b:1", 0: "b:0"}),
    BrokerData(broker_name="a", broker_addrs={2: "a:2", 1: "a:1"}),
    BrokerData(broker_name="none"),
]


def test_masters_leave_out_brokers_without_one() -> None:
    assert routes.masters(BROKERS) == {"b": "b:0"}


def test_any_address_is_the_master_or_the_first_slave() -> None:
    assert [routes.any_address(broker.broker_addrs) for broker in BROKERS] == ["b:0", "a:1", None]


def test_permission_bits() -> None:
    for perm in range(8):
        bits = routes.is_readable(perm), routes.is_writable(perm), routes.is_inherited(perm)
        assert bits == (perm in {4, 5, 6, 7}, perm in {2, 3, 6, 7}, perm % 2 == 1)


def test_what_brokers_have_goes_by_permission_and_master_alone() -> None:
    route = TopicRouteData(
        broker_datas=BROKERS,
        order_topic_conf="a:5",
        queue_datas=[
            QueueData(broker_name="b", perm=6, read_queue_nums=1, write_queue_nums=2),
            QueueData(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1),
        ],
    )
    assert routes.writable_queues("T", route) == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    assert routes.readable_queues("T", route) == [MessageQueue("T", "b", 0), MessageQueue("T", "a", 0)]
    assert routes.publish_queues("T", route) == [MessageQueue("T", "a", number) for number in range(5)]
