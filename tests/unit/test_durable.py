"""Folders and files that survive a power cut from the moment a function returns, and that only their owner reads."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyromq import disk, durable
from pyromq.auth.users.seal import Seal
from pyromq.configfile import backup_of, write_config
from pyromq.spark.storage.place import open_store
from pyromq.store.queue.files import sync_files
from tests.unit.syncs import Syncs


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Syncs:
    return Syncs(monkeypatch, tmp_path)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Modes must come from us, not from a strict umask of whoever runs the tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_on_the_way_is_durable(tmp_path: Path, syncs: Syncs) -> None:
    (tmp_path / "there").mkdir(0o755)
    durable.make_folder(tmp_path / "there" / "a" / "b" / "c")
    assert syncs.survives(tmp_path / "there" / "a" / "b" / "c")
    assert mode(tmp_path / "there") == 0o755, "not ours to change"
    assert {mode(tmp_path / "there" / name) for name in ("a", "a/b", "a/b/c")} == {0o700}


def test_a_folder_that_was_made_but_not_synced_is_made_durable_by_the_next(tmp_path: Path, syncs: Syncs) -> None:
    (tmp_path / "a").mkdir()  # by a process that was killed then
    durable.make_folder(tmp_path / "a" / "b")
    assert syncs.survives(tmp_path / "a" / "b")


def test_a_folder_that_the_caller_syncs_costs_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncs: Syncs
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", lambda _: pytest.fail("thousands of queues would each wait for the disk"))
        durable.add_folder(tmp_path / "topic" / "0")
        durable.add_folder(tmp_path / "topic" / "1")
    (tmp_path / "topic" / "1" / "file").touch()
    sync_files([str(tmp_path / "topic" / "1" / "file")])
    assert syncs.survives(tmp_path / "topic" / "1" / "file")


def test_a_folder_cannot_be_made_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotADirectoryError):
        durable.make_folder(tmp_path / "a" / "b")
    with pytest.raises(NotADirectoryError):
        durable.make_folder(tmp_path / "a")


def test_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    durable.make_folder(Path("a/b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_is_replaced_whole(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "new" / "state.json"
    durable.write_file(path, b"one")
    durable.write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert syncs.survives(path)
    assert path.stat().st_ino in syncs.files
    assert mode(path) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    durable.write_file(path, b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "sync", full)
    with pytest.raises(OSError, match="No space"):
        durable.write_file(path, b"two")
    assert path.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_draft_left_by_a_killed_process_lends_its_mode_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    draft = durable.write_draft(path, b"half")
    draft.chmod(0o666)
    durable.write_file(path, b"one")
    assert mode(path) == 0o600


def test_a_file_that_must_be_new(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "key"
    durable.create_file(path, b"mine")
    assert syncs.survives(path)
    with pytest.raises(FileExistsError):
        durable.create_file(path, b"other")
    assert path.read_bytes() == b"mine"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_a_file_of_fixed_length_is_written_in_place(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "config" / "check"
    durable.write_head(path, b"12345", length=16)
    number = path.stat().st_ino
    durable.write_head(path, b"678", length=16)
    assert path.read_bytes() == b"67845".ljust(16, b"\0")
    assert path.stat().st_ino == number
    assert number in syncs.files
    assert syncs.survives(path)
    assert mode(path) == 0o600


def test_settings_and_their_backup(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "config" / "topics.json"
    write_config(path, b"one")
    write_config(path, b"two")
    assert (path.read_bytes(), backup_of(path).read_bytes()) == (b"two", b"one")
    assert syncs.survives(path)
    assert syncs.survives(backup_of(path))
    assert {mode(path), mode(backup_of(path))} == {0o600}
    assert mode(path.parent) == 0o700


def test_two_threads_may_replace_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    first = durable.write_draft(path, b"in the background")
    with ThreadPoolExecutor(1) as other:
        second = other.submit(durable.write_draft, path, b"at the stop").result()
    second.replace(path)
    first.replace(path)
    assert path.read_bytes() == b"in the background"


def test_keys_that_secrets_are_sealed_with(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "auth" / "users.key"
    Seal(path)
    assert syncs.survives(path)
    assert path.stat().st_ino in syncs.files
    assert mode(path) == 0o600


def test_tables_of_spark_are_as_the_umask_has_it(tmp_path: Path, syncs: Syncs) -> None:
    path = tmp_path / "table" / "_manifests" / "one.json"
    open_store(tmp_path / "table", shared=True).create("_manifests/one.json", b"{}")
    assert syncs.survives(path)
    assert (mode(path), mode(path.parent)) == (0o644, 0o755)
