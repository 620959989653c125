"""Spark's Python processes through our launcher: how they start, how they end, and for whom they are not ours."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.spark.errors import OptionError
from pyromq.spark.launch.registration import LAUNCHER, SWITCH, register_formats
from pyromq.spark.source.formats import RocketMQSource
from tests.spark.streamprocess import BOUND, StreamProcess


def test_the_driver_side_of_a_stream_starts_and_ends_with_its_socket() -> None:
    with StreamProcess() as stream:
        stream.start()
        assert stream.features() == 3
        assert stream.pid == stream.process.pid
        stream.hang_up()
        stream.process.communicate(timeout=BOUND)


def interpreter_of(master: str, **settings: str) -> str:
    """The Python that a format is registered with in a session; nothing of it may stay behind."""
    seen: list[str] = []
    context = SimpleNamespace(master=master, pythonExec="python3", environment={}, getConf=lambda: settings)
    source = SimpleNamespace(register=lambda _format: seen.append(context.pythonExec))
    session: Any = SimpleNamespace(_sc=context, dataSource=source)
    register_formats(session, RocketMQSource)
    assert (context.pythonExec, context.environment) == ("python3", {})
    return seen[0]


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", SWITCH):
        monkeypatch.delenv(name, raising=False)


def test_a_local_session_runs_formats_through_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter_of("local[2]") == str(LAUNCHER)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert interpreter_of("local[2]") == str(LAUNCHER)


def test_a_switch_that_means_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "fast")
    with pytest.raises(OptionError, match="PYROMQ_SPARK_LAUNCHER is none, installed, fork, not 'fast'"):
        interpreter_of("local[2]")


def test_with_the_switch_off_it_runs_this_python_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "none")
    assert interpreter_of("local[2]") == sys.executable


def test_workers_of_a_cluster_are_told_no_path_of_this_machine() -> None:
    assert interpreter_of("spark://head:7077") == "python3"


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_python_of_the_user_goes_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/usr/bin/python3.12")
    assert interpreter_of("local[2]") == "python3"


def test_so_does_one_of_the_settings() -> None:
    assert interpreter_of("local[2]", **{"spark.pyspark.python": "/usr/bin/python3.12"}) == "python3"
