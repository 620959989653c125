"""The timer's files, byte for byte as Apache's broker has them, and what is made of damaged ones."""

from pathlib import Path
from struct import pack

import pytest

from pyromq.store.errors import StoreFormatError
from pyromq.store.timer.checkpoint import TimerCheckpoint
from pyromq.store.timer.files import TimerFiles
from pyromq.store.timer.log import DELETE, NORMAL, ROLL, TimerLog, TimerUnit
from pyromq.store.timer.wheel import LENGTH, Slot, TimerWheel

NOW = 1_700_000_000_000
LOG_SIZE = 52 * 5 + 16 + 30
UNIT = TimerUnit(-1, NORMAL, NOW, 5_000, 4711, 200, -559038737)


def files_in(root: Path) -> TimerFiles:
    files = TimerFiles(root, precision=1_000, log_file_size=LOG_SIZE)
    files.open(NOW)
    return files


def test_a_unit_has_52_bytes(tmp_path: Path) -> None:
    log = TimerLog(tmp_path / "timerlog", LOG_SIZE)
    assert log.append(UNIT) == 0
    assert log.append(UNIT._replace(previous=0, magic=NORMAL | ROLL | DELETE)) == 52
    data = (tmp_path / "timerlog" / f"{0:020}").read_bytes()
    assert len(data) == LOG_SIZE
    assert data[:52] == pack(">iqiqiqiiq", 52, -1, 1, NOW, 5_000, 4711, 200, -559038737, 0)
    assert log.read(52) == UNIT._replace(previous=0, magic=7)
    assert UNIT.time == NOW + 5_000
    assert log.read(104) is None
    assert log.read(-52) is None
    log.close()


def test_a_full_file_ends_with_a_blank(tmp_path: Path) -> None:
    log = TimerLog(tmp_path / "timerlog", LOG_SIZE)
    positions = [log.append(UNIT._replace(physical_offset=number)) for number in range(7)]
    assert positions == [0, 52, 104, 156, 208, LOG_SIZE, LOG_SIZE + 52]
    data = (tmp_path / "timerlog" / f"{0:020}").read_bytes()
    assert data[260:276] == pack(">iqi", 46, 0, -875286124)
    log.close()
    again = TimerLog(tmp_path / "timerlog", LOG_SIZE)
    again.load()
    seen: list[tuple[int, int]] = []
    assert again.recover(0, lambda position, _time, place: seen.append((position, place))) == LOG_SIZE + 104
    assert seen == list(zip(positions, range(7), strict=True))
    assert again.append(UNIT) == LOG_SIZE + 104
    again.close()


def test_files_with_defaults_hold_as_many_units_as_apaches(tmp_path: Path) -> None:
    assert TimerLog(tmp_path, 100 << 20)._used // 52 == 2_016_492


def test_a_slot_has_32_bytes_at_its_place(tmp_path: Path) -> None:
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000)
    assert not wheel.load()
    wheel.set(NOW + 999, Slot(52, 104, 2))
    assert wheel.get(NOW) == Slot(52, 104, 2)
    assert not wheel.path.exists()
    wheel.write(wheel.take())
    assert not wheel.changed
    assert wheel.path.stat().st_size == LENGTH == 38_707_200
    with wheel.path.open("rb") as file:
        file.seek(512_000 * 32)
        assert file.read(32) == pack(">qqqii", NOW // 1_000, 52, 104, 2, 0)
    assert wheel.get(NOW) == Slot(52, 104, 2)
    assert wheel.get(NOW + 1_209_600_000) is None, "a slot speaks of one time only"
    wheel.clear(NOW)
    assert wheel.get(NOW) is None
    wheel.close()


def test_changes_stay_visible_while_they_are_written_and_after_a_failure(tmp_path: Path) -> None:
    wheel = TimerWheel(tmp_path / "timerwheel", 1_000)
    wheel.set(NOW, Slot(0, 0, 1))
    first = wheel.take()
    wheel.set(NOW + 1_000, Slot(52, 52, 1))
    assert wheel.get(NOW) == Slot(0, 0, 1)
    assert len(first) == 1
    assert len(wheel.take()) == 2, "what was taken but not written is taken again"
    wheel.close()


def test_a_wheel_of_another_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(b"\0" * 32)
    with pytest.raises(StoreFormatError, match="38707200"):
        files_in(tmp_path)


def test_the_checkpoint_is_seven_numbers_in_a_page(tmp_path: Path) -> None:
    path = tmp_path / "config" / "timercheck"
    assert TimerCheckpoint.load(path) == TimerCheckpoint()
    check = TimerCheckpoint(NOW, 52, 3, 3, 0, NOW + 1, 9)
    check.save(path)
    assert path.read_bytes() == pack(">7q", NOW, 52, 3, 3, 0, NOW + 1, 9).ljust(4096, b"\0")
    assert TimerCheckpoint.load(path) == check
    path.write_bytes(b"\1\2\3")
    TimerCheckpoint.load(path)


def test_units_of_a_slot_are_chained_and_saved(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    for number in range(3):
        files.enter(NOW + 5_000, UNIT._replace(physical_offset=number), 1)
    assert files.wheel.get(NOW + 5_000) == Slot(0, 104, 3)
    unit = files.log.read(104)
    assert unit is not None
    assert unit.previous == 52
    files.prepare_save(NOW, 3, NOW + 7)()
    assert TimerCheckpoint.load(tmp_path / "config" / "timercheck") == TimerCheckpoint(NOW, 156, 3, 3, 0, NOW + 7, 1)
    files.close()
    again = files_in(tmp_path)
    assert again.wheel.get(NOW + 5_000) == Slot(0, 104, 3)
    assert again.checkpoint.queue_offset == 3
    again.close()


def test_units_behind_the_last_save_are_linked_again(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.enter(NOW + 5_000, UNIT._replace(physical_offset=1), 1)
    files.prepare_save(NOW, 1, NOW)()
    for number in range(2, 9):
        files.enter(NOW + 5_000, UNIT._replace(physical_offset=number), 1)
    files.enter(NOW + 9_000, UNIT._replace(physical_offset=9, delay=9_000), 1)
    files.close()  # as a kill leaves it: the wheel in memory is gone
    again = files_in(tmp_path)
    slot = again.wheel.get(NOW + 5_000)
    assert slot is not None
    assert (slot.first, slot.waiting) == (0, 8)
    places, position = [], slot.last
    while position >= 0:
        unit = again.log.read(position)
        assert unit is not None
        places.append(unit.physical_offset)
        position = unit.previous
    assert places == [8, 7, 6, 5, 4, 3, 2, 1]
    assert again.wheel.get(NOW + 9_000) is not None
    assert [place in again.entered for place in (1, 2, 9, 10)] == [False, True, True, False]
    again.close()


def test_slots_that_were_drained_are_not_linked_again(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.enter(NOW, UNIT._replace(delay=0), 1)
    files.enter(NOW + 5_000, UNIT._replace(physical_offset=5_000), 1)
    files.wheel.clear(NOW)
    files.prepare_save(NOW + 1_000, 2, NOW)()
    files.close()
    again = files_in(tmp_path)
    assert again.wheel.get(NOW) is None
    assert again.wheel.get(NOW + 5_000) is not None
    again.close()


def test_units_of_messages_that_the_commit_log_lost_are_gone(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    for number in range(8):  # over two files
        files.enter(NOW + 5_000, UNIT._replace(physical_offset=number * 100), 1)
        if number == 1:
            files.prepare_save(NOW, 2, NOW)()
    files.close()
    again = TimerFiles(tmp_path, precision=1_000, log_file_size=LOG_SIZE)
    again.open(NOW, log_end=300, queue_end=3)
    assert (200 in again.entered, 300 in again.entered) == (True, False), (
        "what will be stored at 300 is another message"
    )
    assert again.wheel.get(NOW + 5_000) == Slot(0, 104, 3)
    assert again.set_back == []
    again.close()


def test_a_timer_that_saved_more_than_the_commit_log_has_enters_it_again(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    for number in range(8):
        files.enter(NOW + 5_000, UNIT._replace(physical_offset=number * 100), 1)
    files.prepare_save(NOW, 8, NOW)()
    files.close()
    again = TimerFiles(tmp_path, precision=1_000, log_file_size=LOG_SIZE)
    again.open(NOW, log_end=300, queue_end=3)
    assert again.checkpoint.queue_offset <= 3
    assert again.wheel.get(NOW + 5_000) == Slot(0, 104, 3)
    assert (200 in again.entered, 300 in again.entered) == (True, False)
    assert "up to 8" in again.set_back[0]
    again.close()
