"""The demo, as a user runs it."""

import subprocess
import sys


def test_the_demo_checks_its_books() -> None:
    command = [sys.executable, "-m", "pyromq", "demo", "--messages", "300", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✔") == 5
    assert "✘" not in done.stdout
