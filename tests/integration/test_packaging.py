"""The wheel and the source distribution hold what they should, and the wheel works where nothing else of us is."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOUND = 180.0


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=BOUND)
    return folder


def modules() -> set[str]:
    source = ROOT / "src"
    return {str(path.relative_to(source)) for path in source.rglob("*.py")}


def test_the_wheel_has_every_module_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert modules() <= names
    assert "pyromq/py.typed" in names
    assert all(name.startswith(("pyromq/", "pyspark_rocketmq")) for name in names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_source_distribution_has_what_builds_the_wheel_and_nothing_else(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{module}" for module in modules()} <= names
    assert all(name.startswith("src/") for name in names if "/" in name)


def test_the_wheel_works_from_an_empty_folder(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")  # noqa: S202 - built a moment ago
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONWARNINGS": "error"}
    program = "import pyromq, sys; print(pyromq.__file__); from pyromq.cli import app; app(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert "standalone" in done.stdout
