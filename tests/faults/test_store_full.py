"""A full disk: a clear status, no crash (above all no SIGBUS), everything readable, and going on by itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB. Needs the right to mount one, which containers and CI runners mostly have not lost."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)  # noqa: S607 - wherever the system has it


def test_store_lives_through_a_full_disk(small_disk: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.storefull", str(small_disk)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stderr[-3000:]}"
