"""Retention: when it looks, what it deletes, what stays, and that readers keep what they hold."""

import logging
import os
from datetime import datetime
from pathlib import Path

import pytest

from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.log.mappedfiles import MappedFiles
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.retention import Cleaned, Retention
from pyromq.store.space import used_ratio

HOUR = 3_600
NOON = int(datetime(2026, 3, 10, 12).astimezone().timestamp())
FILE_SIZE = 1_000


class Store:
    """Log files of ten 100-byte records each, with the queue and index entries that speak of them."""

    def __init__(self, path: Path, *, files: int = 6, **settings: object) -> None:
        self.now = NOON
        self.usage = 0.1
        self.dispatched = files * FILE_SIZE
        self.config = StoreConfig(
            store_path_root_dir=path,
            mapped_file_size_commit_log=FILE_SIZE,
            mapped_file_size_consume_queue=200,
            max_hash_slot_num=10,
            max_index_num=11,
            **settings,  # type: ignore[arg-type]  # keyword arguments of a test
        )
        self.files = MappedFiles(self.config.commit_log_dir, FILE_SIZE)
        self.queues = ConsumeQueues(self.config.consume_queue_dir, self.config)
        self.index = Index(self.config.index_dir, self.config, lambda: self.now * 1000)
        self.flags = RunningFlags()
        for n in range(files):
            file = self.files.extend()
            for record in range(10):
                offset = file.append(bytes(100)) + file.start
                self.queues.get_or_create("T", 0).append(n * 10 + record, offset, 100, 0)
                self.index.add("T", f"{n * 10 + record}", None, offset, self.now * 1000)
            self.age(n, hours=0)
        self.queues.flush()
        self.index.flush()
        self.retention = Retention(
            self.config,
            self.files,
            self.queues,
            self.index,
            self.flags,
            clock=lambda: self.now * 1000,
            dispatched=lambda: self.dispatched,
            disk_usage=lambda _: self.usage,
        )

    def age(self, number: int, hours: float) -> None:
        time = self.now - hours * HOUR
        os.utime(self.files.files[number].path, (time, time))

    def run(self) -> Cleaned:
        return self.retention.run_once()

    @property
    def min_offset(self) -> int:
        queue = self.queues.get("T", 0)
        assert queue is not None
        return queue.min_offset


def test_the_first_file_of_a_log_is_no_change_of_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = Store(tmp_path, files=0)
    assert store.run() == Cleaned()
    store.files.extend()
    assert store.run() == Cleaned()
    assert not caplog.records, "nothing was shortened"


def test_nothing_to_do_by_day(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.age(0, hours=1_000)
    assert store.run() == Cleaned()
    assert len(store.files) == 6


def test_expired_files_go_at_the_hour_with_all_that_speaks_of_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number, hours in enumerate((73, 73, 60, 60, 0, 0)):
        store.age(number, hours=hours)
    store.now -= 8 * HOUR
    assert store.run().log_files == 0, "at four in the morning they were not that old"
    store.now += 24 * HOUR
    assert store.run() == Cleaned("the hour has come", 4, 4, 4)
    assert store.files.min_offset == 4_000
    assert store.min_offset == 40
    assert store.index.query("T", "39", 1, 0, 1 << 60).offsets == []
    assert store.index.query("T", "40", 1, 0, 1 << 60).offsets == [4_000]
    assert len(list(store.config.commit_log_dir.iterdir())) == 2


def test_several_hours(tmp_path: Path) -> None:
    store = Store(tmp_path, delete_when="04;12", file_reserved_time=1)
    store.age(0, hours=2)
    assert store.run().log_files == 1


@pytest.mark.parametrize("text", ["4am", "24", "-1"])
def test_hours_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoreError, match="deleteWhen"):
        Store(tmp_path, delete_when=text)


def test_stops_at_the_first_file_that_has_to_stay(tmp_path: Path) -> None:
    store = Store(tmp_path, delete_when="12")
    for number, hours in enumerate((100, 0, 100, 100, 100, 100)):
        store.age(number, hours=hours)
    assert store.run().log_files == 1
    assert store.run().log_files == 0


def test_the_newest_file_always_stays(tmp_path: Path) -> None:
    store = Store(tmp_path, delete_when="12")
    for number in range(6):
        store.age(number, hours=100)
    assert store.run() == Cleaned("the hour has come", 5, 5, 5)
    assert store.run() == Cleaned("the hour has come")
    assert (store.files.min_offset, store.min_offset) == (5_000, 50)


def test_what_is_not_dispatched_stays(tmp_path: Path) -> None:
    store = Store(tmp_path, delete_when="12")
    for number in range(6):
        store.age(number, hours=100)
    store.dispatched = 2_500
    assert store.run().log_files == 2
    store.dispatched = 6_000
    assert store.run().log_files == 3


def test_a_round_is_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path, delete_when="12", delete_file_batch_max=2)
    for number in range(6):
        store.age(number, hours=100)
    assert [store.run().log_files for _ in range(4)] == [2, 2, 1, 0]


def test_manual_request_deletes_expired_files_for_some_rounds(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.retention.request()
    assert store.run() == Cleaned("asked for")
    store.age(0, hours=100)
    assert store.run().log_files == 1
    for _ in range(18):
        assert store.run().reason == "asked for"
    assert store.run().reason == ""


def test_disk_ratio_above_the_limit_deletes_expired_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.age(0, hours=100)
    store.usage = 0.80
    assert store.run().log_files == 1
    assert store.run().log_files == 0
    assert not store.flags.has(Flag.DISK_FULL)


def test_forced_cleaning_disregards_age(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.usage = 0.86
    assert store.run().log_files == 5
    assert not store.flags.has(Flag.DISK_FULL)


def test_forced_cleaning_can_be_switched_off(tmp_path: Path) -> None:
    store = Store(tmp_path, clean_file_forcibly_enable=False)
    store.usage = 0.95
    assert store.run().log_files == 0
    assert store.flags.has(Flag.DISK_FULL)


def test_a_full_disk_refuses_messages_until_there_is_space(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.usage = 0.91
    assert store.run().log_files == 5
    assert store.flags.has(Flag.DISK_FULL)
    assert store.run().log_files == 0
    store.usage = 0.5
    store.run()
    assert not store.flags.has(Flag.DISK_FULL)


def test_a_disk_that_cannot_be_measured_deletes_expired_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.age(0, hours=100)
    store.usage = -1.0
    assert store.run() == Cleaned("the disk's use is not known", 1, 1, 1)


def test_total_size(tmp_path: Path) -> None:
    store = Store(tmp_path, max_commit_log_size=3_000)
    assert store.run().log_files == 3
    assert store.run() == Cleaned()
    assert store.min_offset == 30


def test_readers_keep_what_they_hold(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.files.files[0].raw[0:5] = b"hello"
    slice_ = store.files.view(0, 5)
    assert slice_ is not None
    store.usage = 0.86
    assert store.run().log_files == 5
    assert store.files.view(0, 5) is None
    assert bytes(slice_) == b"hello"
    assert not (store.config.commit_log_dir / f"{0:020d}").exists()


def test_a_file_that_cannot_be_deleted_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    store.usage = 0.86
    real, store.files.dispose = store.files.dispose, _refusing
    assert store.run().reason == "failed"
    assert "tries again" in caplog.text
    store.files.dispose = real
    result = store.run()
    assert result.queue_files == 5
    assert store.min_offset == 50


def _refusing(_: object) -> None:
    raise PermissionError("not allowed")


def test_used_ratio(tmp_path: Path) -> None:
    assert 0 < used_ratio(tmp_path) < 1
    assert used_ratio(tmp_path / "missing") == -1
