"""Where the files of a Delta table are: a folder, or whatever deltalake reaches with the options of the table.

Tasks write to a disk either way. What belongs into a bucket is written to a temporary folder and sent when it is
complete, so a file that can be seen there is whole.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from deltalake._internal import DeltaFileSystemHandler
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs  # type: ignore[import-untyped]  # has no annotations

PIECE = 8 << 20


class Storage(msgspec.Struct, frozen=True):
    """A path or URL, and deltalake's options for it."""

    path: str
    options: dict[str, str] = {}

    @property
    def folder(self) -> Path | None:
        """The folder itself, None for what is elsewhere."""
        if self.path.startswith("file:"):
            return Path(unquote(urlsplit(self.path).path))
        return None if "://" in self.path else Path(self.path)

    def scratch(self) -> Path:
        """Where a task writes."""
        return self.folder or Path(tempfile.mkdtemp(prefix="pyromq-delta-"))

    def send(self, scratch: Path, names: Iterable[str]) -> None:
        """What a task has written to its scratch is where it belongs afterwards."""
        if self.folder is not None:
            return
        target = DeltaFileSystemHandler(self.path, self.options or None)
        for name in names:
            stream = target.open_output_stream(name, None)
            with (scratch / name).open("rb") as source:
                while piece := source.read(PIECE):
                    stream.write(piece)
            stream.close()  # type: ignore[attr-defined]  # which its annotations forget

    def leave(self, scratch: Path) -> None:
        """Take a scratch away that is no part of the table."""
        if self.folder is None:
            shutil.rmtree(scratch, ignore_errors=True)

    def delete(self, names: Iterable[str]) -> None:
        """Files that no version names; one that stays does no harm."""
        files = self.files()
        for name in names:
            with contextlib.suppress(Exception):  # each storage has errors of its own
                files.delete_file(name)

    def files(self) -> fs.FileSystem:
        """To read by names relative to the table."""
        return fs.PyFileSystem(DeltaStorageHandler(self.path, self.options or None))
