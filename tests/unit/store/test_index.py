"""Index files: layout, chains, rolling over, time ranges, deletion, damage, a full disk."""

import struct
from pathlib import Path

import pytest

from pyromq.store.config import StoreConfig
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.index.file import ENTRY, HEADER, Layout
from pyromq.store.index.index import Index, IndexHits

NOW = 1_700_000_000_000
FOREVER = 1 << 62


def make(path: Path, *, slots: int = 7, entries: int = 100, now: int = NOW) -> Index:
    config = StoreConfig(store_path_root_dir=path, max_hash_slot_num=slots, max_index_num=entries)
    return Index(path / "index", config, lambda: now)


def reopen(path: Path, safe_timestamp: int | None = None, *, slots: int = 7, entries: int = 100) -> Index:
    index = make(path, slots=slots, entries=entries)
    index.load(safe_timestamp)
    return index


def offsets(index: Index, key: str, *, begin: int = 0, end: int = FOREVER, count: int = 64) -> list[int]:
    return index.query("T", key, count, begin, end).offsets


def files(path: Path) -> list[Path]:
    return sorted((path / "index").iterdir())


def test_format_of_a_default_file() -> None:
    config = StoreConfig()
    layout = Layout(config.max_hash_slot_num, config.max_index_num)
    assert layout.size == 420_000_040  # S-12
    assert layout.at(1) == 20_000_060
    assert layout.at(19_999_999) + ENTRY.size == layout.size


def test_bytes_of_slots_and_entries(tmp_path: Path) -> None:
    index = make(tmp_path, slots=5_000_000, entries=10)
    index.add("TopicTest", "KEY1", None, 300, NOW + 1_500)
    index.add("TopicTest", "KEY1", None, 400, NOW + 4_499)
    index.close()
    data = files(tmp_path)[0].read_bytes()
    assert len(data) == 40 + 20_000_000 + 200
    assert HEADER.unpack_from(data) == (NOW + 1_500, NOW + 4_499, 300, 400, 1, 3)  # S-12: the count starts at 1
    assert struct.unpack_from(">i", data, 40 + 1_969_516 * 4) == (2,)  # S-13: the slot holds the newest entry
    assert ENTRY.unpack_from(data, 20_000_060) == (1656969516, 300, 0, 0)
    assert ENTRY.unpack_from(data, 20_000_080) == (1656969516, 400, 2, 1)


def test_file_name_is_local_time_of_creation(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.add("T", "k", None, 0, NOW)
    index.flush()
    assert len(files(tmp_path)[0].name) == 17  # S-12
    assert files(tmp_path)[0].name.isdigit()
    index.close()


def test_unique_key_and_each_word_of_keys_are_found(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.add("T", "unique", "a  b c", 0, NOW)
    index.add("T", None, "b", 100, NOW)
    index.add("T", "", None, 200, NOW)
    assert offsets(index, "unique") == [0]
    assert offsets(index, "a") == [0]
    assert offsets(index, "b") == [0, 100]
    assert offsets(index, "") == []
    assert index.query("U", "a", 64, 0, FOREVER).offsets == []
    index.close()


def test_nothing_indexed_yet(tmp_path: Path) -> None:
    assert make(tmp_path).query("T", "k", 10, 0, FOREVER) == IndexHits([], 0, 0)


def test_a_record_is_indexed_once(tmp_path: Path) -> None:
    index = make(tmp_path)
    for _ in range(3):
        for physical_offset in (0, 100, 200):
            index.add("T", "k", "k2", physical_offset, NOW)
    assert offsets(index, "k") == [0, 100, 200]
    assert index._files[-1].count == 7
    index.close()


def test_files_roll_over_in_the_middle_of_a_record_and_queries_cross_them(tmp_path: Path) -> None:
    index = make(tmp_path, entries=10)  # nine keys a file
    for n in range(20):
        index.add("T", f"u{n}", "same", n * 100, NOW + n * 1000)
    assert offsets(index, "same") == [n * 100 for n in range(20)]
    assert len(index) == 5
    assert offsets(index, "same", count=3) == [1700, 1800, 1900]  # the newest
    assert [offsets(index, f"u{n}") for n in range(20)] == [[n * 100] for n in range(20)]
    hits = index.query("T", "nothing", 1, 0, FOREVER)
    assert hits == IndexHits([], NOW + 19_000, 1900)
    assert offsets(index, "same", count=1000) == [n * 100 for n in range(20)]  # capped by max_msgs_num_batch
    index.close()
    names = [path.name for path in files(tmp_path)]
    assert len(set(names)) == 5, "the clock stands still, names must differ all the same"
    again = reopen(tmp_path, entries=10)
    assert offsets(again, "same") == [n * 100 for n in range(20)]
    assert again.max_physical_offset == 1900
    again.close()


def test_time_range_is_exact_to_the_second(tmp_path: Path) -> None:
    index = make(tmp_path, entries=5)
    for n in range(12):
        index.add("T", "k", None, n * 100, NOW + n * 10_000)
    index.drain()
    assert offsets(index, "k", begin=NOW + 30_000, end=NOW + 70_000) == [300, 400, 500, 600, 700]
    assert offsets(index, "k", begin=NOW + 30_500, end=NOW + 60_500) == [300, 400, 500, 600]  # 300: may be 30.999
    assert offsets(index, "k", begin=NOW + 110_000) == [1100]
    assert offsets(index, "k", end=NOW) == [0]
    assert offsets(index, "k", begin=NOW + 120_000) == []
    index.close()


def test_deletes_only_files_below_the_log(tmp_path: Path) -> None:
    index = make(tmp_path, entries=5)
    for n in range(20):
        index.add("T", "k", None, n * 100, NOW)
    index.drain()
    assert len(index) == 5
    assert index.delete_before(0) == 0
    assert index.delete_before(301) == 1  # entries 0 to 3 have offsets up to 300
    assert offsets(index, "k") == [n * 100 for n in range(4, 20)]
    assert index.delete_before(1 << 40) == 3, "the newest file stays"
    assert len(files(tmp_path)) == len(index) == 1
    index.close()


def test_only_few_files_stay_mapped(tmp_path: Path) -> None:
    index = make(tmp_path, entries=3)
    for n in range(60):
        index.add("T", "k", None, n * 100, NOW)
        if n % 2:
            index.flush()
    assert len(offsets(index, "k")) == 60
    assert sum(file._fd >= 0 for file in index._files) <= 6
    assert index.safe_timestamp == NOW
    index.close()


def test_crash_before_any_flush_leaves_an_empty_file_that_is_used_again(tmp_path: Path) -> None:
    index = make(tmp_path)
    for n in range(5):
        index.add("T", "k", None, n * 100, NOW)
    index.drain()
    again = reopen(tmp_path, 0)  # the first one is gone without a flush
    assert again.max_physical_offset == -1
    assert offsets(again, "k") == []
    again.add("T", "k", None, 0, NOW)
    assert offsets(again, "k") == [0]
    again.close()


@pytest.mark.parametrize("flushed", [1, 4, 9])
def test_what_was_flushed_survives_a_crash_whatever_slots_say(tmp_path: Path, flushed: int) -> None:
    index = make(tmp_path)
    for n in range(12):
        index.add("T", f"k{n % 3}", None, n * 100, NOW + n)
        if n == flushed:
            index.flush()
    index.drain()
    index._files[-1]._write_slots()  # the system wrote slots early, but not the header
    again = reopen(tmp_path, 0)
    assert again.max_physical_offset == flushed * 100
    for key in range(3):
        assert offsets(again, f"k{key}") == [n * 100 for n in range(flushed + 1) if n % 3 == key]
    for n in range(12):  # recovery feeds the log again
        again.add("T", f"k{n % 3}", None, n * 100, NOW + n)
    assert offsets(again, "k1") == [100, 400, 700, 1000]
    again.close()


def test_torn_entries_are_dropped_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = make(tmp_path)
    for n in range(10):
        index.add("T", "k", None, (n + 1) * 100, NOW + n * 1000)
    index.close()
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    position = Layout(7, 100).at(6)
    data[position : position + 20] = bytes(20)
    path.write_bytes(data)
    again = reopen(tmp_path, 0)
    assert "5 of its keys dropped" in caplog.text
    assert again.max_physical_offset == 500
    assert offsets(again, "k") == [100, 200, 300, 400, 500]
    again.close()


def test_a_cut_file_is_stretched_and_restored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = make(tmp_path)
    for n in range(10):
        index.add("T", "k", None, (n + 1) * 100, NOW)
    index.close()
    path = files(tmp_path)[0]
    full = path.stat().st_size
    path.write_bytes(path.read_bytes()[: Layout(7, 100).at(4) + 3])
    again = reopen(tmp_path)
    assert "was damaged" in caplog.text
    assert path.stat().st_size == full
    assert offsets(again, "k") == [100, 200, 300]
    again.close()


def test_a_file_of_other_settings_is_refused_and_strangers_are_left_alone(tmp_path: Path) -> None:
    index = make(tmp_path, slots=100)
    index.add("T", "k", None, 0, NOW)
    index.close()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    with pytest.raises(StoreFormatError, match="maxHashSlotNum"):
        reopen(tmp_path, slots=7)
    again = reopen(tmp_path, slots=100)
    assert offsets(again, "k") == [0]
    again.close()
    assert (tmp_path / "index" / "notes.txt").read_text() == "mine"


def test_damaged_links_cannot_make_a_circle(tmp_path: Path) -> None:
    index = make(tmp_path, slots=1)
    for n in range(4):
        index.add("T", "k", None, n * 100, NOW)
    index.close()
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, Layout(1, 100).at(2) + 16, 3)  # entry 2 points forward to 3
    path.write_bytes(data)
    again = reopen(tmp_path, slots=1)
    assert offsets(again, "k") == [100, 200, 300]
    again.close()


def test_full_disk_changes_nothing_and_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make(tmp_path)
    index.add("T", "k", "x", 0, NOW)
    index.drain()

    def no_space(*_: object) -> None:
        raise DiskFullError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pyromq.store.index.file.write_at", no_space)
        index.add("T", "k", "x", 100, NOW)
        with pytest.raises(DiskFullError):
            index.drain()
        assert offsets(index, "k") == [0]
        for n in range(2, 129):
            index.add("T", "k", "y", n * 100, NOW)
        with pytest.raises(DiskFullError):
            index.add("T", "k", "y", 99_000, NOW)  # what waits for the disk does not grow
        assert index.max_physical_offset == 12_800
    assert offsets(index, "x") == [0, 100]
    index.close()
    assert offsets(reopen(tmp_path), "y")[-1] == 12_800


def test_a_batch_whose_writing_failed_leaves_the_chains_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make(tmp_path, slots=2)
    for n in range(6):
        index.add("T", f"k{n}", None, n * 100, NOW)
    index.drain()
    before = index._files[-1]._slots
    assert before is not None
    saved = before[:]

    def no_space(*_: object) -> None:
        raise DiskFullError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pyromq.store.index.file.write_at", no_space)
        index.add("T", "k0", "a b c d", 600, NOW)
        with pytest.raises(DiskFullError):
            index.drain()
        assert index._files[-1]._slots == saved
    assert offsets(index, "k0") == [0, 600]
    assert offsets(index, "d") == [600]
    index.close()
