"""The judge of fault schedules finds each broken promise in a history made by hand, and nothing in a good one."""

from collections.abc import Callable

import msgspec
import pytest

from tests.faults.harness.checker import (
    History,
    Violation,
    check,
    disordered,
    early,
    half_seen,
    invented,
    lost,
    misplaced,
    missing,
    skipped,
)
from tests.faults.harness.history import (
    Acknowledged,
    Audited,
    Began,
    Consumed,
    Decided,
    Delivered,
    Ended,
    Event,
    Found,
    Position,
    Sent,
    Subscribed,
)
from tests.faults.harness.report import duplicates, recoveries

GROUP, TOPIC, BROKER = "g", "plain", "broker-a"
Rule = Callable[[History], list[Violation]]


def subscribed(mode: str = "concurrent") -> Subscribed:
    return Subscribed(t=0, group=GROUP, topic=TOPIC, mode=mode)


def sent(name: str, t: int, *, due: int = 0, stream: str = "", transactional: bool = False) -> Sent:
    return Sent(t=t, id=name, topic=TOPIC, due=due, stream=stream, transactional=transactional)


def acknowledged(name: str, t: int, offset: int, status: str = "SEND_OK", *, placed: bool = True) -> Acknowledged:
    return Acknowledged(t=t, id=name, status=status, broker=BROKER, queue=0, offset=offset, placed=placed)


def delivered(
    name: str, t: int, offset: int, *, attempt: int = 0, sound: bool = True, topic: str = TOPIC, member: str = "m"
) -> Delivered:
    return Delivered(
        t=t,
        id=name,
        group=GROUP,
        member=member,
        topic=topic,
        broker=BROKER,
        queue=0,
        offset=offset,
        attempt=attempt,
        sound=sound,
    )


def consumed(t: int, offset: int) -> Consumed:
    return Consumed(t=t, group=GROUP, topic=TOPIC, broker=BROKER, queue=0, offset=offset)


def position(t: int, offset: int) -> Position:
    return Position(t=t, node="a0", group=GROUP, topic=TOPIC, broker=BROKER, queue=0, offset=offset)


def at_node(name: str, t: int, offset: int, node: str = "a1") -> Found:
    return Found(t=t, id=name, node=node, topic=TOPIC, broker=BROKER, queue=0, offset=offset)


GOOD: list[Event] = [
    subscribed(),
    sent("m-0", 10),
    acknowledged("m-0", 20, 0),
    sent("m-1", 30),
    delivered("m-0", 40, 0),
    acknowledged("m-1", 50, 1, "FLUSH_SLAVE_TIMEOUT"),
    position(60, 1),
    delivered("m-1", 70, 1),
    delivered("m-0", 75, 0, member="other"),
    position(80, 2),
    at_node("m-0", 90, 0),
    at_node("m-1", 91, 1),
    Audited(t=95, node="a1", broker=BROKER, since=85, statuses=("SEND_OK", "FLUSH_SLAVE_TIMEOUT")),
]


def texts(rule: Rule, *events: Event) -> list[str]:
    return [str(violation) for violation in rule(History(events))]


def test_nothing_is_wrong_with_a_good_history() -> None:
    assert check(History(GOOD)) == []
    assert check(History(reversed(GOOD))) == [], "the order of the lines does not matter, their times do"


def test_an_acknowledged_message_that_never_comes_is_lost() -> None:
    history = [event for event in GOOD if not (isinstance(event, Delivered) and event.id == "m-1")]
    assert len(texts(lost, *history)) == 1
    assert "m-1" in texts(lost, *history)[0]


def test_what_was_not_acknowledged_may_come_or_not() -> None:
    assert check(History([subscribed(), sent("m-0", 10)])) == []
    assert check(History([subscribed(), sent("m-0", 10), delivered("m-0", 20, 0)])) == []


def test_each_group_of_a_topic_is_owed_its_messages() -> None:
    second = Subscribed(t=0, group="second", topic=TOPIC, mode="concurrent")
    assert len(texts(lost, *GOOD, second)) == 2


def test_a_committed_transaction_is_owed_and_a_rolled_back_one_is_not() -> None:
    half = [subscribed(), sent("m-0", 10, transactional=True), acknowledged("m-0", 20, 7, placed=False)]
    assert texts(lost, *half) == []
    assert texts(lost, *half, Decided(t=15, id="m-0", commit=False)) == []
    assert len(texts(lost, *half, Decided(t=15, id="m-0", commit=True))) == 1


@pytest.mark.parametrize(
    "event",
    [
        delivered("nobody-1", 40, 5),
        delivered("m-0", 5, 5),  # before it was sent
        delivered("m-0", 99, 5, sound=False),
        delivered("m-0", 99, 5, topic="another"),
    ],
)
def test_what_was_not_sent_so_is_invented(event: Delivered) -> None:
    assert len(texts(invented, *GOOD, event)) == 1


@pytest.mark.parametrize(
    "events",
    [
        [sent("m-2", 51), acknowledged("m-2", 52, 1)],  # one place for two receipts
        [sent("m-2", 51), delivered("m-2", 99, 1)],  # another message than the one acknowledged there
        [at_node("m-0", 99, 1)],  # a slave that differs
    ],
)
def test_a_place_with_two_messages_is_misplaced(events: list[Event]) -> None:
    assert len(texts(misplaced, *GOOD, *events)) == 1


def test_what_was_sent_back_lies_elsewhere() -> None:
    assert texts(misplaced, *GOOD, delivered("m-1", 99, 0, attempt=1)) == []


def test_a_stream_that_lies_in_another_order_is_disordered() -> None:
    first = [sent("m-0", 10, stream="s"), acknowledged("m-0", 20, 5)]
    assert len(texts(disordered, *first, sent("m-1", 30, stream="s"), acknowledged("m-1", 40, 4))) == 1
    assert texts(disordered, *first, sent("m-1", 30, stream="s"), acknowledged("m-1", 40, 6)) == []
    at_once = [sent("m-1", 15, stream="s"), acknowledged("m-1", 40, 4)]
    assert texts(disordered, *first, *at_once) == [], "either order is right when both were under way"


def test_an_ordered_group_gets_one_after_the_other() -> None:
    start = [subscribed("orderly"), delivered("m-0", 10, 0), consumed(12, 0), delivered("m-1", 20, 1)]
    again = [delivered("m-0", 30, 0, member="other"), consumed(31, 0), delivered("m-1", 32, 1), consumed(33, 1)]
    assert texts(disordered, *start) == []
    assert texts(disordered, *start, *again) == [], "a new owner may begin again where the group was"
    assert len(texts(disordered, *start, delivered("m-3", 30, 3))) == 1
    assert len(texts(disordered, *start, delivered("m-2", 30, 2))) == 1, "the one before was not consumed"
    assert texts(disordered, *start, consumed(29, 1), delivered("m-2", 30, 2)) == []


def test_a_message_before_its_time_is_early() -> None:
    delayed = [sent("m-0", 0, due=1_000)]
    assert len(texts(early, *delayed, delivered("m-0", 999, 0))) == 1
    assert texts(early, *delayed, delivered("m-0", 1_000, 0)) == []


def test_a_clock_that_jumped_excuses_as_much_as_it_jumped() -> None:
    jump = Began(t=10, number=0, kind="clock", text="", brokers=(BROKER,), clock=BROKER, step=300)
    delayed = [sent("m-0", 0, due=1_000), jump]
    assert texts(early, *delayed, delivered("m-0", 700, 0)) == []
    assert len(texts(early, *delayed, delivered("m-0", 699, 0))) == 1
    elsewhere = [sent("m-0", 0, due=1_000), Began(t=10, number=0, kind="clock", text="", clock="broker-b", step=300)]
    assert len(texts(early, *elsewhere, delivered("m-0", 700, 0))) == 1
    escaped = msgspec.structs.replace(delivered("m-0", 700, 0), broker="broker-b")
    assert len(texts(early, *delayed, escaped)) == 1
    assert texts(early, *delayed, acknowledged("m-0", 20, 0), escaped) == []  # taken while the clock was wrong
    assert len(texts(early, *delayed, acknowledged("m-0", 5, 0), escaped)) == 1  # taken while it was right


@pytest.mark.parametrize(
    "decision", [None, Decided(t=15, id="m-0", commit=False), Decided(t=31, id="m-0", commit=True)]
)
def test_a_half_message_is_not_to_be_seen(decision: Decided | None) -> None:
    half = [sent("m-0", 10, transactional=True), delivered("m-0", 30, 0)]
    assert len(texts(half_seen, *half, *([decision] if decision else []))) == 1
    assert texts(half_seen, *half, Decided(t=20, id="m-0", commit=True)) == []


def test_a_group_beyond_what_it_was_given_has_skipped() -> None:
    events = [subscribed(), delivered("m-0", 10, 0), delivered("m-2", 20, 2)]
    assert texts(skipped, *events, position(30, 1)) == []
    assert len(texts(skipped, *events, position(30, 3))) == 1
    assert "[1]" in texts(skipped, *events, position(30, 3))[0]
    assert len(texts(skipped, *events, position(15, 3), delivered("m-1", 25, 1))) == 1, "given later is too late"
    assert len(texts(skipped, *events, delivered("m-1", 25, 9, attempt=1), position(30, 3))) == 1


def test_pop_groups_may_be_ahead_of_what_was_delivered() -> None:
    assert texts(skipped, subscribed("pop"), position(30, 3)) == []


def test_a_node_without_what_it_must_have_misses_it() -> None:
    copies = [event for event in GOOD if not (isinstance(event, Found) and event.id == "m-0")]
    assert len(texts(missing, *copies)) == 1
    asynchronous = [event for event in GOOD if not (isinstance(event, Found) and event.id == "m-1")]
    assert len(texts(missing, *asynchronous)) == 1
    asynchronous[-1] = Audited(t=95, node="a1", broker=BROKER, since=85, statuses=("SEND_OK",))
    assert texts(missing, *asynchronous) == [], "it was not said to be there"
    asynchronous[-1] = Audited(t=95, node="a1", broker=BROKER, since=45, statuses=("SEND_OK", "FLUSH_SLAVE_TIMEOUT"))
    assert texts(missing, *asynchronous) == [], "it was acknowledged later"


def test_what_an_ordered_listener_refuses_is_no_duplicate() -> None:
    refused = [subscribed("orderly"), delivered("m-0", 10, 0), delivered("m-0", 20, 0), consumed(21, 0)]
    assert duplicates(History(refused)) == 0
    assert duplicates(History([*refused, delivered("m-0", 30, 0)])) == 1


def test_numbers_of_the_report() -> None:
    fault = [Began(t=22, number=0, kind="kill", text="kill a0", brokers=(BROKER,)), Ended(t=25, number=0)]
    history = History([*GOOD, *fault])
    assert duplicates(history) == 1
    (recovery,) = recoveries(history, (BROKER,))
    assert (recovery.fault, recovery.send, recovery.deliver) == ("kill", 0.0, 0.0)
    unfinished = History(
        [Began(t=100, number=0, kind="kill", text="kill a0", brokers=(BROKER,)), Ended(t=110, number=0)]
    )
    assert recoveries(unfinished, (BROKER,))[0].send is None
