"""Timed messages: never early, at most one slot late, each once; recalls, long delays, crashes and clock steps."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.protocol.names import TIMER_TOPIC
from pyromq.store.flags import Flag
from pyromq.store.log.put import PutMessage
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.waiting import Waiting


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_123)


@pytest.fixture
def waiting(tmp_path: Path, clock: FakeClock) -> Iterator[Waiting]:
    waiting = Waiting(tmp_path / "store", clock)
    yield waiting
    waiting.close()


def recall(waiting: Waiting, key: str, slot: int, topic: str = "orders") -> None:
    """As the broker stores a recall: timed for a millisecond into the slot of its message."""
    waiting.put(b"0", topic=topic, TIMER_DELIVER_MS=str(slot + 1), TIMER_DEL_UNIQKEY=f"{topic}+{key}", UNIQ_KEY=key)


def slot_of(due: int) -> int:
    return (due - 1) // 1000 * 1000


@pytest.mark.parametrize("ahead", [1, 500, 876, 877, 878, 1877, 60_000])
def test_a_message_comes_when_the_slot_of_its_time_is_over(waiting: Waiting, clock: FakeClock, ahead: int) -> None:
    due = clock.now + ahead
    waiting.put(b"a", TIMER_DELIVER_MS=str(due))
    waiting.run(due - 1)
    assert waiting.bodies() == []
    waiting.run(due + 1_000)
    (message,) = waiting.messages()
    assert message.store_timestamp == slot_of(due) + 1_000
    assert 0 <= message.store_timestamp - due < 1_000


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 20_000), st.booleans()), min_size=1, max_size=40))
def test_any_plan_is_kept(tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, int, bool]]) -> None:
    """Stored at any times, for any times, some recalled: each is delivered once, in its slot, or not at all."""
    clock = FakeClock(1_700_000_000_123)
    waiting = Waiting(tmp_path_factory.mktemp("plan") / "store", clock)
    expected: dict[bytes, int] = {}
    for number, (pause, ahead, recalled) in enumerate(plan):
        waiting.run(clock.now + pause)
        due, key = clock.now + ahead, f"k{number}"
        waiting.put(key.encode(), TIMER_DELIVER_MS=str(due), UNIQ_KEY=key)
        if recalled and slot_of(due) + 1 > clock.now:
            recall(waiting, key, slot_of(due))
        else:
            expected[key.encode()] = due
    waiting.run(clock.now + 25_000)
    messages = waiting.messages()
    assert sorted(message.body for message in messages) == sorted(expected)
    for message in messages:
        assert 0 <= message.store_timestamp - expected[message.body] < 1_000
    assert waiting.counts.total == 0
    waiting.close()


def test_messages_of_a_slot_come_in_the_order_they_were_sent(waiting: Waiting, clock: FakeClock) -> None:
    due = clock.now + 5_000
    bodies = [str(number).encode() for number in range(1_500)]
    for body in bodies:
        waiting.put(body, TIMER_DELIVER_MS=str(due))
    waiting.run(due + 1_000)
    assert waiting.bodies() == bodies
    assert len(list((waiting.root / "timerlog").iterdir())) == 2


def test_a_recall_stored_in_the_last_moment_works(waiting: Waiting, clock: FakeClock) -> None:
    due = clock.now + 5_000
    waiting.put(b"a", TIMER_DELIVER_MS=str(due), UNIQ_KEY="k")
    waiting.run(slot_of(due) - 1)
    recall(waiting, "k", slot_of(due))
    clock.now = slot_of(due) + 30_000
    waiting.run(clock.now + 5_000)
    assert waiting.bodies() == []
    assert waiting.counts.total == 0


def test_a_recall_names_topic_and_key(waiting: Waiting, clock: FakeClock) -> None:
    due = clock.now + 5_000
    for topic in ("orders", "other"):
        waiting.put(b"a", topic=topic, TIMER_DELIVER_MS=str(due), UNIQ_KEY="k")
    recall(waiting, "k", slot_of(due), topic="other")
    recall(waiting, "nobody", slot_of(due), topic="other")
    waiting.run(due + 1_000)
    assert (waiting.bodies("orders"), waiting.bodies("other")) == ([b"a"], [])
    assert waiting.counts.total == 0


def test_a_message_days_away_rolls(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "store", clock, timer_roll_window_slot=30)
    due = clock.now + 100_000
    waiting.put(b"a", TIMER_DELIVER_MS=str(due), UNIQ_KEY="k")
    waiting.put(b"b", TIMER_DELIVER_MS=str(due), UNIQ_KEY="gone")
    recall(waiting, "gone", slot_of(due))
    waiting.run(due - 1)
    assert waiting.bodies() == []
    waiting.run(due + 1_000)
    (message,) = waiting.messages()
    assert message.body == b"a"
    assert message.properties["TIMER_ROLL_TIMES"] == "3"
    assert message.store_timestamp == slot_of(due) + 1_000
    assert waiting.counts.total == 0
    waiting.close()


def test_what_is_entered_too_late_is_delivered_at_once(waiting: Waiting, clock: FakeClock) -> None:
    waiting.run(clock.now + 10_000)
    waiting.put(
        b"a", topic=TIMER_TOPIC, TIMER_OUT_MS=str(clock.now // 1000 * 1000 - 5_000), REAL_TOPIC="orders", REAL_QID="0"
    )
    waiting.run(clock.now)
    (message,) = waiting.messages()
    assert message.properties["TIMER_ENQUEUE_MS"] == str(2**63 - 1)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"TIMER_OUT_MS": "x", "REAL_TOPIC": "orders", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "../x", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "orders", "REAL_QID": "9" * 30},
    ],
)
def test_nonsense_in_the_timer_topic_blocks_nothing(
    waiting: Waiting, clock: FakeClock, properties: dict[str, str]
) -> None:
    waiting.put(b"nonsense", topic=TIMER_TOPIC, queue_id=0, **properties)
    waiting.put(b"a", TIMER_DELAY_MS="100")
    waiting.run(clock.now + 2_000)
    assert waiting.bodies() == [b"a"]


def test_what_the_store_refuses_is_tried_again_and_never_dropped(waiting: Waiting, clock: FakeClock) -> None:
    due = clock.now + 2_000
    for body in (b"a", b"b"):
        waiting.put(body, TIMER_DELIVER_MS=str(due))
    waiting.run(due - 500)
    waiting.store.flags.set(Flag.DISK_FULL)
    waiting.run(due + 60_000)
    waiting.store.flags.clear(Flag.DISK_FULL)
    waiting.run(due + 61_000)
    assert waiting.bodies() == [b"a", b"b"]


def test_a_clock_set_back_neither_loses_nor_repeats(waiting: Waiting, clock: FakeClock) -> None:
    start = clock.now
    for number in range(10):
        waiting.put(str(number).encode(), TIMER_DELIVER_MS=str(start + 1_000 * (number + 1)))
    waiting.run(start + 5_000)
    before = waiting.bodies()
    clock.now = start - 100_000
    waiting.put(b"late", TIMER_DELAY_MS="1000")
    waiting.run(start - 98_000)
    assert waiting.bodies() == [*before, b"late"]
    waiting.run(start + 20_000)
    assert sorted(waiting.bodies()) == sorted([*(str(number).encode() for number in range(10)), b"late"])


def test_a_clock_set_far_forward_delivers_what_became_due(waiting: Waiting, clock: FakeClock) -> None:
    waiting.put(b"a", TIMER_DELAY_SEC="3600")
    waiting.run(clock.now + 10)
    clock.forward(2 * 86_400_000)
    waiting.run(clock.now)
    assert waiting.bodies() == [b"a"]


def test_a_clock_that_starts_in_1970_is_caught_up_with(tmp_path: Path) -> None:
    clock = FakeClock(5_000_000)
    waiting = Waiting(tmp_path / "store", clock)
    waiting.run(clock.now + 5_000)
    clock.now = 1_700_000_000_000
    waiting.put(b"a", TIMER_DELAY_SEC="5")
    waiting.run(clock.now + 7_000)
    assert waiting.bodies() == [b"a"]
    waiting.close()


def test_an_orderly_restart_neither_loses_nor_repeats(waiting: Waiting, clock: FakeClock) -> None:
    start = clock.now
    for number in range(5):
        waiting.put(str(number).encode(), TIMER_DELIVER_MS=str(start + 2_000 * (number + 1)))
    waiting.run(start + 5_000)
    again = waiting.restart()
    again.run(start + 30_000)
    assert again.bodies() == [b"0", b"1", b"2", b"3", b"4"]
    assert again.counts.total == 0
    again.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_broker_loses_nothing_and_enters_nothing_twice(tmp_path: Path, clock: FakeClock, seed: int) -> None:
    """Killed at any moments, saved at any moments before: all come, each once."""
    choose = random.Random(seed)
    start = clock.now
    waiting = Waiting(tmp_path / "0", clock)
    for number in range(200):
        waiting.put(f"{number:03}".encode(), TIMER_DELIVER_MS=str(start + choose.randrange(1, 30_000)))
        if choose.random() < 0.2:
            waiting.run(clock.now + choose.randrange(200))
        if choose.random() < 0.05:
            waiting.save()
    waiting.save()
    for life in range(1, 5):
        waiting.run(clock.now + choose.randrange(3_000))
        if choose.random() < 0.3:
            waiting.save()
        waiting.run(clock.now + choose.randrange(1_000))
        waiting = waiting.crash(tmp_path / str(life))
    waiting.run(start + 60_000)
    assert sorted(waiting.bodies()) == [f"{number:03}".encode() for number in range(200)]
    waiting.close()


def test_a_broker_that_was_down_for_more_than_the_wheel_goes_on(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    waiting.put(b"lost", TIMER_DELAY_SEC="3600")
    waiting.run(clock.now + 100)
    clock.forward(8 * 86_400_000)
    again = waiting.restart()
    again.put(b"a", TIMER_DELAY_SEC="2")
    again.run(clock.now + 4_000)
    assert again.bodies() == [b"a"]
    again.close()


@pytest.mark.parametrize("name", ["timerwheel", "config/timercheck"])
def test_a_lost_file_repeats_rather_than_loses(tmp_path: Path, clock: FakeClock, name: str) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    start = clock.now
    for number in range(20):
        waiting.put(str(number).encode(), TIMER_DELIVER_MS=str(start + 5_000 + 500 * number))
    waiting.run(start + 1_000)
    waiting.save()
    (waiting.root / name).unlink()
    again = waiting.crash(tmp_path / "copy")
    again.run(start + 30_000)
    assert sorted(again.bodies(), key=int) == [str(number).encode() for number in range(20)]
    again.close()


def test_a_cut_timer_log_is_filled_again_from_the_topic(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    start = clock.now
    for number in range(20):
        waiting.put(str(number).encode(), TIMER_DELIVER_MS=str(start + 5_000 + 500 * (number % 10)))
    waiting.run(start + 1_000)
    waiting.save()
    with (waiting.root / "timerlog" / f"{0:020}").open("r+b") as file:
        file.seek(52 * 12 + 3)
        file.write(b"\x00" * 400)
    again = waiting.crash(tmp_path / "copy")
    again.run(start + 30_000)
    assert sorted(again.bodies(), key=int) == [str(number).encode() for number in range(20)]
    again.close()


def test_properties_without_room_for_more_are_delivered_as_they_are(waiting: Waiting, clock: FakeClock) -> None:
    fixed = {"TIMER_DELAY_MS": "10", "REAL_TOPIC": "", "TIMER_OUT_MS": ""}
    waiting.put(b"a", big="x" * 32_640, TIMER_DELAY_MS=fixed["TIMER_DELAY_MS"])
    waiting.run(clock.now + 2_000)
    (message,) = waiting.messages()
    assert "TIMER_DEQUEUE_MS" not in message.properties


def test_files_of_messages_that_left_the_log_go(waiting: Waiting, clock: FakeClock) -> None:
    for _ in range(1_500):
        waiting.put(b"x" * 700, TIMER_DELAY_MS="10")
    waiting.run(clock.now + 2_000)
    log = waiting.files.log
    assert log.delete_before(0) == 0
    assert log.delete_before(waiting.store.max_physical_offset) == 1
    assert log.delete_before(waiting.store.max_physical_offset) == 0


def test_a_plain_message_is_not_looked_at(waiting: Waiting) -> None:
    result = waiting.store.put(PutMessage("orders", 0, b"a"))
    assert result.stored
    assert waiting.bodies() == [b"a"]
