"""From a name server's answer to queues: expansion for publishing and subscribing, comparison, default-topic clamp.

Pure functions over `TopicRouteData`; who asks and who is told lives in `instance.py`, addresses in `topology.py`.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from pyromq.protocol.bodies.route import TopicQueueMappingInfo, TopicRouteData
from pyromq.protocol.message import MessageQueue

PERM_WRITE = 2
PERM_READ = 4
MASTER_ID = 0

LOGICAL_PREFIX = "__syslo__"
"""Broker names of logical queues begin with this; the real broker is looked up per queue."""
NO_ENDPOINT = "__syslo__none__"
GLOBAL_SCOPE = "__global__"

INT_MASK = 0x7FFF_FFFF
MAX_QUEUES = 65_536
"""Queues of one topic on one broker that are believed; a route beyond it is damaged."""


class RotatingIndex:
    """A counter that starts anywhere and wraps from 2^31-1 to 0."""

    __slots__ = ("_value",)

    def __init__(self, start: int | None = None) -> None:
        self._value = random.randint(-(2**31), 2**31 - 1) if start is None else start

    def next(self) -> int:
        self._value = (self._value + 1) & INT_MASK
        return self._value

    def reset(self) -> None:
        """Go on from a random place."""
        self._value = random.randint(0, INT_MASK)


@dataclass(slots=True)
class PublishInfo:
    """Where messages of one topic can go. `has_route` is false for the placeholder of a topic not asked for yet."""

    queues: list[MessageQueue] = field(default_factory=list)
    ordered: bool = False
    has_route: bool = False
    route: TopicRouteData | None = None
    index: RotatingIndex = field(default_factory=RotatingIndex)

    @property
    def usable(self) -> bool:
        return bool(self.queues)

    def next_queue(self) -> MessageQueue:
        """Round robin."""
        return self.queues[self.index.next() % len(self.queues)]

    def write_queues(self, broker: str) -> int:
        """Queues of the topic that a broker accepts messages for."""
        return sum(1 for queue in self.queues if queue.broker_name == broker)


def publish_info(topic: str, route: TopicRouteData) -> PublishInfo:
    """The queues that can be written: of an ordered topic as configured, of a static one logical, else by broker."""
    info = PublishInfo(has_route=True, route=route)
    if route.order_topic_conf:
        info.ordered = True
        info.queues = _ordered_queues(topic, route.order_topic_conf)
    elif route.order_topic_conf is None and route.topic_queue_mapping_by_broker:
        info.queues = sorted(static_endpoints(topic, route), key=lambda queue: (queue.broker_name, queue.queue_id))
    else:
        masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
        info.queues = [
            MessageQueue(topic, data.broker_name, number)
            for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
            if data.perm & PERM_WRITE and data.broker_name in masters
            for number in range(min(data.write_queue_nums, MAX_QUEUES))
        ]
    return info


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """`broker-a:4;broker-b:2` in its own order; pieces that cannot be read are passed over."""
    queues: list[MessageQueue] = []
    for piece in conf.split(";"):
        name, _, count = piece.partition(":")
        if name and count.strip().isdigit():
            queues.extend(MessageQueue(topic, name, number) for number in range(min(int(count), MAX_QUEUES)))
    return queues


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues that can be read; brokers of which only slaves are left included."""
    if route.topic_queue_mapping_by_broker:
        return list(static_endpoints(topic, route))
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for number in range(min(data.read_queue_nums, MAX_QUEUES))
    ]


def static_endpoints(topic: str, route: TopicRouteData) -> dict[MessageQueue, str]:
    """Logical queue to the broker that owns it now: the entry of the highest epoch; empty for other topics."""
    scopes: dict[str, list[TopicQueueMappingInfo]] = defaultdict(list)
    for mapping in (route.topic_queue_mapping_by_broker or {}).values():
        scopes[mapping.scope or GLOBAL_SCOPE].append(mapping)
    endpoints: dict[MessageQueue, str] = {}
    for scope, mappings in scopes.items():
        broker = logical_broker(scope)
        owners: dict[int, str] = {}
        for mapping in sorted(mappings, key=lambda mapping: mapping.epoch):
            owners.update(dict.fromkeys(mapping.curr_id_map or {}, mapping.bname))
        total = min(max(mapping.total_queues for mapping in mappings), MAX_QUEUES)
        endpoints.update({MessageQueue(topic, broker, n): owners.get(n, NO_ENDPOINT) for n in range(total)})
    return endpoints


def logical_broker(scope: str) -> str:
    """The broker name that logical queues of a scope carry."""
    return LOGICAL_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)


def route_changed(old: TopicRouteData | None, new: TopicRouteData) -> bool:
    """Whether clients have to be told. Order of entries does not count; of a broker, its name and addresses do."""
    return old is None or _comparable(old) != _comparable(new)


def _comparable(route: TopicRouteData) -> tuple[object, ...]:
    return (
        route.order_topic_conf,
        sorted(route.queue_datas, key=lambda data: data.broker_name),
        sorted((broker.broker_name, sorted(broker.broker_addrs.items())) for broker in route.broker_datas),
        route.filter_server_table,
        route.topic_queue_mapping_by_broker,
    )


def clamp_queues(route: TopicRouteData, limit: int) -> TopicRouteData:
    """The route of the default topic as a new topic may use it: at most `limit` queues per broker."""
    clamped = []
    for data in route.queue_datas:
        count = min(limit, data.read_queue_nums)
        clamped.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return msgspec.structs.replace(route, queue_datas=clamped)
