"""The pytest plugin, as the example project uses it, in a pytest of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3] / "examples" / "testing_project"
PLUGIN = "pyromq.testing.plugin"


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """pytest in a folder, with this plugin alone, whether or not it is installed as one."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-p", PLUGIN, *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=environment
    )


def test_the_example_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "pytest.ini").write_text("[pytest]\n")  # as a project of its own, not a part of this one
    done = run(project, "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_a_run_that_needs_no_cluster_does_not_load_one(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert 'pyromq.broker' not in sys.modules\n"
    )
    done = run(tmp_path, "-q")
    assert done.returncode == 0, done.stdout
