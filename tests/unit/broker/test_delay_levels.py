"""Delay levels: exactly on time, never early, each message once, whatever clock and store do."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.broker.delay.levels import RETRY_MS
from pyromq.protocol.bodies.offsets import DelayOffsetTable
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.flags import Flag
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.waiting import Waiting


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def waiting(tmp_path: Path, clock: FakeClock) -> Iterator[Waiting]:
    waiting = Waiting(tmp_path / "store", clock)
    yield waiting
    waiting.close()


def test_a_message_comes_in_the_millisecond_it_is_due(waiting: Waiting, clock: FakeClock) -> None:
    # P-18
    start = clock.now
    waiting.put(b"5", DELAY="2")
    clock.forward(10)
    waiting.put(b"1", DELAY="1")
    waiting.run(start + 1009)
    assert waiting.bodies() == []
    waiting.run(start + 1010)
    assert waiting.bodies() == [b"1"]
    waiting.run(start + 4999)
    assert waiting.bodies() == [b"1"]
    waiting.run(start + 20_000)
    assert [message.store_timestamp - start for message in waiting.messages()] == [1010, 5000]
    assert waiting.delivered == ["orders", "orders"]


def test_many_that_are_due_at_once_come_in_order(waiting: Waiting, clock: FakeClock) -> None:
    bodies = [str(number).encode() for number in range(200)]
    for body in bodies:
        waiting.put(body, DELAY="1")
    waiting.run(clock.now + 1000)
    assert waiting.bodies() == bodies


def test_a_clock_set_back_makes_a_message_wait_for_its_delay_at_most(waiting: Waiting, clock: FakeClock) -> None:
    waiting.put(b"a", DELAY="1")
    clock.forward(200)
    waiting.put(b"b", DELAY="1")
    clock.now -= 3_600_000
    step = clock.now
    waiting.run(step)
    waiting.put(b"c", DELAY="1")
    waiting.run(step + 999)
    assert waiting.bodies() == []
    waiting.run(step + 60_000)
    assert [(message.body, message.store_timestamp - step) for message in waiting.messages()] == [
        (b"a", 1000),
        (b"b", 1200),
        (b"c", 1200),
    ]


def test_a_level_behind_a_clock_set_back_does_not_wait_for_busier_ones(waiting: Waiting, clock: FakeClock) -> None:
    waiting.put(b"a", DELAY="2")
    clock.now -= 3_600_000
    step = clock.now
    for number in range(20):
        waiting.put(b"%d" % number, DELAY="1")
        waiting.run(step + 500 * number)
    assert b"a" in waiting.bodies()


def test_a_small_step_back_does_not_deliver_early(waiting: Waiting, clock: FakeClock) -> None:
    start = clock.now
    waiting.put(b"a", DELAY="3")
    clock.now -= 1
    waiting.run(clock.now)
    waiting.run(start + 9_998)
    assert waiting.bodies() == []
    waiting.run(start + 10_000)
    assert waiting.bodies() == [b"a"]


def test_what_the_store_refuses_is_tried_again(waiting: Waiting, clock: FakeClock) -> None:
    start = clock.now
    waiting.put(b"a", DELAY="1")
    waiting.store.flags.set(Flag.DISK_FULL)
    waiting.run(start + 3_000)
    assert waiting.offsets.get(1) == 0
    waiting.store.flags.clear(Flag.DISK_FULL)
    waiting.run(start + 3_000 + RETRY_MS)
    assert waiting.bodies() == [b"a"]


def test_a_message_without_a_place_to_go_does_not_block_its_level(waiting: Waiting, clock: FakeClock) -> None:
    waiting.put(b"lost", topic=SCHEDULE_TOPIC, queue_id=0)
    waiting.put(b"half", topic=SCHEDULE_TOPIC, queue_id=0, REAL_TOPIC="RMQ_SYS_TRANS_HALF_TOPIC", REAL_QID="0")
    waiting.put(b"a", DELAY="1")
    waiting.run(clock.now + 1_000)
    assert waiting.bodies() == [b"a"]
    assert waiting.offsets.get(1) == 3


def test_an_orderly_stop_saves_how_far_it_got(waiting: Waiting, clock: FakeClock) -> None:
    for body in (b"a", b"b"):
        waiting.put(body, DELAY="1")
        clock.forward(500)
    waiting.run(clock.now)
    assert waiting.bodies() == [b"a"]
    text = (waiting.root / "config" / "delayOffset.json").exists()
    assert not text
    again = waiting.restart()
    stored = DelayOffsetTable.decode((waiting.root / "config" / "delayOffset.json").read_bytes())
    assert stored.offset_table == {1: 1}
    again.run(clock.now + 500)
    assert again.bodies() == [b"a", b"b"]
    again.close()


def test_a_killed_broker_repeats_at_most_what_it_did_not_save(
    waiting: Waiting, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(6):
        waiting.put(str(number).encode(), DELAY="1")
        clock.forward(100)
    start = clock.now - 600
    waiting.run(start + 1_100)
    waiting.save()
    waiting.run(start + 1_300)
    assert waiting.bodies() == [b"0", b"1", b"2", b"3"]
    again = waiting.crash(tmp_path / "copy")
    again.run(start + 5_000)
    assert again.bodies() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    again.close()


def test_a_crash_loop_delivers_each_message_once(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "0", clock)
    waiting.save()
    for number in range(30):
        waiting.put(b"%d" % number, DELAY=str(1 + number % 3))
    for life in range(1, 16):
        waiting.run(clock.now + 700)
        waiting = waiting.crash(tmp_path / str(life))  # nothing is saved in between
    assert sorted(waiting.bodies(), key=int) == [b"%d" % number for number in range(30)]
    waiting.close()


def test_what_left_the_log_with_the_power_is_delivered_again(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    waiting.put(b"a", DELAY="1")
    waiting.save()
    end = waiting.store.max_physical_offset
    waiting.run(clock.now + 1_000)
    assert waiting.bodies() == [b"a"]
    with (waiting.root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(end)
        file.write(bytes(waiting.store.max_physical_offset - end))
    shutil.rmtree(waiting.root / "consumequeue")
    again = waiting.crash(tmp_path / "copy")
    assert again.bodies() == []
    again.run(clock.now + 1_000)
    assert again.bodies() == [b"a"]
    again.close()


@pytest.mark.parametrize("saved", [-5, 99])
def test_an_offset_that_is_not_in_the_queue_is_corrected(tmp_path: Path, clock: FakeClock, saved: int) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    waiting.put(b"a", DELAY="1")
    waiting.offsets.move(1, saved)
    waiting.save()
    again = waiting.crash(tmp_path / "copy")
    again.put(b"b", DELAY="1")
    again.run(clock.now + 1_000)
    assert again.bodies() == ([b"a", b"b"] if saved < 0 else [b"b"])
    again.close()


def test_the_version_moves_with_the_deliveries(tmp_path: Path, clock: FakeClock) -> None:
    waiting = Waiting(tmp_path / "store", clock)
    for offset in range(1, 401):
        waiting.offsets.move(1, offset)
    assert waiting.offsets.version.counter == 2
    waiting.close()


def test_a_level_that_is_no_longer_configured_is_delivered(tmp_path: Path, clock: FakeClock) -> None:
    start = clock.now
    waiting = Waiting(tmp_path / "store", clock, levels="1s 5s 10s 20s")
    waiting.put(b"a", DELAY="4")
    again = waiting.restart()
    again.run(start + 19_999)
    assert again.bodies() == []
    again.run(start + 20_000)
    assert again.bodies() == [b"a"]
    again.close()


def test_a_message_that_belongs_to_a_waiting_place_does_not_go_round(waiting: Waiting, clock: FakeClock) -> None:
    waiting.put(b"a", topic=SCHEDULE_TOPIC, queue_id=1, DELAY="1")
    waiting.run(clock.now + 60_000)
    assert waiting.delivered == []
