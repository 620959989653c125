"""Ten thousand queues of a thousand topics: written, closed, killed and recovered with few files and little memory."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.storemany import MAX_FILES, QUEUES, ROUNDS

ROOT = Path(__file__).parents[2]
TOPICS = 1_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: this is about bounds, and a disk takes half a minute to make 20 000 files."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as path:
        yield Path(path)


def run(home: Path, action: str) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.faults.storemany", str(home), str(TOPICS), action]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{action} ended with {done.returncode}:\n{done.stderr[-3000:]}"
    report: dict[str, int] = json.loads(done.stdout)
    return report


def test_ten_thousand_queues(folder: Path) -> None:
    home = folder / "store"
    for action, count in (("write", ROUNDS), ("crash", 2 * ROUNDS), ("read", 2 * ROUNDS)):
        report = run(home, action)
        assert report["count"] == count
        assert report["open_files"] < MAX_FILES
        assert report["memory"] < 300 << 20
        # Files have the length that the format demands, 60 GB in all, but few of their blocks exist.
        assert report["queue_bytes"] <= TOPICS * QUEUES * (8 << 10)
