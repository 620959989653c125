"""SP-15: the whole way, from orders through the pipeline to Parquet and a topic, counted again by other readers."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BOUND = 600.0


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_the_demo_with_spark(tmp_path: Path) -> None:  # SP-15
    command = [sys.executable, "-m", "pyromq", "demo", "--messages", "2000", "--seed", "3", "--spark"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✔") == 6
    assert "✘" not in done.stdout
    assert (tmp_path / "pyromq-demo.html").read_text().count("<svg") == 4
