"""The path of Spark's Python processes: without archives of modules that are installed, and with all the rest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.spark.launch.launcher import installed_path
from pyromq.spark.launch.registration import LAUNCHER


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with PySpark and py4j in it."""
    for name in ("pyspark", "py4j"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    return tmp_path


def archives(home: Path) -> list[str]:
    lib = home / "pyspark" / "python" / "lib"
    jar = home / "pyspark" / "jars" / "spark-core_2.13-4.3.0.jar"
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(jar)]


def left(entries: list[str], packages: Path) -> list[str]:
    return [entry for entry in installed_path(os.pathsep.join(entries), [str(packages)]).split(os.pathsep) if entry]


def test_archives_of_the_installed_package_are_left_out(packages: Path) -> None:
    mine = ["/app/lib", "/app/more.zip"]
    assert left(archives(packages) + mine, packages) == mine


def test_those_of_another_spark_stay(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = archives(tmp_path_factory.mktemp("other"))
    assert left(other, packages) == other


def test_a_spark_that_is_only_an_archive_stays(tmp_path: Path) -> None:
    assert left(archives(tmp_path), tmp_path) == archives(tmp_path)


def test_the_archive_of_py4j_stays_where_it_is_not_installed(packages: Path) -> None:
    (packages / "py4j" / "__init__.py").unlink()
    (packages / "py4j").rmdir()
    assert left(archives(packages), packages) == archives(packages)[1:2]


@pytest.mark.skipif(sys.platform == "win32", reason="Spark starts Python by itself there")
def test_it_is_python_to_whoever_runs_it(tmp_path: Path) -> None:
    code = "import sys; print('%d.%d' % sys.version_info[:2], sys.argv[1:], sys.prefix); sys.exit(7)"
    environ = {**os.environ, "PYROMQ_SPARK_PYTHON": sys.executable}
    command = [str(LAUNCHER), "-c", code, "a b", "*"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, check=False)
    assert done.returncode == 7
    version = ".".join(map(str, sys.version_info[:2]))
    assert done.stdout.strip() == f"{version} ['a b', '*'] {sys.prefix}"
