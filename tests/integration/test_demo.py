"""The demo, as a user runs it where there is no Spark; tests/spark runs it with."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from pyromq.cli import app


def test_the_demo_checks_its_books(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq", "demo", "--messages", "300", "--seed", "3", "--no-spark"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "300"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✔") == 5
    assert "✘" not in done.stdout
    report = (tmp_path / "pyromq-demo.html").read_text()
    assert report.count('class="held"') == 5
    assert report.count("<svg") == 3
    shown = re.findall(r"   pyromq (\w+ .*)$", done.stdout, re.MULTILINE)
    assert [each.split()[0] for each in shown] == ["admin", "send", "consume"]
    for each in shown:
        assert parse(each.split())["topic"] == "orders"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-m", "pyromq", "demo", "--messages", "1000000", "--no-spark"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
    ) as demo:
        try:
            assert demo.stdout is not None
            assert demo.stdout.readline().startswith("1 name server")
            assert list(folder.glob("pyromq-demo-*"))
            demo.send_signal(number)
            _, error = demo.communicate(timeout=180)
        finally:
            demo.kill()
    assert demo.returncode == 128 + number
    assert list(folder.glob("pyromq-demo-*")) == []
    assert not (tmp_path / "pyromq-demo.html").exists()
    assert "interrupted; its servers are stopped and its files removed" in error
    assert "Traceback" not in error


def parse(words: list[str]) -> dict[str, Any]:
    """What a command understands. Raises UsageError for what it does not take."""
    command, context = get_command(app), None
    while True:
        context = command.make_context(command.name, list(words), parent=context)
        if not isinstance(command, TyperGroup):
            return context.params
        _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found
