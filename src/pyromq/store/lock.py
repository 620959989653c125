"""Who may open a store, and how it was left: the `lock` and `abort` files."""

import fcntl
import logging
import os
import struct
from contextlib import suppress
from pathlib import Path

from pyromq import durable
from pyromq.store.errors import StoreError, StoreLockedError

log = logging.getLogger(__name__)

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process id, as the kernel has them on 64 bits


class StoreLock:
    """An exclusive record lock on the first byte of `lock`, which excludes the Java broker's and is excluded by it.

    It belongs to the open file, not to the process: unlike the usual POSIX lock it is not lost when anybody in this
    process opens and closes the file, for a backup say, and it keeps out a second store of the same process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises StoreLockedError when somebody has it, StoreError when the directory cannot be written."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, durable.FILE_MODE)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except OSError as error:
            os.close(fd)
            raise StoreLockedError(f"{self._path.parent} is already open, here or in another process") from error
        with suppress(OSError):  # on a full disk: what the file says is not what locks
            os.pwrite(fd, b"lock", 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_open(path: Path) -> bool:
    """Whether somebody has the store open, by its `lock` file, which is only looked at."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(kind != fcntl.F_UNLCK)


def mark_running(path: Path) -> None:
    """Create `abort`, durably: until it is removed, the store counts as not stopped in order. Raises StoreError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, durable.FILE_MODE)
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
    try:
        durable.sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be synced: {error.strerror}") from error
