"""The checkpoint file: bytes, damage, the recovery time."""

from pathlib import Path

import pytest

from pyromq.store.errors import DiskFullError
from pyromq.store.save.checkpoint import LENGTH, StoreCheckpoint


def test_layout_is_five_numbers_in_one_page(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    checkpoint.physic_timestamp = 1
    checkpoint.logics_timestamp = 2
    checkpoint.index_timestamp = 3
    checkpoint.master_flushed_offset = 4
    checkpoint.confirm_offset = 5
    checkpoint.flush()
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == LENGTH
    assert data[:40] == b"".join(n.to_bytes(8) for n in (1, 2, 3, 4, 5))
    assert not any(data[40:])


def test_values_come_back_and_are_overwritten_in_place(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    for time in (1_700_000_000_000, 1_700_000_001_000):
        checkpoint.physic_timestamp = checkpoint.logics_timestamp = time
        checkpoint.flush()
    again = StoreCheckpoint(tmp_path / "checkpoint")
    assert again.load()
    assert again.physic_timestamp == again.logics_timestamp == 1_700_000_001_000
    assert again.recovery_time(with_index=False) == 1_700_000_001_000 - 3_000
    assert again.recovery_time(with_index=True) == 0  # no full index file yet
    assert (tmp_path / "checkpoint").stat().st_size == LENGTH


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\xff" * 40, b"\x80" + b"\0" * 39])
def test_damage_means_zeros_and_so_a_longer_recovery(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    checkpoint = StoreCheckpoint(path)
    assert checkpoint.load()
    assert checkpoint.recovery_time(with_index=True) == 0
    checkpoint.flush()
    assert path.stat().st_size >= LENGTH


def test_missing_file(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    assert not checkpoint.load()
    assert checkpoint.recovery_time(with_index=False) == 0


def test_four_x_wrote_three_numbers_only(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"".join(n.to_bytes(8) for n in (7_000, 8_000, 9_000)))
    checkpoint = StoreCheckpoint(path)
    checkpoint.load()
    assert (checkpoint.physic_timestamp, checkpoint.index_timestamp, checkpoint.confirm_offset) == (7_000, 9_000, 0)
    assert checkpoint.recovery_time(with_index=False) == 4_000


def test_full_disk_is_an_error_of_ours(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(Path("/dev/full"))
    with pytest.raises(DiskFullError, match="no space left"):
        checkpoint.flush()
