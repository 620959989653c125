"""Folders and files that are still there after a power cut, for their owner only. Every part of PyroMQ that keeps
something writes it through here. Blocks.

A file survives when its bytes are synced and when each folder on the way to it was synced after it got its entry. So a
function here returns only when both are true, and whoever acknowledges something afterwards may rely on it.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from pyromq import disk
from pyromq.disk import FILE_MODE, FOLDER_MODE


def make_folder(path: Path, *, mode: int = FOLDER_MODE) -> None:
    """Create a folder and its missing parents, each durable before the next is made. Raises OSError.

    Folders that exist keep their mode. Costs one look when there is nothing to do.
    """
    missing = _missing(path)
    if missing:  # a process that was killed right after it made the one they go into may not have come to this
        with contextlib.suppress(PermissionError):  # not ours then, so we did not make it
            sync_folder(missing[0].parent.parent)
    for made in missing:
        _make(made, mode)
        sync_folder(made.parent)


def add_folder(path: Path, *, mode: int = FOLDER_MODE) -> None:
    """The same without any sync: whoever calls syncs each folder on the way, all that are new together."""
    for made in _missing(path):
        _make(made, mode)


def sync_folder(path: Path) -> None:
    """Make creations, renames and deletions in a folder durable. Raises OSError."""
    if os.name == "nt":  # has no such call, and cannot open a folder
        return
    _sync(path)


def sync_file(path: Path) -> None:
    """Make a closed file's content durable. Raises OSError."""
    _sync(path)


def write_file(path: Path, data: bytes, *, mode: int = FILE_MODE, folder_mode: int = FOLDER_MODE) -> None:
    """Replace a file, or make it: all of it or nothing, whatever happens. Raises OSError, and then nothing changed."""
    disk.rename(write_draft(path, data, mode=mode, folder_mode=folder_mode), path)
    sync_folder(path.parent)


def create_file(path: Path, data: bytes, *, mode: int = FILE_MODE, folder_mode: int = FOLDER_MODE) -> None:
    """The same for a file that must not exist yet. Raises FileExistsError, else OSError."""
    draft = write_draft(path, data, mode=mode, folder_mode=folder_mode)
    try:
        disk.link(draft, path)  # unlike a rename it never replaces what another process made meanwhile
    finally:
        disk.delete(draft)
    sync_folder(path.parent)


def write_draft(path: Path, data: bytes, *, mode: int = FILE_MODE, folder_mode: int = FOLDER_MODE) -> Path:
    """A complete and synced file beside `path`, to be renamed to it. Raises OSError, and leaves nothing then."""
    make_folder(path.parent, mode=folder_mode)
    # Of the thread's own: one that saves in the background must not rename what a stop is writing.
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    disk.delete(draft)  # one left by a crash may have another mode
    try:
        with _opened(draft, writable=True, fresh=True, mode=mode) as fd:
            disk.write_at(fd, data, 0)
            disk.sync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            disk.delete(draft)
        raise
    return draft


def write_head(path: Path, data: bytes, *, length: int) -> None:
    """Write the first bytes of a file of fixed length in place, making it if it is missing. Raises OSError.

    For a few bytes within one sector, which a disk writes whole or not at all, where a rename for each would cost more.
    """
    make_folder(path.parent)
    with _opened(path, writable=True, create=True) as fd:
        fresh = disk.length(fd) < length
        disk.write_at(fd, data.ljust(length, b"\0") if fresh else data, 0)
        disk.sync_data(fd)
    if fresh:
        sync_folder(path.parent)


def _missing(path: Path) -> list[Path]:
    """The folders to make, outermost first."""
    if path.is_dir():
        return []
    found = path.absolute()
    missing = []
    while not found.is_dir():
        if found.exists() or found.is_symlink():
            raise NotADirectoryError(20, "is not a folder", str(found))
        missing.append(found)
        found = found.parent
    return missing[::-1]


def _make(folder: Path, mode: int) -> None:
    try:
        disk.make_folder(folder, mode)
    except FileExistsError:  # another thread or process was quicker
        if not folder.is_dir():
            raise


def _sync(path: Path) -> None:
    with _opened(path) as fd:
        disk.sync(fd)


@contextlib.contextmanager
def _opened(
    path: Path, *, writable: bool = False, create: bool = False, fresh: bool = False, mode: int = FILE_MODE
) -> Iterator[int]:
    fd = disk.open_file(path, writable=writable, create=create, fresh=fresh, mode=mode)
    try:
        yield fd
    finally:
        disk.close(fd)
