"""What the client instance knows about the cluster: routes, broker addresses, endpoints of logical queues, versions.

Pure tables and look-ups. A broker address lives here exactly as long as some cached route mentions it.
"""

import random
from typing import NamedTuple

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.routes import MASTER_ID, any_address, static_endpoints

MAX_ROUTES = 50_000


class BrokerAddress(NamedTuple):
    """One broker process to read from; `version` is the last one its heartbeat answer carried, 0 if none did."""

    address: str
    is_slave: bool
    version: int


class Topology:
    """Routes by topic, addresses by broker name and id."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRouteData] = {}
        self.brokers: dict[str, dict[int, str]] = {}
        self.endpoints: dict[str, dict[MessageQueue, str]] = {}
        self.versions: dict[str, int] = {}

    def learn_brokers(self, route: TopicRouteData) -> None:
        """Replace the addresses of every broker that the route names."""
        for broker in route.broker_datas:
            self.brokers[broker.broker_name] = dict(broker.broker_addrs)

    def learn_endpoints(self, topic: str, route: TopicRouteData) -> None:
        endpoints = static_endpoints(topic, route)
        if endpoints:
            self.endpoints[topic] = endpoints
        else:
            self.endpoints.pop(topic, None)

    def remember(self, topic: str, route: TopicRouteData) -> None:
        """Keep a copy of a route; beyond the bound the one known longest goes."""
        self.routes[topic] = route
        if len(self.routes) > MAX_ROUTES:
            oldest = next(iter(self.routes))
            del self.routes[oldest]
            self.endpoints.pop(oldest, None)

    def drop_offline(self) -> list[str]:
        """Forget addresses that no cached route mentions any more, and names left empty; returns the addresses."""
        known = {
            address
            for route in self.routes.values()
            for broker in route.broker_datas
            for address in broker.broker_addrs.values()
        }
        dropped = []
        for name, addresses in list(self.brokers.items()):
            for broker_id, address in list(addresses.items()):
                if address not in known:
                    del addresses[broker_id]
                    self.versions.pop(address, None)
                    dropped.append(address)
            if not addresses:
                del self.brokers[name]
        return dropped

    def addresses(self, *, masters_only: bool = False) -> list[tuple[str, int, str]]:
        """Every known broker process as (name, id, address)."""
        return [
            (name, broker_id, address)
            for name, table in self.brokers.items()
            for broker_id, address in table.items()
            if not masters_only or broker_id == MASTER_ID
        ]

    def publish_address(self, broker: str) -> str | None:
        """The master of a broker name."""
        return self.brokers.get(broker, {}).get(MASTER_ID)

    def subscribe_address(self, broker: str, broker_id: int, *, only_this: bool = False) -> BrokerAddress | None:
        """Where to read: the id asked for, for a slave also the next one, else (unless `only_this`) any."""
        table = self.brokers.get(broker)
        if not table:
            return None
        found = broker_id
        if found not in table and found != MASTER_ID:
            found += 1
        if found not in table:
            if only_this:
                return None
            found = next(iter(table))
        address = table[found]
        return BrokerAddress(address, found != MASTER_ID, self.versions.get(address, 0))

    def admin_address(self, broker: str) -> str | None:
        """Any process of a broker name, the master first."""
        return any_address(self.brokers.get(broker, {}))

    def address_by_topic(self, topic: str) -> str | None:
        """Some broker of the topic: chosen at random, its master if it has one, else a random slave."""
        route = self.routes.get(topic)
        if route is None or not route.broker_datas:
            return None
        table = random.choice(route.broker_datas).broker_addrs
        return table.get(MASTER_ID) or (random.choice(list(table.values())) if table else None)

    def is_known(self, address: str) -> bool:
        return any(address in table.values() for table in self.brokers.values())

    def broker_of(self, queue: MessageQueue) -> str:
        """The broker that owns a queue: its own name, or the endpoint of a logical queue."""
        endpoints = self.endpoints.get(queue.topic)
        return endpoints.get(queue, queue.broker_name) if endpoints else queue.broker_name
