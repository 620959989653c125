"""The disk that forgets, tried with programs that sync what they should and with others that do not."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.powercut import NOTHING, cut, on_disk
from tests.faults.powercut.disk import Disk
from tests.faults.powercut.program import ROOT
from tests.faults.powercut.sample import PAGE, PAGES

SEEDS = range(1, 41)


def run(folder: Path, program: str) -> None:
    """Let a program do what it does and die."""
    command = [*on_disk(folder), "-m", "tests.faults.powercut.sample", program, str(folder)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr


def files(folder: Path) -> dict[str, bytes]:
    """Everything that is there."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def outcomes(folder: Path, program: str) -> list[dict[str, bytes]]:
    """What disks with all the seeds have."""
    run(folder, program)
    disk = Disk(folder)
    found = []
    for seed in SEEDS:
        disk.build(folder.with_name(f"seed-{seed}"), seed)
        found.append(files(folder.with_name(f"seed-{seed}")))
    return found


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("careful", {"a/b/file": b"kept"}),
        ("forgets_contents", {"file": b""}),
        ("forgets_name", {}),
        ("forgets_parent", {}),
        ("replaces", {"file": b"old"}),
        ("replaces_by_unsynced", {"file": b""}),
        ("removes", {"back": b"old"}),
        ("makes_again", {"a/new": b"new"}),
        ("maps", {"file": b"1" * (PAGES // 2 * PAGE) + bytes(PAGES // 2 * PAGE)}),
    ],
)
def test_only_what_was_synced_is_certain(tmp_path: Path, program: str, expected: dict[str, bytes]) -> None:
    folder = tmp_path / "data"
    run(folder, program)
    cut(folder, NOTHING)
    assert files(folder) == expected


def test_what_was_not_synced_may_be_there_or_not(tmp_path: Path) -> None:
    for program, expected in {
        "careful": [{"a/b/file": b"kept"}],
        "forgets_contents": [{"file": b""}, {"file": b"lost"}, {"file": bytes(4)}],
        "forgets_name": [{}, {"file": b"lost"}],
        "replaces": [{"file": b"old"}, {"file": b"old", "fresh": b"new"}, {"file": b"new"}],
        "replaces_by_unsynced": [{"file": b""}, {"file": b"new"}, {"file": bytes(3)}],
        "removes": [{}, {"back": b"old"}],
    }.items():
        found = outcomes(tmp_path / program / "data", program)
        assert all(each in found for each in expected), program
        assert all(each in expected for each in found), program


def test_pages_are_written_in_any_order(tmp_path: Path) -> None:
    found = {each["file"][::PAGE] for each in outcomes(tmp_path / "data", "maps")}
    assert {byte for each in found for byte in each[: PAGES // 2]} == set(b"12")
    assert {byte for each in found for byte in each[PAGES // 2 :]} == set(b"\0002")
    assert any(b"12" in each for each in found), "a later page without an earlier one"
    assert any(b"21" in each for each in found)


def test_a_kill_alone_loses_nothing(tmp_path: Path) -> None:
    # The record resumes with the next program, and what the first did not sync is still not on disk.
    folder = tmp_path / "data"
    run(folder, "forgets_name")
    assert files(folder) == {"file": b"lost"}
    run(folder, "forgets_parent")
    assert files(folder) == {"file": b"lost", "a/b/file": b"lost"}
    cut(folder, NOTHING)
    assert files(folder) == {"file": b"lost"}, "the second program synced the folder that names it"
