"""Manifests: which files make up a table. Writing one is the commit point of a batch or of a compaction.

A manifest names its files as staged and as final. Renaming may be cut short and is done again until all are in place; a
reader that goes by manifests finds a file under either name, so it sees each committed row exactly once at any moment.
Compaction folds manifests into a base, which remembers for each query up to which batch it holds everything.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from pyromq.durable import sync_folder
from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.datafile import DataFile
from pyromq.spark.sink.table.folder import MANIFESTS, REPLACED, move, write_file

MAX_MANIFEST = 64 << 20
BASE = "base.json"


class Manifest(msgspec.Struct, kw_only=True):
    """One change of the table: files that came and files that they stand in for."""

    version: int = 1
    query: str
    batch: int
    files: list[DataFile]
    replaces: list[str] = []
    columns: dict[str, str] = {}


class Base(msgspec.Struct, kw_only=True):
    """Everything that older manifests said, without what was replaced since."""

    version: int = 1
    batches: dict[str, int] = {}
    files: list[DataFile] = []
    columns: dict[str, str] = {}


class Manifests:
    """The manifests of one table."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self._folder = table / MANIFESTS

    def path(self, query: str, batch: int) -> Path:
        return self._folder / f"{query}-{batch:012d}.json"

    def holds(self, query: str, batch: int) -> bool:
        """Whether a batch of a query is committed."""
        return self.path(query, batch).exists() or self.base().batches.get(query, -1) >= batch

    def commit(self, manifest: Manifest) -> None:
        """The commit point. Raises OSError."""
        write_file(self.path(manifest.query, manifest.batch), msgspec.json.encode(manifest))

    def settle(self, query: str, batch: int) -> None:
        """Put the files of a committed batch in place; harmless when they are."""
        path = self.path(query, batch)
        if path.exists():
            self._settle(_read(path, Manifest))

    def settle_all(self) -> None:
        """The same for every manifest that is not folded yet."""
        for _, manifest in self._each():
            self._settle(manifest)

    def base(self) -> Base:
        path = self._folder / BASE
        return _read(path, Base) if path.exists() else Base()

    def files(self) -> list[DataFile]:
        """The files of the table at this moment."""
        return self._state()[0].files

    def paths(self) -> list[Path]:
        """Where those files are now."""
        return [self._where(file) for file in self.files()]

    def columns(self) -> dict[str, str]:
        """Name and type of every column that a committed batch had."""
        return self._state()[0].columns

    def fold(self) -> None:
        """Write one base in place of all manifests; only one process at a time may do so."""
        self.settle_all()
        base, folded = self._state()
        write_file(self._folder / BASE, msgspec.json.encode(base))
        for path in folded:
            path.unlink(missing_ok=True)

    def _state(self) -> tuple[Base, list[Path]]:
        base = self.base()
        files = {file.final: file for file in base.files}
        replaced: set[str] = set()
        paths = []
        for path, manifest in self._each():
            paths.append(path)
            base.batches[manifest.query] = max(manifest.batch, base.batches.get(manifest.query, -1))
            base.columns.update(manifest.columns)
            replaced.update(manifest.replaces)
            files.update((file.final, file) for file in manifest.files)
        base.files = [file for final, file in files.items() if final not in replaced]
        return base, paths

    def _each(self) -> Iterator[tuple[Path, Manifest]]:
        for path in sorted(self._folder.glob("[!.]*.json")):
            if path.name != BASE:
                try:
                    manifest = _read(path, Manifest)
                except FileNotFoundError:
                    continue  # folded meanwhile
                yield path, manifest

    def _settle(self, manifest: Manifest) -> None:
        # What was merged disappears before its substitute appears: who lists the folder never sees a row twice.
        for final in manifest.replaces:
            move(self.table / final, self.table / REPLACED / final)
        moved = [move(self.table / file.staged, self.table / file.final) for file in manifest.files]
        if any(moved):
            for folder in {(self.table / file.final).parent for file in manifest.files}:
                sync_folder(folder)

    def _where(self, file: DataFile) -> Path:
        final = self.table / file.final
        places = (final, self.table / file.staged, self.table / REPLACED / file.final)
        return next((place for place in places if place.exists()), final)


M = TypeVar("M", Manifest, Base)


def _read(path: Path, kind: type[M]) -> M:
    data = path.read_bytes()
    if len(data) > MAX_MANIFEST:
        raise SinkError(f"{path} has {len(data)} bytes, more than a manifest can have")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise SinkError(f"{path} is no manifest: {error}") from None
