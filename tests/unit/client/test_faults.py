"""Broker avoidance and queue choice."""

import pytest

from pyromq.client.instance.routes import PublishInfo, RotatingIndex, publish_info
from pyromq.client.producer.faults import CLASSIC_TABLE, CURRENT_TABLE, AvoidanceTable, FaultTable, choose_queue
from pyromq.protocol.message import Message, MessageQueue
from pyromq.selectors import ByMachineRoom, argument_hash, by_hash, by_random
from tests.unit.client.fakes import route_of


class Time:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def table(time: Time, steps: AvoidanceTable = CURRENT_TABLE) -> FaultTable:
    return FaultTable(steps, time)


@pytest.mark.parametrize(
    ("latency", "current", "classic"),
    [
        (49, 0, 0),
        (549, 0, 0),
        (550, 2000, 30000),
        (999, 2000, 30000),
        (1800, 5000, 60000),
        (3000, 6000, 180000),
        (5000, 10000, 180000),
        (10000, 10000, 180000),
        (15000, 30000, 600000),
    ],
)
def test_both_tables(latency: int, current: int, classic: int) -> None:
    # P-78
    assert CURRENT_TABLE.avoidance(latency) == current
    assert CLASSIC_TABLE.avoidance(latency) == classic


def test_tables_are_settable_and_checked() -> None:
    # P-78
    own = AvoidanceTable((10, 20), (100, 200), isolation_ms=20)
    assert own.avoidance(25) == 200
    with pytest.raises(ValueError, match="same length"):
        AvoidanceTable((1,), (1, 2), isolation_ms=1)
    with pytest.raises(ValueError, match="ascend"):
        AvoidanceTable((2, 1), (1, 2), isolation_ms=1)


def test_isolation_uses_a_fixed_latency() -> None:
    # P-80: 10 s now, 600 s with the classic table
    for steps, avoided in ((CURRENT_TABLE, 10_000), (CLASSIC_TABLE, 600_000)):
        time = Time()
        faults = table(time, steps)
        faults.update("b", 3, isolate=True, reachable=True)
        record = faults.get("b")
        assert record is not None
        assert record.available_at == time.now + avoided
        assert record.latency_ms == 3


def test_success_avoids_by_measured_latency() -> None:
    # P-82
    time = Time()
    faults = table(time)
    faults.update("b", 700, isolate=False, reachable=True)
    assert not faults.available("b")
    time.now += 1999
    assert not faults.available("b")
    time.now += 1
    # P-81: at its time it is available again; P-74: the record stays, it has only expired
    assert faults.available("b")
    assert faults.get("b") is not None


def test_availability_of_unknown_brokers() -> None:
    # P-81
    faults = table(Time())
    assert faults.available("new")
    assert faults.reachable("new")


def test_avoidance_only_moves_forward() -> None:
    # P-79
    time = Time()
    faults = table(time)
    faults.update("b", 0, isolate=True, reachable=False)
    faults.update("b", 5, isolate=False, reachable=True)
    assert not faults.available("b")
    assert faults.reachable("b")
    faults.update("b", 600, isolate=False, reachable=True)
    time.now += 9_999
    assert not faults.available("b")


def test_due_records_come_once_per_interval() -> None:
    # P-79: checkStamp
    time = Time()
    faults = table(time)
    faults.update("b", 0, isolate=True, reachable=False)
    assert [broker for broker, _ in faults.due(2000)] == ["b"]
    assert [broker for broker, _ in faults.due(2000)] == []
    time.now += 2000
    assert [broker for broker, _ in faults.due(2000)] == ["b"]
    faults.forget("b")
    assert faults.get("b") is None


def two_brokers() -> PublishInfo:
    info = publish_info("T", route_of({"a": "a:1", "b": "b:1"}, 2))
    info.index = RotatingIndex(-1)
    return info


def test_retry_avoids_the_last_broker() -> None:
    # P-71
    info = two_brokers()
    assert [choose_queue(info, "a", None).broker_name for _ in range(6)] == ["b"] * 6
    assert {choose_queue(info, None, None).broker_name for _ in range(4)} == {"a", "b"}


def test_retry_on_the_only_broker_falls_back_to_round_robin() -> None:
    # P-71
    info = publish_info("T", route_of({"a": "a:1"}, 2))
    assert choose_queue(info, "a", None).broker_name == "a"


def test_latency_mode_takes_available_brokers() -> None:
    # P-72, P-85: later messages too
    faults = table(Time())
    faults.update("a", 0, isolate=True, reachable=True)
    info = two_brokers()
    assert {choose_queue(info, None, faults).broker_name for _ in range(8)} == {"b"}


def test_latency_mode_prefers_reachable_over_nothing() -> None:
    # P-72
    faults = table(Time())
    faults.update("a", 0, isolate=True, reachable=False)
    faults.update("b", 0, isolate=True, reachable=True)
    info = two_brokers()
    assert {choose_queue(info, None, faults).broker_name for _ in range(8)} == {"b"}
    faults.update("b", 0, isolate=True, reachable=False)
    # P-73: with nothing left, plain round robin; the list of queues is not touched
    before = list(info.queues)
    assert {choose_queue(info, None, faults).broker_name for _ in range(8)} == {"a", "b"}
    assert info.queues == before


def test_latency_mode_never_returns_to_the_last_broker_first() -> None:
    # P-72: the 4.x variant returned a queue only when its broker was the last one
    faults = table(Time())
    info = two_brokers()
    assert {choose_queue(info, "a", faults).broker_name for _ in range(8)} == {"b"}


def test_latency_mode_reseeds_the_index_on_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    # P-72
    info = two_brokers()
    seeds: list[int] = []
    monkeypatch.setattr(RotatingIndex, "reset", lambda _: seeds.append(1))
    choose_queue(info, None, table(Time()))
    assert not seeds
    choose_queue(info, "a", table(Time()))
    assert seeds == [1]


EIGHT = [MessageQueue("T", "broker-a", number) for number in range(8)]
MESSAGE = Message("T", b"x")


@pytest.mark.parametrize(("key", "index"), [("TagA", 7), ("OrderID188", 0), ("order-1", 6), ("user-7", 3)])
def test_hash_selector_agrees_with_java(key: str, index: int) -> None:
    # P-76
    assert by_hash(EIGHT, MESSAGE, key).queue_id == index


def test_hash_of_other_arguments() -> None:
    # P-77
    assert argument_hash(5) == 5
    assert argument_hash(2**31) == -(2**31)
    assert argument_hash(2**32) == 1
    assert argument_hash(-1 - 2**32) == 1
    assert argument_hash(True) == 1231
    assert argument_hash(b"x") == argument_hash("b'x'")
    assert by_hash(EIGHT, MESSAGE, -3).queue_id == 3


def test_random_and_room_selectors() -> None:
    # P-77
    assert by_random(EIGHT, MESSAGE, None) in EIGHT
    rooms = [MessageQueue("T", "hz@broker-a", 0), MessageQueue("T", "sh@broker-b", 0)]
    assert ByMachineRoom({"sh"})(rooms, MESSAGE, None) == rooms[1]
    assert ByMachineRoom({"bj"})(rooms, MESSAGE, None) is None
