"""Pages of the log are got ahead of its end, in the worker, and only while it grows."""

from itertools import pairwise
from pathlib import Path

import pytest

from pyromq import disk
from pyromq.store.config import StoreConfig
from pyromq.store.log.commitlog import CommitLog
from tests.unit.store.powercut import Inline

MIB = 1 << 20
RECORD = 10 << 10


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The stretches that pages were asked for."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(disk, "populate", lambda _, begin, end: found.append((begin, end)))
    return found


def log_in(folder: Path, file_size: int = 32 * MIB, *, worker: bool = True) -> CommitLog:
    config = StoreConfig(
        store_path_root_dir=folder, mapped_file_size_commit_log=file_size, allocate_step_commit_log=8 * MIB
    )
    return CommitLog(config, Inline() if worker else None)


def grow(log: CommitLog, size: int) -> None:
    """Append records until so many bytes more are there."""
    end = log.max_offset + size
    while log.max_offset < end:
        last = log.last
        if last is None or last.position + RECORD > log.limit:
            last = log.room(RECORD)
        last.append(bytes(RECORD))


def test_a_store_at_rest_asks_for_none(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    log = log_in(tmp_path)
    grow(log, MIB)
    assert asked == []
    log.close()


def test_pages_are_asked_for_once_ahead_of_the_end_and_only_where_blocks_are(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    log = log_in(tmp_path)
    reached = 0
    while log.max_offset < 31 * MIB:
        grow(log, RECORD)
        assert log.last is not None
        for begin, end in asked[reached:]:
            assert log.last.position - RECORD <= begin < end <= log.last.reserved
        reached = len(asked)
        if log.max_offset > 3 * MIB:
            assert asked[-1][1] > log.max_offset
    for (_, before), (begin, _) in pairwise(asked):
        assert begin == before
    log.close()


def test_the_next_file_has_its_first_pages_at_once(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    log = log_in(tmp_path, 8 * MIB)
    while len(log.files) < 2:
        asked.clear()
        grow(log, RECORD)
    assert log.last is not None
    assert (log.last.position, asked[0][0], asked[-1][1]) == (RECORD, RECORD, 4 * MIB + RECORD)
    log.close()


def test_without_a_worker_none_are_asked_for(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    log = log_in(tmp_path, worker=False)
    grow(log, 12 * MIB)
    assert asked == []
    log.close()


def test_a_cut_log_begins_anew(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    log = log_in(tmp_path)
    grow(log, 5 * MIB)
    log.truncate(RECORD)
    asked.clear()
    grow(log, RECORD)
    assert asked == []
    grow(log, 3 * MIB)
    assert asked[0][0] < 4 * MIB
    log.close()
