"""A store that is new must survive a power cut with its first message, and be its owner's alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.store.config import FlushDiskType
from tests.unit.store.storage import message, open_store
from tests.unit.syncs import Syncs


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_all_folders_are_durable_before_the_first_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch, tmp_path)
    root = tmp_path / "data" / "broker" / "store"
    store = open_store(root, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    result = store.put_durably(message(body=b"first"))
    assert result.stored
    log = root / "commitlog" / f"{0:020d}"
    assert log.stat().st_ino in syncs.files
    for path in (log, root / "abort", root / "consumequeue", root / "index"):
        assert syncs.survives(path), f"a power cut may take {path}"
    store.close()


def test_that_it_runs_is_durable_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs(monkeypatch, tmp_path)
    store = open_store(tmp_path / "store")
    assert syncs.survives(tmp_path / "store" / "abort")
    store.close()


def test_files_and_folders_are_for_their_owner(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data" / "store")
    store.put_durably(message(body=b"x", properties={"KEYS": "k"}))
    store.flush()
    store.close()
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("**/*")}
    folders = {name for name in modes if (tmp_path / name).is_dir()}
    assert {name for name in folders if modes[name] != 0o700} == set()
    assert {name for name in modes.keys() - folders if modes[name] != 0o600} == set()
    assert len(modes.keys() - folders) >= 6


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir(0o755)
    open_store(root).close()
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
