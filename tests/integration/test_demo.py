"""The demo, as a user runs it where there is no Spark; tests/spark runs it with."""

import subprocess
import sys
from pathlib import Path


def test_the_demo_checks_its_books(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq", "demo", "--messages", "300", "--seed", "3", "--no-spark"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✔") == 4
    assert "✘" not in done.stdout
    report = (tmp_path / "pyromq-demo.html").read_text()
    assert report.count('class="held"') == 4
    assert report.count("<svg") == 3
