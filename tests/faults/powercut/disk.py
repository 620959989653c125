"""What a disk has of a folder while a program writes to it. Kept beside the folder, so it outlives the program.

`live/<inode>` is a second link to each file there ever was: it keeps the number from being given to another, and the
contents when the name is gone. `synced/<inode>` is what the last sync of it wrote. `journal` has a line for each change
of a name, and for each sync of a folder. Folders are known by their path: one that has contents is not renamed.
"""

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.faults.powercut import pages

NOTHING = 0
"""The seed of the disk that has nothing but what was synced."""

FOLDER = -1
"""Stands for the inode of a folder."""

Names = dict[str, tuple[int, int]]
"""Of one folder: name → inode and mode."""
Line = list[object]


class Disk:
    """The record of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home = self.folder.with_name(self.folder.name + ".disk")
        self.live, self.synced = self.home / "live", self.home / "synced"
        self._journal = self.home / "journal"
        self._fd = -1

    def open(self) -> None:
        """Begin or resume the record; what is there at the beginning is on disk."""
        begins = not self.home.exists()
        for each in (self.live, self.synced):
            each.mkdir(parents=True, exist_ok=True)
        changed = self._catch_up()
        if begins:
            for path in changed:
                self.note("sync", str(path))
            for each in self.live.iterdir():
                self.sync(int(each.name))

    def drop(self) -> None:
        """Forget the record."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        shutil.rmtree(self.home, ignore_errors=True)

    def note(self, *line: object) -> None:
        """One line of the journal."""
        if self._fd < 0:
            self._fd = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._fd, json.dumps(line).encode() + b"\n")

    def created(self, path: str, name: str) -> None:
        """A file or a folder has this name now."""
        full = self.folder / path / name
        status = full.lstat()
        inode = FOLDER if full.is_dir() else status.st_ino
        if inode != FOLDER and not (self.live / str(inode)).exists():
            os.link(full, self.live / str(inode))
        self.note("create", path, name, inode, status.st_mode & 0o7777)

    def knows(self, inode: int) -> bool:
        """Whether it is a file of this folder, now or before."""
        return (self.live / str(inode)).exists()

    def sync(self, inode: int, takes: Callable[[], bool] = lambda: True) -> None:
        """Write a file, or those of its pages that `takes` says yes to."""
        _carry(self.live / str(inode), self.synced / str(inode), takes)

    def _catch_up(self) -> list[Path]:
        """Note what happened to names unseen: at first everything, later what a kill cut off. Returns all folders."""
        known = _after(self._lines())
        found = [Path(each).relative_to(self.folder) for each, _, _ in os.walk(self.folder)]
        for path in found:
            names = known.get(str(path), {})
            there = {each.name for each in (self.folder / path).iterdir()}
            for name in names.keys() - there:
                self.note("remove", str(path), name)
            for name in sorted(there):
                full = self.folder / path / name
                if name not in names or names[name][0] != (FOLDER if full.is_dir() else full.lstat().st_ino):
                    self.created(str(path), name)
        return found

    def _lines(self) -> Iterator[Line]:
        if self._journal.exists():
            for line in self._journal.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)

    def build(self, target: Path, seed: int) -> None:
        """Make a folder of what the disk has."""
        rng = random.Random(seed)
        # A disk may have been quick or slow, and keep the order of names as a journal does or not.
        share = rng.choice((0.1, 0.5, 0.9)) if seed != NOTHING else 0.0
        in_order = rng.random() < 0.5
        names = _on_disk(self._lines(), lambda: rng.random() < share, in_order=in_order)
        self._build(target, Path(), names, lambda: rng.random() < share)

    def _build(self, target: Path, path: Path, names: dict[str, Names], takes: Callable[[], bool]) -> None:
        target.mkdir()
        for name, (inode, mode) in names.get(str(path), {}).items():
            if inode == FOLDER:
                self._build(target / name, path / name, names, takes)
            else:
                _carry(self.synced / str(inode), target / name)
                _carry(self.live / str(inode), target / name, takes)
            (target / name).chmod(mode)


def cut(folder: Path, seed: int = NOTHING) -> None:
    """Leave in a folder what is on disk when the power is cut, now that the program which wrote to it is dead."""
    disk = Disk(folder)
    assert disk.home.exists(), f"nothing was run on {folder}"
    disk.open()
    fresh = disk.home / "fresh"
    disk.build(fresh, seed)
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
    for each in fresh.iterdir():
        each.rename(folder / each.name)
    disk.drop()


def _carry(source: Path, target: Path, takes: Callable[[], bool] = lambda: True) -> None:
    """Give a file the length and the contents of another, as far as `takes` says yes."""
    with _opened(source) as old, _opened(target) as new:
        if pages.size(new) != pages.size(old) and takes():
            os.ftruncate(new, pages.size(old))
        pages.copy(old, new, takes)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _apply(names: dict[str, Names], line: Line) -> None:
    """What one change does."""
    match line:
        case ["create", str(path), str(name), int(inode), int(mode)]:
            names.setdefault(path, {})[name] = inode, mode
        case ["remove", str(path), str(name)]:
            names.setdefault(path, {}).pop(name, None)
        case ["rename", str(path), str(name), str(new_path), str(new_name)]:
            moved = names.setdefault(path, {}).pop(name, None)
            if moved is not None:
                names.setdefault(new_path, {})[new_name] = moved
        case _:
            raise AssertionError(f"the journal says {line}")


def _after(lines: Iterable[Line]) -> dict[str, Names]:
    """All names, as the program sees them."""
    names: dict[str, Names] = {}
    for line in lines:
        if line[0] != "sync":
            _apply(names, line)
    return names


def _places(line: Line) -> set[tuple[object, object]]:
    """Folder and name of what a change concerns."""
    return {(line[1], line[2]), (line[3], line[4])} if line[0] == "rename" else {(line[1], line[2])}


def _is_within(line: Line, folder: str) -> bool:
    """Whether a change concerns a name directly in this folder."""
    return any(path == folder for path, _ in _places(line))


def _builds_upon(line: Line, earlier: Line) -> bool:
    """Whether a change cannot be on disk without an earlier one: the same name, or what emptied a removed folder."""
    if _places(line) & _places(earlier):
        return True
    return line[0] == "remove" and _is_within(earlier, str(Path(str(line[1])) / str(line[2])))


def _on_disk(lines: Iterable[Line], takes: Callable[[], bool], *, in_order: bool) -> dict[str, Names]:
    """The names that are on disk: those of synced folders, and some later changes, each with those it builds upon."""
    names: dict[str, Names] = {}
    waiting: list[Line] = []
    for line in lines:
        if line[0] != "sync":
            waiting.append(line)
            continue
        # A rename between two folders is one change: whichever is synced takes it along.
        wanted = [each for each in waiting if _is_within(each, str(line[1]))]
        wanted += [each for each in waiting if each not in wanted and any(_builds_upon(one, each) for one in wanted)]
        for each in waiting:
            if each in wanted:
                _apply(names, each)
        waiting = [each for each in waiting if each not in wanted]
    missing: list[Line] = []
    for each in waiting:
        if not (in_order and missing) and not any(_builds_upon(each, other) for other in missing) and takes():
            _apply(names, each)
        else:
            missing.append(each)
    return names
