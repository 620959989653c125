"""Every call to the operating system that the store and `durable` make about files: open, length, allocation, maps,
positioned reads and writes, syncs, names, folders, locks. Nothing here knows what the bytes mean.

Callers name the module (`disk.sync_data(fd)`), so that another platform, a test that cuts the power or a simulator can
put its own functions in the place of these. All of them block, and raise OSError.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

Bytes = bytes | bytearray | memoryview

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process id, as the kernel has them on 64 bits
_FIRST_BYTE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
_MADV_POPULATE_WRITE = 23  # Linux 5.14; an older one answers that it does not know it
_CAN_POPULATE = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def open_file(
    path: Path | str, *, writable: bool = False, create: bool = False, fresh: bool = False, mode: int = FILE_MODE
) -> int:
    """A descriptor; `create` makes the file if it is missing, `fresh` insists on making it (FileExistsError)."""
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
    if create or fresh:
        flags |= os.O_CREAT | (os.O_EXCL if fresh else 0)
    return os.open(path, flags, mode)


def close(fd: int) -> None:
    """Give a descriptor back."""
    os.close(fd)


def length(fd: int) -> int:
    """Bytes of an open file, holes included."""
    return os.fstat(fd).st_size


def modified(fd: int) -> float:
    """When an open file was last written, in seconds."""
    return os.fstat(fd).st_mtime


def set_length(fd: int, size: int) -> None:
    """Cut a file, or stretch it with a hole."""
    os.ftruncate(fd, size)


def allocate(fd: int, begin: int, size: int) -> None:
    """Give a stretch of a file its blocks, without changing what it holds."""
    os.posix_fallocate(fd, begin, size)


def map_file(fd: int, size: int, *, writable: bool = False) -> mmap.mmap:
    """The first bytes of a file as memory; ValueError for none. The map outlives the descriptor."""
    return mmap.mmap(fd, size, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)


def zeros(size: int) -> mmap.mmap:
    """So much memory of no file, given by the system page by page as it is used."""
    return mmap.mmap(-1, size)


def populate(mapped: mmap.mmap, begin: int, end: int) -> None:
    """Have pages of a writable map in memory, ready to be written, before anybody writes; blocks must be there already.

    Only a hint: does nothing where the system cannot. Lets other threads run, which `mmap.madvise` does not.
    """
    if not _CAN_POPULATE:
        return
    begin -= begin % mmap.PAGESIZE
    held = ctypes.c_char.from_buffer(mapped, begin)  # nobody can close the map meanwhile
    _libc.madvise(ctypes.c_void_p(ctypes.addressof(held)), ctypes.c_size_t(end - begin), _MADV_POPULATE_WRITE)


def read_at(fd: int, size: int, position: int) -> bytes:
    """Bytes from a position on, fewer where the file ends."""
    return os.pread(fd, size, position)


def write_at(fd: int, data: Bytes, position: int) -> None:
    """All of `data` at a position; after an error any part of it may be there."""
    written = os.pwrite(fd, data, position)
    while written < len(data):  # a disk that fills up takes a part first and refuses the next call
        written += os.pwrite(fd, memoryview(data)[written:], position + written)


def extents(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of [begin, end) that may hold something; between them the file has no blocks, or only new ones."""
    position = begin
    while position < end:
        try:
            position = max(position, os.lseek(fd, position, os.SEEK_DATA))
            hole = os.lseek(fd, position, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            hole = end  # a file system that cannot tell
        if position < end:
            yield position, min(hole, end)
        position = hole


def sync(fd: int) -> None:
    """Put a file, or the names in a folder, on disk."""
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """Put a file's bytes on disk, and of its attributes only what reading them takes. Lets other threads run."""
    os.fdatasync(fd)


def sync_file_system(fd: int) -> None:
    """Put everything on disk that the file system of a file has to write; does nothing where there is no such call."""
    if hasattr(_libc, "syncfs") and _libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "the file system cannot be synced")


def delete(path: Path | str) -> None:
    """Take a file's name away. One that is not there is no error."""
    Path(path).unlink(missing_ok=True)


def rename(old: Path, new: Path) -> None:
    """Give a file or folder another name at once, in the place of a file that has it."""
    old.replace(new)


def link(old: Path, new: Path) -> None:
    """A second name, unless it is taken (FileExistsError)."""
    new.hardlink_to(old)


def make_folder(path: Path, mode: int = FOLDER_MODE) -> None:
    """Make one folder (FileExistsError, FileNotFoundError)."""
    path.mkdir(mode)


def remove_folder(path: Path) -> None:
    """Remove a folder if it is there and holds nothing."""
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def entries(folder: Path | str) -> "list[os.DirEntry[str]]":
    """What a folder holds, by name; nothing for one that is not there."""
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def lock(fd: int) -> None:
    """Lock an open file's first byte, or raise OSError because somebody has it.

    It is the lock that Java's `FileChannel` takes, but belongs to the open file and not to the process: it is not lost
    when anybody in this process opens and closes the file, and keeps out others of the same process.
    """
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FIRST_BYTE)


def is_locked(fd: int) -> bool:
    """Whether another open file holds that lock."""
    kind, *_ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FIRST_BYTE))
    return bool(kind != fcntl.F_UNLCK)


def space(path: Path) -> os.statvfs_result:
    """The blocks of the file system that holds a path."""
    return os.statvfs(path)
