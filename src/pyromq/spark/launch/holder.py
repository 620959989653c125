"""The nursery of this process: started once, and gone when this process is, however it ends."""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SEED = "PYTHONHASHSEED"
BACKLOG = 64
BOUND = 30.0


def nursery() -> str:
    """The socket of a nursery that runs, or is about to: whoever asks it early waits until it has loaded all."""
    path, process = _start(os.getpid())
    if process.poll() is not None:
        _start.cache_clear()
        path, _ = _start(os.getpid())
    return path


@cache
def _start(_owner: int) -> "tuple[str, subprocess.Popen[bytes]]":
    # A folder of its own, so that nobody else can reach it; a socket's path must be short.
    path = str(Path(tempfile.mkdtemp(prefix="pyromq-"), "nursery"))
    given = os.environ | {
        SEED: os.environ.get(SEED, "0"),  # what Spark says to workers
        "OMP_NUM_THREADS": "1",  # likewise, and threads do not survive a fork
        "PYTHONUNBUFFERED": "1",
    }
    # A session of its own: what Ctrl-C or a signal to the group means is for this process to decide.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(BACKLOG)
        process = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-m", "pyromq.spark.launch.nursery", str(listener.fileno())],
            stdin=subprocess.PIPE,
            env=given,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    atexit.register(_end, process, Path(path).parent)
    return path, process


def _end(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """In good order; where this does not run, the system closes the pipe, and the nursery clears up alone."""
    if process.stdin is not None:
        process.stdin.close()
    process.wait(BOUND)
    shutil.rmtree(folder, ignore_errors=True)
