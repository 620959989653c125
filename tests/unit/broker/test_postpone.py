"""Which messages are parked, where, and what is refused: the decision alone, without a store."""

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.postpone import Postpone, level_of
from pyromq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.store.log.put import PutMessage, PutStatus

NOW = 1_700_000_000_123


def message(topic: str = "orders", sys_flag: int = 0, **properties: str) -> PutMessage:
    return PutMessage(topic, 3, b"x", encode_properties(properties), properties, sys_flag)


def hook(waiting: int = 0, **settings: int) -> Postpone:
    return Postpone(BrokerConfig(**settings), lambda: NOW, lambda _slot: waiting)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "queue"), [("1", 0), ("18", 17), ("19", 17), ("999999999", 17)])
def test_a_level_leads_to_its_queue(text: str, queue: int) -> None:
    # P-18
    parked = message(DELAY=text, TIMER_DELIVER_MS="5", TIMER_DELAY_MS="5", TIMER_DELAY_SEC="5", TAGS="t")
    assert hook()(parked) is None
    assert (parked.topic, parked.queue_id) == (SCHEDULE_TOPIC, queue)
    expected = {"DELAY": str(queue + 1), "TAGS": "t", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert parked.property_map == expected == decode_properties(parked.properties)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "9" * 400])
def test_what_is_no_level(text: str) -> None:
    assert level_of(text) <= 0
    plain = message(DELAY=text)
    assert hook()(plain) is None
    assert plain.topic == "orders"


@pytest.mark.parametrize(
    ("name", "value", "slot"),
    [
        ("TIMER_DELAY_SEC", 5, 1_700_000_005_000),
        ("TIMER_DELAY_MS", 877, 1_700_000_000_000),
        ("TIMER_DELAY_MS", 878, 1_700_000_001_000),
        ("TIMER_DELIVER_MS", 1_700_000_009_999, 1_700_000_009_000),
        ("TIMER_DELIVER_MS", 1_700_000_010_000, 1_700_000_009_000),
        ("TIMER_DELIVER_MS", 1_700_000_010_001, 1_700_000_010_000),
    ],
)
def test_a_time_leads_to_the_slot_that_ends_at_or_after_it(name: str, value: int, slot: int) -> None:
    # P-19
    parked = message("orders", 0, **{name: str(value)})
    assert hook()(parked) is None
    assert (parked.topic, parked.queue_id) == (TIMER_TOPIC, 0)
    assert (parked.property_map or {})["TIMER_OUT_MS"] == str(slot)
    assert decode_properties(parked.properties) == parked.property_map


def test_seconds_win_over_milliseconds_and_both_over_a_time() -> None:
    parked = message(TIMER_DELAY_SEC="5", TIMER_DELAY_MS="9000", TIMER_DELIVER_MS=str(NOW + 20_000))
    hook()(parked)
    assert (parked.property_map or {})["TIMER_OUT_MS"] == "1700000005000"


@pytest.mark.parametrize(
    "plain",
    [
        message(TIMER_DELIVER_MS=str(NOW)),
        message(TIMER_DELAY_MS="-5"),
        message(TIMER_DELIVER_MS=str(NOW + 5_000), TIMER_OUT_MS="1"),
        message(topic=TIMER_TOPIC, TIMER_DELIVER_MS=str(NOW + 5_000), TIMER_OUT_MS="1"),
        message(sys_flag=sysflag.PREPARED, TIMER_DELIVER_MS=str(NOW + 5_000)),
        message(sys_flag=sysflag.PREPARED, DELAY="3"),
        message(sys_flag=sysflag.ROLLBACK, DELAY="3"),
    ],
)
def test_what_is_stored_as_it_is(plain: PutMessage) -> None:
    topic, text = plain.topic, plain.properties
    assert hook()(plain) is None
    assert (plain.topic, plain.properties) == (topic, text)


def test_a_committed_message_is_delayed() -> None:
    parked = message(sys_flag=sysflag.COMMIT, DELAY="3")
    hook()(parked)
    assert parked.topic == SCHEDULE_TOPIC


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (message(TIMER_DELIVER_MS="soon"), PutStatus.WHEEL_TIMER_MSG_ILLEGAL),
        (message(TIMER_DELAY_SEC=str(3 * 86_400 + 1)), PutStatus.WHEEL_TIMER_MSG_ILLEGAL),
        (message(TIMER_DELIVER_MS=str(NOW), TIMER_DEL_UNIQKEY="orders+u"), PutStatus.WHEEL_TIMER_MSG_ILLEGAL),
        (message(DELAY="1", big="x" * 32_740), PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_refusals_say_why(refused: PutMessage, status: PutStatus) -> None:
    result = hook()(refused)
    assert result is not None
    assert result.status is status
    assert result.reason


def test_no_timer_and_full_slots() -> None:
    result = hook(timer_wheel_enable=False)(message(TIMER_DELAY_SEC="5"))
    assert result is not None
    assert result.status is PutStatus.WHEEL_TIMER_NOT_ENABLE
    result = hook(20, timer_congest_num_each_slot=10)(message(TIMER_DELAY_SEC="5"))
    assert result is not None
    assert result.status is PutStatus.WHEEL_TIMER_FLOW_CONTROL
    assert hook(10, timer_congest_num_each_slot=10)(message(TIMER_DELAY_SEC="5")) is None
