"""The sources on a real Spark cluster of a master and two workers, shipped as `--py-files`."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import venv
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import pyromq
from tests.processes import Server, standalone
from tests.spark.test_pipeline import stored
from tests.spark.topics import BOUND, create, fill

HOME = Path(pyspark.__file__).parent
SOURCES = Path(pyromq.__file__).parent.parent


class Daemon:
    """A process of Spark's cluster; `wait_for` finds a line of its log."""

    def __init__(self, *command: str, **environ: str) -> None:
        self._process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environ},
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self._process.stdout:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()

    def wait_for(self, pattern: str) -> str:
        def found() -> re.Match[str] | None:
            return next((match for line in self._lines if (match := re.search(pattern, line))), None)

        with self._changed:
            assert self._changed.wait_for(found, BOUND), "".join(self._lines)
            match = found()
        assert match is not None
        return match[1]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, which is not on the path")
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    with contextlib.ExitStack() as stack:
        package = "org.apache.spark.deploy"
        here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        head = Daemon(f"{package}.master.Master", *here, **small)
        stack.callback(head.stop)
        address = head.wait_for(r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            folder = tmp_path / f"worker{number}"
            worker = Daemon(
                f"{package}.worker.Worker", *here, "-c", "1", "-m", "700m", "-d", str(folder), address, **small
            )
            stack.callback(worker.stop)
            worker.wait_for(r"(Successfully registered with master)")
        yield address


def packed(folder: Path) -> Path:
    """The package as one file, with the two modules by which Spark finds the formats."""
    target = folder / "pyromq.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for file in [*SOURCES.glob("pyspark_rocketmq*.py"), *(SOURCES / "pyromq").rglob("*.py")]:
            archive.write(file, file.relative_to(SOURCES))
    return target


def python_without_pyromq(folder: Path) -> Path:
    """A Python that has what PyroMQ needs, but not PyroMQ itself, as the nodes of a cluster do."""
    venv.create(folder, with_pip=False)
    (here,) = folder.glob("lib/python*/site-packages")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (here / "packages.pth").write_text(packages)  # paths named so do not run the .pth files inside
    python = folder / "bin" / "python"
    tried = subprocess.run([python, "-c", "import pyarrow, pyromq"], capture_output=True, text=True, check=False)
    assert "No module named 'pyromq'" in tried.stderr
    return python


def submit(master: str, python: Path, archive: Path, *arguments: str) -> str:
    """The last line that the application prints."""
    settings = {
        "spark.driver.memory": "700m",
        "spark.executor.memory": "500m",
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    confs = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    environ = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    # The process that runs a stream's driver side knows nothing of --py-files, only of this.
    environ["PYTHONPATH"] = str(archive)
    done = subprocess.run(
        [HOME / "bin" / "spark-submit", "--master", master, "--py-files", archive, *confs, *arguments],
        capture_output=True,
        text=True,
        env=environ,
        timeout=10 * BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout.strip().splitlines()[-1]


def application(server: Server, folder: Path, **more: object) -> tuple[str, str]:
    """The job and what it is told."""
    told = {"options": {"nameServer": server["namesrv"]}, "topic": "shipped", "folder": str(folder / "out"), **more}
    (folder / "out").mkdir()
    return str(Path(__file__).parent / "submitted.py"), json.dumps(told)


def test_submitted_to_a_cluster(master: str, tmp_path: Path) -> None:
    with standalone(tmp_path / "data") as server:
        create(server["namesrv"], "shipped")
        fill(server["namesrv"], "shipped", range(400))
        python = python_without_pyromq(tmp_path / "python")
        told = submit(master, python, packed(tmp_path), *application(server, tmp_path))
    assert json.loads(told) == {"rows": 400, "distinct": 400, "executors": 2}


def test_executors_and_workers_killed_in_a_batch(master: str, tmp_path: Path, long_run: bool) -> None:
    if not long_run:
        pytest.skip("only with --long")
    begun = tmp_path / "out" / "begun"
    killed: list[str] = []
    ended = threading.Event()

    def kill(pattern: str) -> None:
        """The first process of the cluster whose command has these words, once rows are under way."""
        while not begun.exists():
            if ended.wait(0.05):
                return
        pids = [pid for pid, command in cluster_processes(tmp_path).items() if pattern in command]
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pattern)
        begun.unlink(missing_ok=True)

    def kill_all() -> None:
        for pattern in ("CoarseGrainedExecutorBackend", "pyspark.daemon", "CoarseGrainedExecutorBackend"):
            kill(pattern)

    with standalone(tmp_path / "data") as server:
        for topic in ("shipped", "copied"):
            create(server["namesrv"], topic)
        fill(server["namesrv"], "shipped", range(400))
        python = python_without_pyromq(tmp_path / "python")
        job = application(server, tmp_path, copy="copied", pause=0.05)
        killing = threading.Thread(target=kill_all)
        killing.start()
        try:
            told = json.loads(submit(master, python, packed(tmp_path), *job))
        finally:
            ended.set()
            killing.join()
        copies = Counter(int(message.body) for message in stored(server["namesrv"], "copied"))
    assert (told["rows"], told["distinct"]) == (400, 400)
    assert copies == Counter(range(400))
    assert len(killed) == 3


def cluster_processes(folder: Path) -> dict[int, str]:
    """Command lines of what executors of this test's workers run, by process id: their folder is below the test's."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(path.joinpath("cwd").readlink()).startswith(str(folder)):
                found[int(path.name)] = command
    return found
