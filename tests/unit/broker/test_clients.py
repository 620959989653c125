"""Producers and consumers: what a client may hold, and what its going costs."""

from typing import Any, cast

import pytest

from pyromq.broker.cluster.clients import Client, ConsumerGroup, Consumers, Producers
from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.filter.filters import Filters
from pyromq.protocol import bounds
from pyromq.protocol.bodies.clients import ConsumerData, SubscriptionData
from pyromq.protocol.codes import ResponseCode
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from tests.unit.broker.clock import FakeClock

MANY = 2_000


class FakeConnection:
    """Counts how often it is looked for in a table."""

    def __init__(self, host: str = "192.0.2.1") -> None:
        self.peer = Address(host, 1)
        self.looks = 0

    def __hash__(self) -> int:
        self.looks += 1
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def member(connection: FakeConnection, client_id: str = "c") -> Client:
    return Client(cast("Connection", connection), client_id, None, 0, 0)


def wanting(group: str, *expressions: str) -> ConsumerData:
    subscriptions = [SubscriptionData(topic=f"t{number}", sub_string=each) for number, each in enumerate(expressions)]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


def test_the_end_of_a_producer_costs_what_it_held() -> None:
    producers = Producers(FakeClock())
    first, second = FakeConnection(), FakeConnection()
    for number in range(MANY):
        producers.register(f"g{number}", member(first))
        producers.register(f"g{number}", member(second, "d"))
    producers.register("own", member(second, "d"))
    first.looks = second.looks = 0
    producers.connection_closed(cast("Connection", first))
    assert first.looks < 20 * MANY
    assert len(producers) == MANY + 1
    assert producers.connection_of("c") is None
    assert cast("object", producers.connection_of("d")) is second
    first.looks = 0
    producers.connection_closed(cast("Connection", first))
    assert first.looks < 20
    producers.connection_closed(cast("Connection", second))
    assert len(producers) == 0
    assert producers.connection_of("d") is None


def test_a_producer_that_leaves_one_group_is_still_found_by_its_id() -> None:
    producers = Producers(FakeClock())
    connection = FakeConnection()
    for group in ("a", "b"):
        producers.register(group, member(connection))
    producers.unregister("a", cast("Connection", connection))
    assert cast("object", producers.connection_of("c")) is connection
    producers.unregister("b", cast("Connection", connection))
    assert producers.connection_of("c") is None


def test_an_id_that_changes_leaves_nothing_behind() -> None:
    producers = Producers(FakeClock())
    connection = FakeConnection()
    for number in range(50):
        producers.register("g", member(connection, f"c{number}"))
    assert cast("object", producers.connection_of("c49")) is connection
    assert producers.connection_of("c0") is None
    producers.connection_closed(cast("Connection", connection))
    assert producers.connection_of("c49") is None


def test_the_end_of_a_consumer_costs_what_it_held() -> None:
    changed: list[ConsumerGroup] = []
    consumers = Consumers(FakeClock())
    consumers.listeners.append(changed.append)
    first, second = FakeConnection(), FakeConnection()
    for number in range(MANY):
        consumers.register(wanting(f"g{number}", "*"), member(first))
        consumers.register(wanting(f"g{number}", "*"), member(second))
    changed.clear()
    first.looks = 0
    consumers.connection_closed(cast("Connection", first))
    assert first.looks < 20 * MANY
    assert len(changed) == MANY
    assert len(consumers) == MANY


def test_the_filters_of_a_group_go_without_a_look_at_those_of_others(tmp_path: Any) -> None:
    class Group(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Group.compared += 1
            return str.__eq__(self, cast("str", other))

        __hash__ = str.__hash__

    filters = Filters(BrokerConfig(store_path_root_dir=tmp_path), FakeClock())
    groups = [Group(f"g{number}") for number in range(200)]
    for group in groups:
        filters.of_group(group, SubscriptionData(topic="t", sub_string="a", tags_set=["a"], code_set=[97]))
    Group.compared = 0
    for group in groups:
        filters.forget_group(group)
    assert Group.compared < 10 * len(groups)


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_one_client_is_in_so_many_groups_and_no_more(kind: str) -> None:
    producers, consumers = Producers(FakeClock()), Consumers(FakeClock())
    greedy, modest = FakeConnection(), FakeConnection()

    def join(group: str, connection: FakeConnection) -> None:
        if kind == "producers":
            producers.register(group, member(connection))
        else:
            consumers.register(wanting(group), member(connection))

    for number in range(bounds.GROUPS.most):
        join(f"g{number}", greedy)
    join("g0", greedy)  # a sign of life is no further group
    with pytest.raises(Refused, match="4096") as refused:
        join("one more", greedy)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    join("one more", modest)


def test_subscriptions_are_bounded_for_each_party_and_in_all() -> None:
    consumers = Consumers(FakeClock(), max_text=1_000, max_text_each=400)
    first, again, other = FakeConnection(), FakeConnection(), FakeConnection("192.0.2.2")
    consumers.register(wanting("a", "x" * 300), member(first))
    with pytest.raises(Refused, match="share of 400"):
        consumers.register(wanting("b", "x" * 300), member(again))
    assert consumers.get("b") is None
    consumers.register(wanting("b", "x" * 300), member(other))
    third = FakeConnection("192.0.2.3")
    with pytest.raises(Refused, match="would pass 1000"):
        consumers.register(wanting("c", "x" * 395), member(third))
    # Another member of the group takes the subscription over, and gives it back with the group.
    consumers.register(wanting("a", "*"), member(again))
    consumers.connection_closed(cast("Connection", first))
    consumers.connection_closed(cast("Connection", again))
    consumers.connection_closed(cast("Connection", other))
    assert consumers.text.total == 0
    assert len(consumers.text) == 0
