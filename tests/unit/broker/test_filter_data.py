"""SQL filters that heartbeats bring: versions, death, return, the file; and the positions that Apache expects in it."""

import json
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.filter.bloom import bloom_data
from pyromq.broker.filter.filters import Filters
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.record import encode_record
from tests.unit.broker.clock import FakeClock

DAY = 24 * 3_600_000


def sql(expression: str, version: int = 1, topic: str = "t") -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=expression, sub_version=version, expression_type=ExpressionType.SQL92
    )


def filters(path: Path, clock: FakeClock, **settings: bool) -> Filters:
    made = Filters(BrokerConfig(store_path_root_dir=path, **settings), clock)  # type: ignore[arg-type]  # switches
    made.registered.load()
    return made


def record(**properties: str) -> memoryview:
    return memoryview(encode_record(ReceivedMessage("t", b"body", properties)))


def code_of(call: pytest.ExceptionInfo[Refused]) -> ResponseCode:
    return call.value.code


@pytest.mark.parametrize(
    ("group", "topic", "positions"),
    [
        ("g", "t", [22, 87, 58]),
        ("order-group", "orders", [32, 37, 75]),
        ("a-rather-long-consumer-group-name", "TopicTest-with-a-long-name", [9, 97, 73]),
        ("é", "ü", [25, 14, 108]),
    ],
)
def test_bloom_positions_are_apaches(group: str, topic: str, positions: list[int]) -> None:
    # computed by Apache 5.3.3
    data = bloom_data(group, topic)
    assert (data.bit_num, data.bit_pos) == (112, positions)


def test_a_registered_filter_decides_on_records_and_arrivals(tmp_path: Path) -> None:
    # F-07
    clock = FakeClock()
    made = filters(tmp_path, clock)
    subscription = sql("a > 5")
    made.subscribe("g", [subscription])
    chosen = made.of_group("g", subscription, 1)
    assert chosen.entry is None
    assert chosen.record is not None
    assert chosen.record(record(a="6"))
    assert not chosen.record(record(a="5"))
    assert not chosen.record(memoryview(b"no record"))
    assert chosen.arrival(0, {"a": "6"})
    assert not chosen.arrival(0, {})


def test_pulls_learn_that_a_filter_is_missing_or_old(tmp_path: Path) -> None:
    made = filters(tmp_path, FakeClock())
    with pytest.raises(Refused) as missing:
        made.of_group("g", sql("a > 5"), 1)
    assert code_of(missing) == ResponseCode.FILTER_DATA_NOT_EXIST
    made.subscribe("g", [sql("a > 5", 3)])
    with pytest.raises(Refused) as old:
        made.of_group("g", sql("a > 5", 4), 4)
    assert code_of(old) == ResponseCode.FILTER_DATA_NOT_LATEST


def test_a_newer_version_replaces_and_an_older_or_broken_one_does_not(tmp_path: Path) -> None:
    made = filters(tmp_path, FakeClock())
    for expression, version in (("a = 1", 5), ("a = 2", 4), ("a = 3", 5), ("a = (", 9)):
        made.subscribe("g", [sql(expression, version)])
        known = made.registered.get("g", "t")
        assert known is not None
        assert (known.data.expression, known.data.client_version) == ("a = 1", 5)
    made.subscribe("g", [sql("a = 4", 6)])
    known = made.registered.get("g", "t")
    assert known is not None
    assert known.matches({"a": "4"})
    made.subscribe("g", [sql("a = 4", 7)])
    assert known.data.client_version == 7


def test_filters_of_a_group_that_left_live_a_day(tmp_path: Path) -> None:
    clock = FakeClock()
    made = filters(tmp_path, clock)
    made.subscribe("g", [sql("a = 1"), sql("b = 1", topic="u")])
    made.subscribe("g", [sql("a = 1")])
    other = made.registered.get("g", "u")
    assert other is not None
    assert other.is_dead
    made.forget_group("g")
    clock.forward(DAY - 1)
    made.subscribe("g", [sql("a = 1")])
    clock.forward(1)
    made.registered.persist()
    assert made.registered.get("g", "u") is None
    back = made.registered.get("g", "t")
    assert back is not None
    assert not back.is_dead
    assert len(made.registered) == 1


def test_the_file_is_apaches_and_everything_in_it_is_dead_at_first(tmp_path: Path) -> None:
    clock = FakeClock()
    made = filters(tmp_path, clock)
    born = clock.now
    made.subscribe("g", [sql("a > 1", 7)])
    made.registered.persist()
    path = tmp_path / "config" / "consumerFilter.json"
    assert json.loads(path.read_text()) == {
        "filterDataByTopic": {
            "t": {
                "groupFilterData": {
                    "g": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": [22, 87, 58]},
                        "bornTime": born,
                        "clientVersion": 7,
                        "consumerGroup": "g",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "a > 1",
                        "expressionType": "SQL92",
                        "topic": "t",
                    }
                },
                "topic": "t",
            }
        }
    }
    clock.forward(60_000)
    again = filters(tmp_path, clock)
    known = again.registered.get("g", "t")
    assert known is not None
    assert known.data.dead_time == clock.now - 30_000
    assert again.of_group("g", sql("a > 1", 7), 7).arrival(0, {"a": "2"})
    again.subscribe("g", [sql("a > 1", 7)])
    assert not known.is_dead


def test_an_expression_of_the_file_that_is_too_much_is_left_out(tmp_path: Path) -> None:
    clock = FakeClock()
    made = filters(tmp_path, clock)
    made.subscribe("g", [sql("a > 1"), sql("a > 2", topic="u")])
    made.registered.persist()
    path = tmp_path / "config" / "consumerFilter.json"
    path.write_text(path.read_text().replace("a > 2", "(" * 1000))
    again = filters(tmp_path, clock)
    assert again.registered.get("g", "t") is not None
    assert again.registered.get("g", "u") is None


def test_checks_and_inline_subscriptions(tmp_path: Path) -> None:
    # F-07
    made = filters(tmp_path, FakeClock())
    made.check(sql("a = 1"))
    made.check(SubscriptionData(topic="t", sub_string="a || b"))
    for expression in ("a = ", "", "(" * 1000):
        with pytest.raises(Refused) as broken:
            made.check(sql(expression))
        assert code_of(broken) == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        with pytest.raises(Refused):
            made.inline("t", expression, "SQL92")
    with pytest.raises(Refused) as unknown:
        made.inline("t", "x", "REGEX")
    assert code_of(unknown) == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert made.inline("t", "a = 1", "SQL92") is made.inline("t", "a = 1", "SQL92")


def test_the_switch(tmp_path: Path) -> None:
    # F-07: 1, not 23, when the broker serves no expressions at all
    made = filters(tmp_path, FakeClock(), enable_property_filter=False)
    made.subscribe("g", [sql("a = 1")])
    for call in (
        lambda: made.check(sql("a = ")),
        lambda: made.inline("t", "a = 1", "SQL92"),
        lambda: made.of_group("g", sql("a = 1"), 1),
    ):
        with pytest.raises(Refused) as refused:
            call()
        assert code_of(refused) == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("supported", "passes"), [(False, True), (True, False)])
def test_retries_pass_the_filter_of_their_topic_only_on_request(tmp_path: Path, supported: bool, passes: bool) -> None:
    made = filters(tmp_path, FakeClock(), filter_support_retry=supported)
    retry = SubscriptionData(topic="%RETRY%g", sub_string="*")
    made.subscribe("g", [sql("a = 1"), retry])
    chosen = made.of_group("g", retry)
    decide = chosen.record or (lambda _record: True)
    assert decide(record(RETRY_TOPIC="t", a="2")) is passes
    assert decide(record(RETRY_TOPIC="t", a="1"))
    assert decide(record(RETRY_TOPIC="unfiltered", a="2"))
    assert decide(record())
