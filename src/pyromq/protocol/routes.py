"""From a name server's answer to queues and addresses: permissions, masters, what can be written and what can be read.

Pure functions over `TopicRouteData` and its parts. Who asks, who remembers and who is told lives with each party.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from pyromq.protocol.bodies.route import BrokerData, TopicQueueMappingInfo, TopicRouteData
from pyromq.protocol.message import MessageQueue

MASTER_ID: Final = 0
"""The broker id of a master; its slaves have greater ones."""

INHERIT: Final = 1
WRITE: Final = 2
READ: Final = 4
READ_WRITE: Final = READ | WRITE

LOGICAL_PREFIX: Final = "__syslo__"
"""Broker names of logical queues begin with this; the real broker is looked up per queue."""
NO_ENDPOINT: Final = "__syslo__none__"
GLOBAL_SCOPE: Final = "__global__"

MAX_QUEUES: Final = 65_536
"""Queues of one topic on one broker that are believed; a route beyond it is damaged."""


def is_readable(perm: int) -> bool:
    return perm & READ != 0


def is_writable(perm: int) -> bool:
    return perm & WRITE != 0


def is_inherited(perm: int) -> bool:
    """Whether a topic may be the template of topics created on the first send."""
    return perm & INHERIT != 0


def masters(brokers: Iterable[BrokerData]) -> dict[str, str]:
    """Broker name to the address of its master; brokers of which only slaves are left are not among them."""
    return {
        broker.broker_name: address for broker in brokers if (address := broker.broker_addrs.get(MASTER_ID)) is not None
    }


def any_address(addresses: Mapping[int, str]) -> str | None:
    """The master's address, while there is none that of the slave with the smallest id."""
    return addresses[min(addresses)] if addresses else None


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues that producers choose from: of an ordered topic as configured, of a static one logical, else
    `writable_queues`.
    """
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    if route.order_topic_conf is None and route.topic_queue_mapping_by_broker:
        return sorted(static_endpoints(topic, route), key=lambda queue: (queue.broker_name, queue.queue_id))
    return writable_queues(topic, route)


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues that consumers share: of a static topic logical, else `readable_queues`."""
    if route.topic_queue_mapping_by_broker:
        return list(static_endpoints(topic, route))
    return readable_queues(topic, route)


def writable_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues of brokers that have a master and permit writing, by broker name."""
    known = masters(route.broker_datas)
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if is_writable(data.perm) and data.broker_name in known
        for number in range(min(data.write_queue_nums, MAX_QUEUES))
    ]


def readable_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues that permit reading, in the order of the route; brokers of which only slaves are left included."""
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if is_readable(data.perm)
        for number in range(min(data.read_queue_nums, MAX_QUEUES))
    ]


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """`broker-a:4;broker-b:2` in its own order; pieces that cannot be read are passed over."""
    queues: list[MessageQueue] = []
    for piece in conf.split(";"):
        name, _, count = piece.partition(":")
        if name and count.strip().isdigit():
            queues.extend(MessageQueue(topic, name, number) for number in range(min(int(count), MAX_QUEUES)))
    return queues


def static_endpoints(topic: str, route: TopicRouteData) -> dict[MessageQueue, str]:
    """Logical queue to the broker that owns it now: the entry of the highest epoch; empty for other topics."""
    scopes: dict[str, list[TopicQueueMappingInfo]] = defaultdict(list)
    for mapping in (route.topic_queue_mapping_by_broker or {}).values():
        scopes[mapping.scope or GLOBAL_SCOPE].append(mapping)
    endpoints: dict[MessageQueue, str] = {}
    for scope, mappings in scopes.items():
        broker = _logical_broker(scope)
        owners: dict[int, str] = {}
        for mapping in sorted(mappings, key=lambda mapping: mapping.epoch):
            owners.update(dict.fromkeys(mapping.curr_id_map or {}, mapping.bname))
        total = min(max(mapping.total_queues for mapping in mappings), MAX_QUEUES)
        endpoints.update({MessageQueue(topic, broker, n): owners.get(n, NO_ENDPOINT) for n in range(total)})
    return endpoints


def _logical_broker(scope: str) -> str:
    """The broker name that logical queues of a scope carry."""
    return LOGICAL_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)
