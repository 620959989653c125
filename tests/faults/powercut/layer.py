"""The file calls of this process, so that a `Disk` learns of them. Nothing is really synced: that is the disk's part.

Only calls are seen: what is written through maps or by another process is found when the file is synced or the power
is cut. `mmap.flush` does not count as a sync, because nothing here uses it.
"""

import builtins
import io
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.powercut.disk import Disk

UNASKED = 0.2
"""How often a sync makes the disk write some pages of another file too, as systems do at times of their own."""


class Layer:
    """Installed once, for the rest of the process."""

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self._disk = disk
        self._root = disk.folder
        self._device = disk.folder.stat().st_dev
        self._rng = rng
        self._lock = threading.RLock()
        self._synced: dict[int, None] = {}

    def install(self) -> None:
        """From here on."""
        os.fsync = os.fdatasync = self._sync  # type: ignore[assignment]  # its parameter has another name
        os.open = self._creates(os.open)
        builtins.open = io.open = self._creates(builtins.open)
        os.mkdir = self._creates(os.mkdir)
        os.unlink = os.remove = self._removes(os.unlink)
        os.rmdir = self._removes(os.rmdir)
        os.link = self._links(os.link)
        os.rename = self._moves(os.rename)
        os.replace = self._moves(os.replace)

    def _place(self, path: Any, folder_fd: int | None = None) -> tuple[str, str] | None:
        """Folder and name below the root; None for everything else."""
        if isinstance(path, int):
            return None
        full = Path(os.fsdecode(path))
        if folder_fd is not None:
            full = _path(folder_fd) / full
        parent = full.parent.resolve()
        return (str(parent.relative_to(self._root)), full.name) if parent.is_relative_to(self._root) else None

    def _creates(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def creating(path: Any, *arguments: Any, **options: Any) -> Any:
            place = self._place(path, options.get("dir_fd"))
            if place is None:
                return call(path, *arguments, **options)
            with self._lock:
                full = self._root.joinpath(*place)
                before = full.exists()
                result = call(path, *arguments, **options)
                if not before and full.exists():
                    self._disk.created(*place)
                return result

        return creating

    def _links(self, call: Callable[..., None]) -> Callable[..., None]:
        def linking(old: Any, new: Any, **options: Any) -> None:
            place = self._place(new, options.get("dst_dir_fd"))
            with self._lock:
                call(old, new, **options)
                if place is not None:
                    self._disk.created(*place)

        return linking

    def _removes(self, call: Callable[..., None]) -> Callable[..., None]:
        def removing(path: Any, *, dir_fd: int | None = None) -> None:
            place = self._place(path, dir_fd)
            with self._lock:
                call(path, dir_fd=dir_fd)
                if place is not None:
                    self._disk.note("remove", *place)

        return removing

    def _moves(self, call: Callable[..., None]) -> Callable[..., None]:
        def moving(old: Any, new: Any, **options: Any) -> None:
            places = self._place(old, options.get("src_dir_fd")), self._place(new, options.get("dst_dir_fd"))
            with self._lock:
                if any(places) and Path(old).is_dir() and any(Path(old).iterdir()):
                    raise NotImplementedError(f"{old} is a folder with contents: the disk cannot follow its rename")
                call(old, new, **options)
                match places:
                    case (str(), str()) as source, (str(), str()) as target:
                        self._disk.note("rename", *source, *target)
                    case None, (str(), str()) as target:
                        self._disk.created(*target)
                    case (str(), str()) as source, None:
                        self._disk.note("remove", *source)

        return moving

    def _sync(self, file: Any) -> None:
        fd = file if isinstance(file, int) else file.fileno()
        status = os.fstat(fd)
        with self._lock:
            path = _path(fd)
            if path.is_dir() and path.is_relative_to(self._root):
                self._disk.note("sync", str(path.relative_to(self._root)))
            elif status.st_dev == self._device and self._disk.knows(status.st_ino):
                self._disk.sync(status.st_ino)
                self._synced[status.st_ino] = None
                if self._rng.random() < UNASKED:
                    self._disk.sync(self._rng.choice(list(self._synced)), lambda: self._rng.random() < 0.5)


def _path(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()
