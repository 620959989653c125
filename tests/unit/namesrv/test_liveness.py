"""Leaving, falling silent, losing the connection."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.members import BrokerKey, GroupChange
from pyromq.namesrv.routes import MAX_TIMEOUT, RouteTable
from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.errors import ValidationError
from tests.unit.namesrv.conftest import Clock, Register, registrar


def is_empty(table: RouteTable) -> bool:
    return not (table.brokers or table.clusters or table.live or table.filter_servers or len(table.topics))


def test_the_last_address_takes_everything_with_it(table: RouteTable, register: Register) -> None:
    mapping = TopicQueueMappingInfo(bname="a", topic="T")
    register("a", 0, "T", filters=["h:1"], mappings={"T": mapping})
    table.unregister("c", "a", "a-0:10911")
    assert is_empty(table)
    assert table.topics.entries == 0
    assert not table.topics.mappings("T")


def test_other_brokers_and_their_topics_stay(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", "onlyA")
    register("b", 0, "T", "onlyB")
    table.unregister("c", "a", "a-0:10911")
    assert table.topics.names() == ["T", "onlyB"]
    assert list(table.topics.queues("T")) == ["b"]
    assert table.clusters == {"c": {"b"}}


def test_a_slave_keeps_the_route_when_its_master_leaves(table: RouteTable, register: Register) -> None:
    register("a", 0, "T")
    register("a", 1)
    table.unregister("c", "a", "a-0:10911")
    route = table.route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: "a-1:10911"}
    assert route.queue_datas[0].perm == 6


def test_queues_of_an_acting_master_group_become_read_only(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", acting=True)
    register("a", 1, acting=True)
    register("a", 2, acting=True)
    table.unregister("c", "a", "a-2:10911")
    assert table.topics.queues("T")["a"].perm == 6
    table.unregister("c", "a", "a-0:10911")
    assert table.topics.queues("T")["a"].perm == 4


def test_unregistering_strangers_changes_nothing(table: RouteTable, register: Register) -> None:
    register("a", 0, "T")
    assert table.unregister("c", "nobody", "h:1") is None
    assert table.unregister("c", "a", "h:1") is None
    assert table.route("T") is not None


def test_silence_of_120_seconds_removes_a_broker(table: RouteTable, register: Register, clock: Clock) -> None:
    # N-11
    connection = object()
    register("a", 0, "T", connection=connection)
    clock.now += 120.0
    assert table.expire() == ([], [])
    clock.now += 0.001
    assert table.expire() == ([connection], [])
    assert is_empty(table)


def test_each_sign_of_life_counts(table: RouteTable, register: Register, clock: Clock) -> None:
    # N-09
    register("a", 0, "T")
    for _ in range(5):
        clock.now += 100.0
        table.refresh("c", "a-0:10911")
        assert table.expire() == ([], [])
    for _ in range(5):
        clock.now += 100.0
        register("a", 0, "T")
        assert table.expire() == ([], [])


def test_refresh_of_strangers_creates_nothing(table: RouteTable) -> None:
    table.refresh("c", "h:1")
    assert is_empty(table)
    assert table.version("c", "h:1") is None


@pytest.mark.parametrize(
    ("asked", "granted"), [(10.0, 10.0), (None, 120.0), (0.0, 120.0), (-5.0, 120.0), (1e12, MAX_TIMEOUT)]
)
def test_a_broker_may_ask_for_its_own_timeout(
    table: RouteTable, register: Register, clock: Clock, asked: float | None, granted: float
) -> None:
    register("a", 0, "T", timeout=asked)
    clock.now += granted
    assert table.expire() == ([], [])
    clock.now += 0.001
    assert table.expire() == ([None], [])


def test_a_closed_connection_removes_its_brokers_only(table: RouteTable, register: Register) -> None:
    # N-08
    first, second = object(), object()
    register("a", 0, "T", connection=first)
    register("b", 0, "T", connection=first)
    register("d", 0, "T", connection=second)
    table.disconnected(first)
    assert list(table.brokers) == ["d"]
    table.disconnected(object())
    assert list(table.brokers) == ["d"]


def test_a_late_close_of_an_old_connection_is_harmless(table: RouteTable, register: Register) -> None:
    old, new = object(), object()
    register("a", 0, "T", connection=old)
    register("a", 0, "T", connection=new)
    table.disconnected(old)
    assert table.route("T") is not None
    assert table.live[BrokerKey("c", "a-0:10911")].connection is new


def test_a_change_of_the_smallest_id_tells_the_others(table: RouteTable, register: Register) -> None:
    assert register("a", 2, acting=True).change is None
    assert register("a", 2, acting=True).change is None
    assert register("a", 3, acting=True).change is None
    change = register("a", 1, acting=True, ha="10.0.0.3:10912").change
    assert change == GroupChange(
        "a", 1, "a-1:10911", ("a-2:10911", "a-3:10911"), offline_address=None, ha_address="10.0.0.3:10912"
    )
    change = table.unregister("c", "a", "a-1:10911")
    assert change == GroupChange(
        "a", 2, "a-2:10911", ("a-2:10911", "a-3:10911"), offline_address="a-1:10911", ha_address=None
    )
    assert table.unregister("c", "a", "a-3:10911") is None


def test_changes_of_brokers_that_vanish_are_reported(table: RouteTable, register: Register, clock: Clock) -> None:
    connection = object()
    register("a", 0, "T", acting=True, connection=connection)
    register("a", 1, acting=True)
    (change,) = table.disconnected(connection)
    assert (change.min_broker_id, change.offline_address) == (1, "a-0:10911")
    register("a", 0, "T", acting=True)
    clock.now += 60
    table.refresh("c", "a-1:10911")
    clock.now += 61
    _, (change,) = table.expire()
    assert (change.min_broker_id, change.offline_address) == (1, "a-0:10911")


def test_an_address_that_changes_its_name_leaves_the_old_one(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1")
    register("b", 0, "T", address="h:1")
    assert list(table.brokers) == ["b"]
    assert table.clusters == {"c": {"b"}}


def test_unregistering_under_a_wrong_name_leaves_the_broker_to_expire(
    table: RouteTable, register: Register, clock: Clock
) -> None:
    register("a", 0, "T")
    register("b", 0, "T")
    table.unregister("c", "b", "a-0:10911")
    assert set(table.brokers) == {"a", "b"}
    clock.now += 121
    table.expire()
    assert is_empty(table)


def test_a_rejected_newcomer_leaves_no_filter_servers(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1", state=2)
    register("a", 1, address="h:2", state=1, filters=["f:1"])
    register("a", 0, "T", address="h:2", state=1, filters=["f:1"])
    assert not table.filter_servers


BROKERS = st.tuples(
    st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(["h:1", "h:2", "h:3"]), st.sampled_from("cd")
)
STEPS = st.one_of(
    st.tuples(st.just("register"), BROKERS, st.integers(0, 2), st.sampled_from([None, True, False])),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("disconnect"), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([50.0, 130.0])),
    st.tuples(st.just("delete"), st.sampled_from(["T1", "T2"])),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_the_tables_agree_whatever_happens(steps: list[tuple[Any, ...]]) -> None:
    clock = Clock()
    table = RouteTable(NamesrvConfig(), clock)
    register = registrar(table)
    connections = [object(), object(), object()]
    for step in steps:
        match step:
            case "register", (name, broker_id, address, cluster), number, acting:
                with contextlib.suppress(ValidationError):
                    register(
                        name, broker_id, "T1", f"T{number}", address=address, cluster=cluster, state=number,
                        acting=acting, filters=["f:1"] if number else [], connection=connections[number],
                    )  # fmt: skip
            case "unregister", (name, _, address, cluster):
                with contextlib.suppress(ValidationError):
                    table.unregister(cluster, name, address)
            case "disconnect", number:
                table.disconnected(connections[number])
            case "wait", seconds:
                clock.now += seconds
                table.expire()
            case "delete", topic:
                table.delete_topic(topic)
        assert_consistent(table)
    clock.now += 121
    table.expire()
    assert is_empty(table)
    assert table.topics.entries == 0


def assert_consistent(table: RouteTable) -> None:
    assert set().union(*table.clusters.values()) == set(table.brokers)
    assert all(table.clusters.values())
    for name, group in table.brokers.items():
        assert group.broker_addrs
        for address in group.broker_addrs.values():
            assert any(key.address == address and live.name == name for key, live in table.live.items())
    held = [set(table.topics.queues(topic)) for topic in table.topics.names()]
    assert all(held)
    assert set().union(*held) <= set(table.brokers)
    assert sum(map(len, held)) == table.topics.entries
    assert set(table.filter_servers) <= set(table.live)
