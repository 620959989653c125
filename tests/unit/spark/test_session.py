"""What a runner's session is told, and what it leaves to the user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import sparkpython
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run import session

DEFINITION = """\
name: orders
source: {nameServer: 127.0.0.1:9876, topic: orders}
sinks: [parquet: {path: lake/orders}]
checkpoint: state/orders
spark: {spark.driver.extraJavaOptions: "-Xss4m -Dmine=1"}
"""


def test_java_options_of_a_definition_are_kept() -> None:
    assert session.settings(loads(DEFINITION), 2)["spark.driver.extraJavaOptions"] == "-Xss4m -Dmine=1"


def test_options_for_every_java_machine_are_kept_beside_ours_and_left_as_they_were() -> None:
    environ = {session.JAVA_OPTIONS: "-Dmine=1"}
    with session.quiet_java(environ):
        ours, _, mine = environ[session.JAVA_OPTIONS].partition(" ")
    assert session.QUIET.is_file()
    assert ours == f"-Dlog4j2.configurationFile={session.QUIET.as_uri()}"
    assert mine == "-Dmine=1"
    assert environ == {session.JAVA_OPTIONS: "-Dmine=1"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path on which `python3` is another Python than ours."""
    (tmp_path / "python3").touch(0o755)
    return f"{tmp_path}{os.pathsep}/usr/bin"


def test_spark_is_told_to_run_this_python(path: str) -> None:
    environ = {"PATH": path}
    sparkpython.tell_spark(environ, "/app/.venv/bin/python")
    assert environ == {"PATH": path, "PYSPARK_PYTHON": "/app/.venv/bin/python"}


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_ENV_LOADED"])
def test_unless_it_was_told_another_or_runs_already(name: str, path: str) -> None:
    environ = {"PATH": path, name: "python3.12"}
    sparkpython.tell_spark(environ, "/app/.venv/bin/python")
    assert environ == {"PATH": path, name: "python3.12"}


def test_nothing_is_said_in_an_environment_that_is_activated(tmp_path: Path, path: str) -> None:
    environ = {"PATH": path}
    sparkpython.tell_spark(environ, str(tmp_path / "python"))
    assert environ == {"PATH": path}


def test_saying_so_imports_no_spark() -> None:
    code = "import sys, pyromq\nassert 'pyspark' not in sys.modules and 'pyromq.spark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
