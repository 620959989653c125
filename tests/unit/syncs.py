"""Which names a power cut would leave: notes what each folder held when it was last synced, and which files were."""

import os
import stat
from pathlib import Path

import pytest

from pyromq import disk


class Syncs:
    """While installed, watches syncs below `root`. What exists already counts as synced."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self.files: set[int] = set()
        self._entries: dict[int, dict[str, int]] = {}
        for folder, _, _ in os.walk(root):
            self._note(Path(folder))
        sync, sync_data = disk.sync, disk.sync_data

        def whole(fd: int) -> None:
            sync(fd)
            self._seen(fd)

        def data(fd: int) -> None:
            sync_data(fd)
            self._seen(fd)

        patch.setattr(disk, "sync", whole)
        patch.setattr(disk, "sync_data", data)

    def survives(self, path: Path) -> bool:
        """Whether each folder on the way to a path had its entry when it was synced."""
        while path != self.root:
            number = path.stat().st_ino
            if self._entries.get(path.parent.stat().st_ino, {}).get(path.name) != number:
                return False
            path = path.parent
        return True

    def _seen(self, fd: int) -> None:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self._note(Path(os.readlink(f"/proc/self/fd/{fd}")))  # noqa: PTH115 - a name under /proc
        else:
            self.files.add(status.st_ino)

    def _note(self, folder: Path) -> None:
        self._entries[folder.stat().st_ino] = {entry.name: entry.inode() for entry in os.scandir(folder)}
