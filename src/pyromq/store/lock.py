"""Who may open a store, and how it was left: the `lock` and `abort` files."""

import logging
import os
from contextlib import suppress
from pathlib import Path

from pyromq import disk, durable
from pyromq.store.errors import StoreError, StoreLockedError

log = logging.getLogger(__name__)


class StoreLock:
    """An exclusive lock on the first byte of `lock`, which excludes the Java broker's and is excluded by it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises StoreLockedError when somebody has it, StoreError when the directory cannot be written."""
        try:
            fd = disk.open_file(self._path, writable=True, create=True)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            disk.lock(fd)
        except OSError as error:
            disk.close(fd)
            raise StoreLockedError(f"{self._path.parent} is already open, here or in another process") from error
        with suppress(OSError):  # on a full disk: what the file says is not what locks
            disk.write_at(fd, b"lock", 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            disk.close(self._fd)
            self._fd = -1


def is_open(path: Path) -> bool:
    """Whether somebody has the store open, by its `lock` file, which is only looked at."""
    try:
        fd = disk.open_file(path)
    except OSError:
        return False
    try:
        return disk.is_locked(fd)
    except OSError:
        return False
    finally:
        disk.close(fd)


def mark_running(path: Path) -> None:
    """Create `abort`, durably: until it is removed, the store counts as not stopped in order. Raises StoreError."""
    try:
        fd = disk.open_file(path, writable=True, create=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error.strerror}") from error
    try:
        disk.set_length(fd, 0)
        disk.write_at(fd, str(os.getpid()).encode(), 0)
        disk.sync(fd)
    except OSError:
        log.debug("the process id does not fit into %s; that the file exists is enough", path)
    finally:
        disk.close(fd)
    try:
        durable.sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be synced: {error.strerror}") from error
