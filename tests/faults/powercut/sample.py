"""Programs that write to a folder, careful ones and others, and then die: what the disk has to keep or to forget.

python -m tests.faults.powercut FOLDER -m tests.faults.powercut.sample PROGRAM FOLDER
"""

import mmap
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

PAGES = 8
PAGE = 4096


def write(path: Path, data: bytes, *, synced: bool = True) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def careful(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    write(folder / "a" / "b" / "file", b"kept")
    for each in (folder / "a" / "b", folder / "a", folder):
        sync(each)


def forgets_contents(folder: Path) -> None:
    write(folder / "file", b"lost", synced=False)
    sync(folder)


def forgets_name(folder: Path) -> None:
    write(folder / "file", b"lost")


def forgets_parent(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    write(folder / "a" / "b" / "file", b"lost")
    sync(folder / "a" / "b")
    sync(folder)


def replaces(folder: Path) -> None:
    write(folder / "file", b"old")
    sync(folder)
    write(folder / "fresh", b"new")
    (folder / "fresh").replace(folder / "file")


def replaces_by_unsynced(folder: Path) -> None:
    write(folder / "file", b"old")
    sync(folder)
    write(folder / "fresh", b"new", synced=False)
    (folder / "fresh").replace(folder / "file")
    sync(folder)


def removes(folder: Path) -> None:
    for name in ("gone", "back"):
        write(folder / name, b"old")
    sync(folder)
    (folder / "gone").unlink()
    sync(folder)
    (folder / "back").unlink()


def makes_again(folder: Path) -> None:
    """A folder that is removed and made again does not have its old files."""
    for data in (b"old", b"new"):
        (folder / "a").mkdir()
        write(folder / "a" / data.decode(), data)
        sync(folder / "a")
        sync(folder)
        if data == b"old":
            (folder / "a" / "old").unlink()
            (folder / "a").rmdir()


def maps(folder: Path) -> None:
    """Writes through a map: the first half of the pages before the sync, all once more after it."""
    with (folder / "file").open("w+b") as file:
        file.truncate(PAGES * PAGE)
        with mmap.mmap(file.fileno(), PAGES * PAGE) as view:
            view[: PAGES // 2 * PAGE] = b"1" * (PAGES // 2 * PAGE)
            os.fdatasync(file.fileno())
            view[:] = b"2" * (PAGES * PAGE)
    sync(folder)


PROGRAMS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        careful,
        forgets_contents,
        forgets_name,
        forgets_parent,
        replaces,
        replaces_by_unsynced,
        removes,
        makes_again,
        maps,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
