"""Who may open a store."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.store.errors import StoreError, StoreLockedError
from pyromq.store.lock import StoreLock
from tests.unit.store.storage import bodies, open_store, put

# What Java's FileChannel.tryLock(0, 1) does: a plain POSIX record lock.
_OTHER_PROCESS = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
except OSError:
    sys.exit(3)
print("locked", flush=True)
sys.stdin.read()
"""


def other_process(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _OTHER_PROCESS, str(path / "lock")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_store_is_open_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    with pytest.raises(StoreLockedError, match="already open"):
        open_store(tmp_path)
    assert (tmp_path / "lock").read_bytes() == b"lock"
    with other_process(tmp_path) as other:
        assert other.wait(30) == 3, "neither the refused attempt nor the read dropped the lock"
    store.close()
    with other_process(tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StoreLockedError):
            open_store(tmp_path)
        other.communicate("", 30)
    again = open_store(tmp_path)
    assert bodies(again) == [b"hello"]
    again.close()


def test_lock_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        StoreLock(tmp_path / "lock").acquire()
