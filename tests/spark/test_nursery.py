"""Processes forked from one that has everything loaded: as good as new ones, and gone with whom they belong to."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq.spark.launch.holder import nursery
from pyromq.spark.launch.launcher import NURSERY
from pyromq.spark.launch.registration import LAUNCHER
from tests.spark.streamprocess import BOUND, StreamProcess, launched

HOLDER = """
import os, sys
from pyromq.spark.launch import holder
path = holder.nursery()
print(path, holder._start(os.getpid())[1].pid, flush=True)
sys.stdin.read()
"""
SHOWN = """
import os, random, sys
print(os.getcwd(), os.environ.get("WORD"), sys.argv[1:], __name__, "pyarrow" in sys.modules, sys.path[0])
print("said on the side", file=sys.stderr)
assert not sys.stdin.read()
sys.exit(7)
"""


@pytest.fixture(scope="module")
def environ() -> dict[str, str]:
    ready(nursery())
    return {NURSERY: nursery(), "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}


def ready(path: str) -> None:
    """Wait until all is loaded: then somebody who asks for nothing is answered, with nothing."""
    with socket.socket(socket.AF_UNIX) as early:
        early.settimeout(BOUND)
        early.connect(path)
        early.shutdown(socket.SHUT_WR)
        assert not early.recv(1)


class Holder:
    """A process with a nursery, to be killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.path, pid = self.process.stdout.readline().split()
        self.nursery = int(pid)
        self.environ = {NURSERY: self.path, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}


@pytest.fixture
def holder() -> Iterator[Holder]:
    made = Holder()
    ready(made.path)
    yield made
    made.process.communicate(timeout=BOUND)  # its input ends, and so does it


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_stream_starts_in_a_fork_and_ends_with_its_socket(environ: dict[str, str]) -> None:
    with StreamProcess(environ=environ) as stream:
        stream.start()
        assert stream.pid != stream.process.pid
        assert stream.features() == 3
        stream.hang_up()
        stream.process.communicate(timeout=BOUND)
        assert not is_alive(stream.pid)


def test_it_ends_when_spark_ends_its_launcher(environ: dict[str, str]) -> None:
    with StreamProcess(environ=environ) as stream:
        stream.start()
        stream.process.kill()
        eventually(lambda: not is_alive(stream.pid))


def test_it_has_the_folder_the_environment_the_arguments_and_the_streams_of_its_launcher(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shown.py").write_text(SHOWN)
    done = subprocess.run(
        [str(LAUNCHER), "-m", "shown", "a b", ""],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=os.environ | launched() | environ | {"WORD": "größer = x"},
        timeout=BOUND,
        check=False,
    )
    assert done.stdout.strip() == f"{tmp_path} größer = x ['a b', ''] __main__ True {tmp_path}"
    assert (done.stderr.strip(), done.returncode) == ("said on the side", 7)


def test_what_python_heeds_only_at_its_start_makes_it_a_new_process(environ: dict[str, str]) -> None:
    with StreamProcess(environ=environ | {"PYTHONHASHSEED": "77"}) as stream:
        stream.start()
        assert stream.pid == stream.process.pid


def test_without_a_nursery_it_is_a_new_process(tmp_path: Path) -> None:
    with StreamProcess(environ={NURSERY: str(tmp_path / "nobody")}) as stream:
        stream.start()
        assert stream.pid == stream.process.pid


def test_nothing_is_left_of_it_after_the_driver_is_killed(holder: Holder) -> None:
    with StreamProcess(environ=holder.environ) as stream:
        stream.start()
        assert stream.pid != stream.process.pid
        holder.process.kill()
        stream.process.communicate(timeout=BOUND)
        eventually(lambda: not is_alive(stream.pid) and not is_alive(holder.nursery))
        eventually(lambda: not Path(holder.path).parent.exists())


def test_nothing_is_left_of_it_after_the_nursery_is_killed(holder: Holder) -> None:
    with StreamProcess(environ=holder.environ) as stream:
        stream.start()
        os.kill(holder.nursery, signal.SIGKILL)
        stream.process.communicate(timeout=BOUND)
        eventually(lambda: not is_alive(stream.pid))
