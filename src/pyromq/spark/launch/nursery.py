"""A process that has Spark's and PyroMQ's modules loaded, and forks the Python processes that Spark asks for.

The launcher hands over arguments, environment, folder and standard streams; what it gets is a process that is as good
as a new one, without the time of its imports. One that could not be, because Python reads part of its environment only
at the very start, is refused, and the launcher starts it itself. Whoever started the nursery holds the other end of its
standard input: when that is closed, by whatever death, the nursery ends what it forked, and itself.
"""

import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple, NoReturn

from pyromq.spark.launch.launcher import PATH, installed_path

MODULES = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyromq.spark.source.streamreader",
    "pyromq.spark.source.batchreader",
    "pyromq.spark.task.rangereader",
    "pyromq.spark.pipeline.run.rowsource",
    "pyromq.spark.pipeline.run.rowsink",
)
AT_START = (
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONDEVMODE",
    "PYTHONWARNINGS",
    "PYTHONUTF8",
    "PYTHONIOENCODING",
    "PYTHONMALLOC",
    "PYTHONNOUSERSITE",
    "PYTHONSAFEPATH",
    "PYTHONFAULTHANDLER",
    "PYTHONTRACEMALLOC",
)
"""What a running Python no longer heeds."""
REQUEST_BOUND = 5.0
GRACE = 3.0
"""Seconds that processes have to end after SIGTERM."""


class Request(NamedTuple):
    """A process to be."""

    folder: str
    arguments: list[str]
    environ: dict[str, str]
    streams: list[int]


class Nursery:
    """Listens for launchers. For one thread, as a process that forks must be."""

    def __init__(self, listener: socket.socket, holder: int) -> None:
        self._listener = listener
        self._holder = holder
        self._given = [entry for entry in os.environ.get(PATH, "").split(os.pathsep) if entry]
        self._base = [entry for entry in sys.path[1:] if entry not in self._given]
        self._launchers: dict[int, socket.socket] = {}
        """By the process that each of them stands for."""

    def serve(self) -> None:
        """Until the holder is gone."""
        ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup)
        with selectors.DefaultSelector() as selector:
            for source in (self._holder, ended, self._listener):
                selector.register(source, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == self._holder:
                        if not os.read(self._holder, 64):
                            self._end()
                            return
                    elif key.fileobj == ended:
                        with contextlib.suppress(BlockingIOError):
                            os.read(ended, 4096)
                        self._reap(selector)
                    elif key.fileobj is self._listener:
                        self._take(selector)
                    else:  # a launcher has been killed: Spark has no use for its process
                        selector.unregister(key.fileobj)
                        _kill(key.data, signal.SIGTERM)

    def _take(self, selector: selectors.BaseSelector) -> None:
        launcher, _ = self._listener.accept()
        launcher.settimeout(REQUEST_BOUND)
        try:
            request = read_request(launcher)
        except (OSError, ValueError):
            launcher.close()
            return
        pid = self._fork(request, launcher) if _is_startable(request.environ) and _waits(launcher) else 0
        for each in request.streams:
            os.close(each)
        try:
            launcher.sendall(pid.to_bytes(4))
        except OSError:
            if pid:
                _kill(pid, signal.SIGTERM)
        if pid:
            self._launchers[pid] = launcher
            selector.register(launcher, selectors.EVENT_READ, pid)
        else:
            launcher.close()

    def _reap(self, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                launcher = self._launchers.pop(found[0])
                with contextlib.suppress(KeyError):
                    selector.unregister(launcher)
                with contextlib.suppress(OSError):
                    launcher.sendall((os.waitstatus_to_exitcode(found[1]) & 0xFF).to_bytes(4))
                launcher.close()

    def _end(self) -> None:
        """Nobody is left without a word, and nobody stays."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._launchers:
                _kill(pid, number)
            until = time.monotonic() + GRACE
            while self._launchers and time.monotonic() < until:
                found, _ = os.waitpid(-1, os.WNOHANG)
                self._launchers.pop(found, None)
                if not found:
                    time.sleep(0.01)
        path = Path(self._listener.getsockname())
        path.unlink(missing_ok=True)
        path.parent.rmdir()

    def _fork(self, request: Request, launcher: socket.socket) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (self._listener, launcher, *self._launchers.values()):
                each.close()
            os.close(self._holder)
            self._run(request)
        except BaseException:  # noqa: BLE001 - the nursery's own frames are none of this process's business
            traceback.print_exc()
        os._exit(1)

    def _run(self, request: Request) -> NoReturn:
        for number, each in enumerate(request.streams):
            os.dup2(each, number)
            os.close(each)
        os.environ.clear()
        os.environ.update(request.environ)
        time.tzset()
        os.chdir(request.folder)
        _, module, *rest = request.arguments
        given = [entry for entry in request.environ.get(PATH, "").split(os.pathsep) if entry]
        sys.path[:] = [request.folder, *given, *self._base]
        sys.argv = [module, *rest]
        sys.modules.pop(module, None)
        importlib.invalidate_caches()
        code: object = 0
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as error:
            code = error.code or 0
        except BaseException:  # noqa: BLE001 - as Python does at the end of a program
            traceback.print_exc()
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code & 0xFF if isinstance(code, int) else 1)


def read_request(launcher: socket.socket) -> Request:
    """What a launcher sends: a length, then texts with zeros between. Raises OSError, ValueError for what is not."""
    head, streams, _, _ = socket.recv_fds(launcher, 4, 3)
    left = int.from_bytes(head)
    parts = []
    while left > 0 and (part := launcher.recv(left)):
        parts.append(part)
        left -= len(part)
    folder, *texts = os.fsdecode(b"".join(parts)).split("\0")
    if left or len(streams) != 3 or len(texts) < 3:
        for each in streams:
            os.close(each)
        raise ValueError("not a request of a launcher")
    end = int(texts[0]) + 1
    return Request(folder, texts[1:end], dict(text.split("=", 1) for text in texts[end:]), list(streams))


def _is_startable(environ: dict[str, str]) -> bool:
    return all(environ.get(name) == os.environ.get(name) for name in AT_START)


def _waits(launcher: socket.socket) -> bool:
    """Whether it is still there: one that has lost patience starts its process itself."""
    launcher.settimeout(0)
    try:
        return bool(launcher.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        launcher.settimeout(REQUEST_BOUND)


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def preload() -> None:
    """Import what the forked processes would; what this Spark does not have, they do not need."""
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    random = sys.modules.get("numpy.random")
    if random is not None:
        os.register_at_fork(after_in_child=random.seed)  # Python's own generator does so by itself
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve until standard input ends; the argument is the number of a socket that listens."""
    # One of Arrow's allocator, which starts it anew after a fork. Python counts threads, and cannot know.
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    holder = os.dup(0)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.environ[PATH] = installed_path(os.environ.get(PATH, ""), sys.path)
    preload()
    Nursery(socket.socket(fileno=int(sys.argv[1])), holder).serve()


if __name__ == "__main__":
    main()
