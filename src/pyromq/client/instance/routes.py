"""What clients make of a route: where messages of a topic can go, whether a route changed, the default-topic clamp.

Pure functions over `TopicRouteData`; who asks and who is told lives in `instance.py`, addresses in `topology.py`.
"""

import random
from dataclasses import dataclass, field

import msgspec

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.routes import publish_queues

INT_MASK = 0x7FFF_FFFF


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


def publish_info(topic: str, route: TopicRouteData) -> PublishInfo:
    """The queues that can be written, and whether their order is configured."""
    return PublishInfo(publish_queues(topic, route), ordered=bool(route.order_topic_conf), has_route=True, route=route)


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
