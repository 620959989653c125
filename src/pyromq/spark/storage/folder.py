"""A folder on a disk that all who use it share: what is written survives a power cut, and a name changes at once."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pyromq import durable
from pyromq.disk import FILE_MODE, FOLDER_MODE
from pyromq.spark.storage.store import Entry

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class FolderStore:
    """The modes are those of what it makes; without them it is for its owner only."""

    def __init__(self, path: Path, *, mode: int = FILE_MODE, folder_mode: int = FOLDER_MODE) -> None:
        self.path = path
        self._mode = mode
        self._folder_mode = folder_mode

    @property
    def url(self) -> str:
        return str(self.path)

    def check(self) -> None:
        """A disk can."""

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found[name] = self.read(name)
        return found

    def write(self, name: str, data: bytes) -> None:
        durable.write_file(self.path / name, data, mode=self._mode, folder_mode=self._folder_mode)

    def create(self, name: str, data: bytes) -> None:
        path = self.path / name
        try:
            durable.create_file(path, data, mode=self._mode, folder_mode=self._folder_mode)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without hard links, as some that are mounted: there a look has to do.
            if path.exists():
                raise FileExistsError(errno.EEXIST, "exists already", str(path)) from None
            self.write(name, data)

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def list(self, folder: str = "") -> list[Entry]:
        return sorted(_entries(str(self.path / folder), f"{folder}/" if folder else ""))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def move(self, names: Iterable[tuple[str, str]]) -> None:
        folders = {(self.path / target).parent for source, target in names if self._move(source, target)}
        for folder in folders:
            durable.sync_folder(folder)

    def _move(self, source: str, target: str) -> bool:
        if not self.exists(source):
            return False
        place = self.path / target
        durable.make_folder(place.parent, mode=self._folder_mode)
        try:
            (self.path / source).replace(place)
        except FileNotFoundError:  # another process was quicker
            return False
        return True

    def output(self, name: str) -> "FolderOutput":
        path = self.path / name
        durable.make_folder(path.parent, mode=self._folder_mode)
        return FolderOutput(path)

    @contextlib.contextmanager
    def input(self, name: str) -> Iterator[Path]:
        yield self.path / name

    def within(self, folder: str) -> "FolderStore":
        return FolderStore(self.path / folder, mode=self._mode, folder_mode=self._folder_mode)


def _entries(folder: str, prefix: str) -> Iterator[Entry]:
    """The files below a folder, whose names begin with the prefix; what is gone meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        for each in found:
            if each.name.startswith("."):  # a draft
                continue
            name = prefix + each.name
            if each.is_dir():
                yield from _entries(each.path, f"{name}/")
                continue
            with contextlib.suppress(FileNotFoundError):
                facts = each.stat()
                yield Entry(name, facts.st_size, facts.st_mtime, max(facts.st_ctime, facts.st_mtime))


class FolderOutput:
    """A file that pyarrow writes by its path."""

    def __init__(self, path: Path) -> None:
        self.target = path

    def close(self) -> int:
        durable.sync_file(self.target)
        return self.target.stat().st_size

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self.target.unlink(missing_ok=True)
