"""One consume queue: bytes on disk, append rules, recovery of its end, truncation, minimum, a full disk."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.store.config import StoreConfig
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.queue.consumequeue import FILLER, ConsumeQueue
from pyromq.store.queue.files import Descriptors

PER_FILE = 10
FILE_SIZE = PER_FILE * ENTRY_SIZE


def make(path: Path) -> ConsumeQueue:
    return ConsumeQueue("T", 0, path / "T" / "0", FILE_SIZE, Descriptors(4))


def reopen(path: Path) -> tuple[ConsumeQueue, bool]:
    queue = make(path)
    whole = queue.load()
    queue.recover()
    return queue, whole


def fill(queue: ConsumeQueue, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        assert queue.append(n, n * 100, 100, -n)


def content(queue: ConsumeQueue) -> list[int]:
    """The physical offsets of all entries, divided by the size of a record."""
    data = queue.entries(queue.min_offset, 10_000)
    return [offset // 100 for offset, _, _ in struct.iter_unpack(">qiq", data)]


def files(path: Path) -> list[Path]:
    return sorted((path / "T" / "0").iterdir())


def test_bytes_and_names(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 11)
    queue.flush()
    assert [file.name for file in files(tmp_path)] == ["00000000000000000000", "00000000000000000200"]  # S-09
    assert all(file.stat().st_size == FILE_SIZE for file in files(tmp_path))
    data = files(tmp_path)[0].read_bytes()
    assert data[20:40] == struct.pack(">qiq", 100, 100, -1)  # S-09: offset, size, tag hash
    assert files(tmp_path)[1].read_bytes() == struct.pack(">qiq", 1000, 100, -10) + bytes(FILE_SIZE - 20)


def test_default_files_hold_300000_entries() -> None:
    assert StoreConfig().mapped_file_size_consume_queue == 6_000_000  # S-09


def test_entries_come_from_memory_and_files_alike(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 1000)  # far more than what is kept in memory
    assert (queue.min_offset, queue.max_offset, queue.max_physical_offset) == (0, 1000, 100_000)
    assert content(queue) == list(range(1000))
    for start in (0, 5, 700, 871, 990):
        assert [offset for offset, *_ in struct.iter_unpack(">qiq", queue.entries(start, 9))] == [
            100 * n for n in range(start, start + 9)
        ]
    assert queue.entry(999) == (99_900, 100, -999)
    assert queue.entry(1000) is None
    assert queue.entry(-1) is None
    assert len(queue.entries(995, 100)) == 5 * ENTRY_SIZE
    assert queue.entries(1000, 1) == b""
    assert queue.next_file(0) == queue.next_file(9) == 10


def test_reopening_finds_the_end(tmp_path: Path) -> None:
    for count in (1, 9, 10, 11, 20, 57):
        path = tmp_path / str(count)
        queue = make(path)
        fill(queue, count)
        queue.flush()
        again, whole = reopen(path)
        assert whole
        assert (again.max_offset, again.max_physical_offset) == (count, count * 100)
        assert content(again) == list(range(count))
        fill(again, 3, first=count)
        assert content(again) == list(range(count + 3))


def test_what_is_there_already_is_ignored(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 5)
    fill(queue, 5)
    assert queue.append(2, 200, 100, 99)
    assert content(queue) == [0, 1, 2, 3, 4]
    assert queue.entry(2) == (200, 100, -2)


def test_the_log_wins_over_entries_it_contradicts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    queue = make(tmp_path)
    fill(queue, 25)
    queue.flush()
    queue.append(3, 9_000, 100, 7)  # a record behind all that the queue knows, with an offset it has given away
    assert queue.max_offset == 4
    assert content(queue) == [0, 1, 2, 90]
    assert "contradicts" in caplog.text
    queue.flush()
    assert content(reopen(tmp_path)[0]) == [0, 1, 2, 90]


def test_a_queue_that_begins_late_is_filled_up_for_other_readers(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(23, 500, 100, 1)
    assert (queue.min_offset, queue.max_offset) == (23, 24)
    queue.flush()
    data = files(tmp_path)[0].read_bytes()
    assert files(tmp_path)[0].name == f"{20 * ENTRY_SIZE:020d}"
    assert data[:60] == FILLER * 3
    assert FILLER.hex() == "00000000000000007fffffff0000000000000000"
    again, whole = reopen(tmp_path)
    assert whole
    assert (again.min_offset, again.max_offset, again.max_physical_offset) == (20, 24, 600)
    again.correct_min(0)
    assert again.min_offset == 23, "fillers are no messages, also in a log that was never cleaned"


def test_only_fillers_know_no_place_in_the_log(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(5, 500, 100, 1)
    queue.truncate_to(500)
    queue.flush()
    again, _ = reopen(tmp_path)
    assert again.max_physical_offset == -1
    assert again.append(5, 700, 100, 1)
    assert (again.max_offset, again.entry(5)) == (6, (700, 100, 1))


def test_a_gap_is_filled_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    queue = make(tmp_path)
    fill(queue, 8)
    queue.append(12, 5_000, 100, 1)
    assert "lost its entries" in caplog.text
    assert content(queue) == [*range(8), 0, 0, 0, 0, 50]
    queue.truncate_to(700)
    assert content(queue) == list(range(7))


@pytest.mark.parametrize("queue_offset", [-1, 1 << 62, 1 << 40])
def test_an_impossible_offset_is_an_error_and_costs_nothing(tmp_path: Path, queue_offset: int) -> None:
    queue = make(tmp_path)
    fill(queue, 3)
    with pytest.raises(StoreFormatError, match="claims queue offset"):
        queue.append(queue_offset, 5_000, 100, 0)
    assert content(queue) == [0, 1, 2]


@pytest.mark.parametrize("end", [0, 1, 99, 100, 950, 1_000, 1_001, 2_500, 10_000])
def test_truncation_zeroes_what_it_cuts(tmp_path: Path, end: int) -> None:
    queue = make(tmp_path)
    fill(queue, 25)
    queue.flush()
    queue, _ = reopen(tmp_path)
    queue.truncate_to(end)
    kept = min(end // 100, 25)
    assert (queue.max_offset, queue.max_physical_offset) == (kept, kept * 100 if kept else -1)
    queue.flush()
    data = b"".join(file.read_bytes() for file in files(tmp_path))
    assert not any(data[kept * ENTRY_SIZE :])
    again, _ = reopen(tmp_path)
    assert content(again) == list(range(kept))
    fill(again, 30, first=kept)
    assert content(again) == list(range(kept + 30))


def test_truncation_of_entries_in_memory(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 7)
    queue.truncate_to(300)
    fill(queue, 2, first=3)
    assert content(queue) == [0, 1, 2, 3, 4]


def test_stale_bytes_behind_the_end_do_not_come_back(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 6)
    queue.flush()
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[80:100] = bytes(20)  # a hole at 4, sound bytes at 5
    path.write_bytes(data)
    again, _ = reopen(tmp_path)
    assert again.max_offset == 4
    again.append(4, 400, 100, 0)
    again.flush()
    assert reopen(tmp_path)[0].max_offset == 5


@pytest.mark.parametrize(
    "damage", [struct.pack(">qi", -5, 100), struct.pack(">qi", 450, -1), struct.pack(">qi", 50, 9)]
)
def test_recovery_stops_at_an_entry_that_makes_no_sense(tmp_path: Path, damage: bytes) -> None:
    queue = make(tmp_path)
    fill(queue, 9)
    queue.flush()
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[5 * 20 : 5 * 20 + 12] = damage
    path.write_bytes(data)
    assert content(reopen(tmp_path)[0]) == [0, 1, 2, 3, 4]


def test_minimum_follows_the_log(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 35)
    queue.flush()
    for log_min, expected in ((0, 0), (1, 1), (100, 1), (1_250, 13), (3_400, 34), (3_401, 35), (99_999, 35)):
        queue.correct_min(log_min)
        assert queue.min_offset == expected
    assert (queue.max_offset, queue.max_physical_offset) == (35, 3_500), "numbering goes on"
    assert queue.entries(34, 1) == b""


def test_deletes_whole_files_below_the_log_but_never_the_newest(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 35)
    queue.flush()
    assert queue.delete_before(999) == 1
    assert queue.delete_before(901) == 0
    assert (queue.min_offset, len(files(tmp_path))) == (10, 3)
    assert queue.delete_before(1 << 40) == 2
    assert (queue.min_offset, queue.max_offset, len(files(tmp_path))) == (35, 35, 1)
    again, whole = reopen(tmp_path)
    assert whole
    assert (again.min_offset, again.max_offset) == (30, 35)
    fill(again, 1, first=35)
    assert again.entry(35) == (3_500, 100, -35)


def test_missing_cut_and_strange_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    queue = make(tmp_path)
    fill(queue, 45)
    queue.flush()
    (tmp_path / "T" / "0" / "notes.txt").write_text("mine")
    names = files(tmp_path)
    names[3].write_bytes(names[3].read_bytes()[:47])
    again, whole = reopen(tmp_path)
    assert not whole
    assert content(again) == list(range(30))
    assert "notes.txt is not a file of a consume queue" in caplog.text
    names[1].unlink()
    again, whole = reopen(tmp_path)
    assert not whole
    assert content(again) == list(range(10))
    fill(again, 35, first=10)
    assert content(again) == list(range(45))


def test_another_file_size_is_refused(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 25)
    queue.flush()
    other = ConsumeQueue("T", 0, tmp_path / "T" / "0", 160, Descriptors(4))
    with pytest.raises(StoreFormatError, match="mappedFileSizeConsumeQueue"):
        other.load()
    assert content(reopen(tmp_path)[0]) == list(range(25))


def test_full_disk_takes_nothing_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make(tmp_path)

    def no_space(*_: object) -> None:
        raise DiskFullError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pyromq.store.queue.files.write_at", no_space)
        with pytest.raises(DiskFullError):
            fill(queue, 10_000)
        taken = queue.max_offset
        assert taken < 1_000, "what waits for the disk is bounded"
        with pytest.raises(DiskFullError):
            queue.append(taken, taken * 100, 100, 0)
        assert queue.max_offset == taken
    fill(queue, 50, first=taken)
    queue.flush()
    assert content(reopen(tmp_path)[0]) == list(range(taken + 50))


def test_destroyed_queue_begins_again(tmp_path: Path) -> None:
    queue = make(tmp_path)
    fill(queue, 15)
    queue.flush()
    queue.destroy()
    assert not (tmp_path / "T" / "0").exists()
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    queue.append(0, 9_900, 100, 0)
    assert content(queue) == [99]


@given(st.data())
@settings(max_examples=60)
def test_any_order_of_operations_against_a_list(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("queue")
    queue = make(path)
    model: list[int] = []  # physical offset / 100 of each entry
    end = 0
    for action in data.draw(st.lists(st.sampled_from("aaaaftro"), max_size=30)):
        if action == "a":
            for _ in range(data.draw(st.integers(1, 40))):
                queue.append(len(model), end * 100, 100, 0)
                model.append(end)
                end += data.draw(st.sampled_from((1, 2)))
        elif action == "f":
            queue.flush()
        elif action == "t":
            end = data.draw(st.integers(0, end))
            queue.truncate_to(end * 100)
            model = [n for n in model if n < end]
        else:
            queue.flush()
            queue, whole = reopen(path)
            assert whole
        assert queue.max_offset == len(model)
        assert content(queue) == model
        assert queue.max_physical_offset == (model[-1] * 100 + 100 if model else -1)
