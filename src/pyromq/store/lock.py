"""Who may open a store, and how it was left: the `lock` and `abort` files."""

import fcntl
import logging
import os
from pathlib import Path

from pyromq.store.errors import StoreError, StoreLockedError

log = logging.getLogger(__name__)

_held: set[Path] = set()
"""Stores open in this process. Record locks do not tell two descriptors of one process apart, and closing any
descriptor of the file drops the lock, so a second one must not even be opened."""


class StoreLock:
    """An exclusive POSIX record lock on the first byte of `lock`, as the Java broker takes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = path.absolute()
        self._fd = -1

    def acquire(self) -> None:
        """Raises StoreLockedError when somebody has it, StoreError when the directory cannot be written."""
        self._key = self._path.parent.resolve() / self._path.name
        if self._key in _held:
            raise StoreLockedError(f"{self._path.parent} is open in this process already")
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            os.close(fd)
            raise StoreLockedError(f"{self._path.parent} is open in another process") from error
        try:
            os.pwrite(fd, b"lock", 0)
        except OSError:
            log.debug("%s cannot be written, which the lock does not need", self._path)
        self._fd = fd
        _held.add(self._key)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._key)


def mark_running(path: Path) -> None:
    """Create `abort`: until it is removed, the store counts as not stopped in order. Raises StoreError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror}") from error
    try:
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        os.fsync(fd)
    except OSError:
        log.debug("the process id does not fit into %s; that the file exists is enough", path)
    finally:
        os.close(fd)
