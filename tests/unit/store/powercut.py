"""A power cut for stores under test: what was not synced may be there, old, torn, flipped or missing.

While installed, syncs only take a picture of the file instead of touching the disk, and the store does all its work in
one thread, so that a seed repeats exactly. At the cut a copy of the store is written as a disk might hold it: for each
file any mixture of its last picture and what it holds now. Directory entries that were not synced may be missing, but
only the newest ones, since file systems keep their order.
"""

import os
import random
import stat
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from pyromq import disk
from pyromq.store.log.flush import Flusher

SECTOR = 512


class Inline(Executor):
    """Does the work at once, in the calling thread."""

    def __init__(self, **_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:  # noqa: BLE001 - handed to whoever asks the future
            future.set_exception(error)
        return future


def use_one_thread(patch: pytest.MonkeyPatch) -> None:
    """Have stores do their work at once, and flush only when asked, so that the same actions give the same bytes."""
    patch.setattr("pyromq.store.messagestore.ThreadPoolExecutor", Inline)
    patch.setattr(Flusher, "wake", lambda _: None)


class PowerCut:
    """Cuts the power of the store in `root` at the sync number `fuse`, or when `cut` is called; `target` gets the rest.

    `on_cut` is called at that moment. `story` says what happened to which file.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        root: Path,
        target: Path,
        rng: random.Random,
        fuse: int,
        on_cut: Callable[[], None],
    ) -> None:
        self._root = root
        self._target = target
        self._rng = rng
        self._fuse = fuse
        self._on_cut = on_cut
        self._pictures: dict[int, tuple[str, bytes]] = {}
        self._entries: dict[str, set[str]] = {}
        self.done = False
        self.story: list[str] = []
        delete = disk.delete

        def forgetting(path: Path | str) -> None:
            if Path(path).exists():
                self._pictures.pop(Path(path).stat().st_ino, None)  # the number will be used for other files
            delete(path)

        patch.setattr(disk, "sync_data", self._sync)
        patch.setattr(disk, "sync", self._sync)
        patch.setattr(disk, "sync_file_system", lambda _: self._sync_all())
        patch.setattr(disk, "delete", forgetting)
        use_one_thread(patch)
        self._sync_all()  # what there is already was there before

    def cut(self) -> None:
        """Write what may be left of the store into the target, unless that happened already."""
        if self.done:
            return
        self.done = True
        for directory, directories, names in os.walk(self._root):
            directories.sort()
            names.sort()
            missing = self._missing(directory, names)
            self.story += [f"lost {name}" for name in sorted(missing)]
            for name in names:
                if name not in missing:
                    self._copy(Path(directory, name))
        self._on_cut()

    def _copy(self, path: Path) -> None:
        now = path.read_bytes()
        picture = self._pictures.get(path.stat().st_ino)
        known = picture is not None and _of_draft(picture[0]) == str(path)
        old = picture[1] if picture is not None and known else bytes(len(now))
        left = now
        if old != now:
            flips = path.parent.name == "commitlog" or path.is_relative_to(self._root / "consumequeue")
            left, how = mixture(self._rng, old.ljust(len(now), b"\0"), now, flips=flips)
            self.story.append(f"{how} {path.relative_to(self._root)}")
        copy = self._target / path.relative_to(self._root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(left)

    def _missing(self, directory: str, names: list[str]) -> set[str]:
        """The newest files whose directory entries were not synced; never one that an older, synced one follows."""
        durable = self._entries.get(directory, set())
        count = 0
        while count < len(names) and names[-1 - count] not in durable:
            count += 1
        newest = names[len(names) - count :]
        return set(newest[self._rng.randint(0, count) :])

    def _sync(self, fd: int) -> None:
        self._fuse -= 1
        if self._fuse == 0:
            self.cut()
        path = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - a name under /proc, not a path to resolve
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self._entries[path] = {entry.name for entry in Path(path).iterdir()}
        else:
            self._pictures[status.st_ino] = (path, Path(path).read_bytes())

    def _sync_all(self) -> None:
        for directory, _, names in os.walk(self._root):
            self._entries[directory] = set(names)
            for name in names:
                path = Path(directory, name)
                self._pictures[path.stat().st_ino] = (str(path), path.read_bytes())


def _of_draft(path: str) -> str:
    """The file that a draft was renamed to; any other path as it is."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:].rsplit('.', 2)[0]}" if name.endswith(".tmp") else path


def mixture(rng: random.Random, old: bytes, new: bytes, *, flips: bool) -> tuple[bytes, str]:
    """What a file may hold when the change from `old` to `new` was interrupted."""
    changed = [n for n in range(len(new)) if old[n] != new[n]]
    how = rng.choice(["all of", "none of", "part of", "sectors of", *(["flipped"] if flips else [])])
    result = bytearray(new)
    if not changed:
        return new, "all of"
    if how == "none of":
        result[:] = old[: len(new)]
    elif how == "part of":
        cut = rng.randint(changed[0], changed[-1] + 1)
        result[cut:] = old[cut : len(new)]
    elif how == "sectors of":
        for begin in range(0, len(new), SECTOR):
            if rng.random() < 0.5:
                result[begin : begin + SECTOR] = old[begin : begin + SECTOR]
    elif how == "flipped":
        for _ in range(rng.randint(1, 4)):
            result[rng.choice(changed)] ^= 1 << rng.randrange(8)
    return bytes(result), how
