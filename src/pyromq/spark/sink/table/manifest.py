"""Manifests: which files make up a table. Creating one is the commit point of a batch or of a compaction.

Of all who create the manifest of a batch one succeeds, and only its files count. A manifest names them as staged and as
final. Moving them may be cut short and is done again until all are in place; a reader that goes by manifests finds a
file under either name, so it sees each committed row exactly once at any moment.

Manifests are folded (`fold`) into numbered bases, of which the highest counts. A base says up to which batch of each
query it holds everything: a manifest of such a batch counts for nothing, even if one turns up later.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.datafile import DataFile
from pyromq.spark.sink.table.folder import MANIFESTS, REPLACED, STAGING
from pyromq.spark.storage.place import open_store
from pyromq.spark.storage.store import StorageAwayError, Store

MAX_MANIFEST = 64 << 20
FIRST_BASE = "base.json"
PARTS = f"{MANIFESTS}/parts"
LOOKS = 20
"""Tries to read a table between the folds of others; each finds them at most once, so more than a few are a fault."""


class Manifest(msgspec.Struct, kw_only=True):
    """One change of the table: files that came and files that they stand in for."""

    version: int = 1
    query: str
    batch: int
    files: list[DataFile]
    replaces: list[str] = []
    columns: dict[str, str] = {}


class Part(msgspec.Struct, kw_only=True):
    """Some files of a base, listed in a file of their own that never changes."""

    name: str
    files: int
    rows: int
    bytes: int


class Base(msgspec.Struct, kw_only=True):
    """Everything that older manifests said, without what was replaced since."""

    version: int = 2
    batches: dict[str, int] = {}
    columns: dict[str, str] = {}
    parts: list[Part] = []
    files: list[DataFile] = []
    """Listed here by the first version of this format."""
    replaced: list[str] = []
    """Files that were replaced, but whose own manifest was not there to be folded yet."""


class Key(NamedTuple):
    """Whose change a manifest is."""

    query: str
    batch: int


class Listing(NamedTuple):
    """What lies in the folder of manifests."""

    generation: int
    """Of the base, -1 without one."""
    manifests: dict[Key, str]


class Snapshot(NamedTuple):
    """What manifests say at one moment."""

    generation: int
    base: Base
    manifests: dict[Key, Manifest]
    """Those that the base does not hold."""

    @property
    def last_compaction(self) -> int:
        """Its number, -1 before the first."""
        unfolded = (key.batch for key in self.manifests if key.query == COMPACTION)
        return max(unfolded, default=self.base.batches.get(COMPACTION, -1))


COMPACTION = "compaction"
"""The query that compactions are batches of."""


class Manifests:
    """The manifests of one table."""

    def __init__(self, table: Path | Store) -> None:
        self.store = open_store(table, shared=True)

    def commit(self, manifest: Manifest) -> bool:
        """The commit point: whether it is this manifest that counts, not that of another attempt. Raises as the store.

        If it raises, nobody knows; a repetition finds out.
        """
        key = Key(manifest.query, manifest.batch)
        generation = self.listing().generation
        if covers(self._base(generation), key):
            return False
        try:
            self.store.create(manifest_name(key), msgspec.json.encode(manifest))
        except FileExistsError:
            # An answer can be lost and its request sent again by a library: what is there may be our own.
            return self._read(key) == manifest
        # What was folded since we looked may hold this batch: then the name was free only because it was folded.
        now = self.listing().generation
        if now != generation and covers(self._base(now), key):
            self.store.delete([manifest_name(key)])
            return False
        return True

    def holds(self, query: str, batch: int) -> bool:
        """Whether a batch of a query is committed."""
        key = Key(query, batch)
        # In this order: folding makes the base before it deletes manifests.
        return self.store.exists(manifest_name(key)) or covers(self.base(), key)

    def settle(self, query: str, batch: int) -> None:
        """Put the files of a committed batch in place; harmless when they are."""
        key = Key(query, batch)
        manifest = self._read(key)
        if manifest is not None and not covers(self.base(), key):
            self.settle_files(manifest)

    def settle_files(self, manifest: Manifest) -> None:
        """The same for a manifest that counts."""
        # What was merged disappears before its substitute appears: who lists the folder never sees a row twice.
        self.store.move([(final, f"{REPLACED}/{final}") for final in manifest.replaces])
        self.store.move([(file.staged, file.final) for file in manifest.files if file.staged != file.final])

    def base(self) -> Base:
        """The one that counts."""
        return self._base(self.listing().generation)

    def files(self) -> list[DataFile]:
        """The files of the table at this moment."""
        return self.files_of(self.snapshot())

    def files_of(self, snapshot: Snapshot) -> list[DataFile]:
        """The files at the moment of a snapshot."""
        replaced = {final for each in snapshot.manifests.values() for final in each.replaces}
        replaced.update(snapshot.base.replaced)
        files = {file.final: file for file in self.part_files(snapshot.base)}
        files |= {file.final: file for each in snapshot.manifests.values() for file in each.files}
        return [file for final, file in files.items() if final not in replaced]

    def part_files(self, base: Base) -> Iterator[DataFile]:
        """The files of a base. Raises StorageAwayError if it was replaced long ago."""
        yield from base.files
        found = self.store.read_all([part.name for part in base.parts])
        for part in base.parts:
            if part.name not in found:
                raise StorageAwayError(f"{self.store.url}/{part.name} is gone; the table was folded meanwhile")
            yield from self._decoded(part.name, found[part.name], list[DataFile])

    def paths(self) -> list[str]:
        """Where those files are now, as paths or URLs."""
        return [f"{self.store.url}/{name}" for name in self.names()]

    def names(self) -> list[str]:
        """The same, relative to the table."""
        files = self.files()
        staged = {entry.name for entry in self.store.list(STAGING)}
        return [
            file.staged if file.staged in staged and not self.store.exists(file.final) else file.final for file in files
        ]

    def size(self) -> tuple[int, int, int]:
        """Files, rows and bytes of the table; seldom reads more than the base."""
        now = self.snapshot()
        if now.base.replaced or any(each.replaces for each in now.manifests.values()):
            now, parts = Snapshot(-1, Base(files=self.files_of(now)), {}), []
        else:
            parts = now.base.parts
        files = [*now.base.files, *(file for each in now.manifests.values() for file in each.files)]
        return (
            sum(part.files for part in parts) + len(files),
            sum(part.rows for part in parts) + sum(file.rows for file in files),
            sum(part.bytes for part in parts) + sum(file.size for file in files),
        )

    def columns(self) -> dict[str, str]:
        """Name and type of every column that a committed batch had."""
        snapshot = self.snapshot()
        columns = dict(snapshot.base.columns)
        for manifest in snapshot.manifests.values():
            columns.update(manifest.columns)
        return columns

    def listing(self) -> Listing:
        """The names at this moment."""
        generation = -1
        manifests: dict[Key, str] = {}
        for entry in self.store.list(MANIFESTS):
            name = entry.name.removeprefix(f"{MANIFESTS}/")
            if "/" in name or not name.endswith(".json"):
                continue
            query, _, number = name.removesuffix(".json").rpartition("-")
            if name == FIRST_BASE:
                generation = max(generation, 0)
            elif query == "base":
                generation = max(generation, int(number))
            elif number.isdigit():
                manifests[Key(query, int(number))] = entry.name
        return Listing(generation, manifests)

    def snapshot(self) -> Snapshot:
        """What manifests say now; looks again when others fold meanwhile. Raises SinkError when one is damaged."""
        for _ in range(LOOKS):
            listing = self.listing()
            try:
                base = self._base(listing.generation)
            except FileNotFoundError:
                continue
            wanted = {key: name for key, name in listing.manifests.items() if not covers(base, key)}
            found = self.store.read_all(list(wanted.values()))
            # A manifest that is gone was folded; and while names were listed one may have gone without being seen.
            if len(found) == len(wanted) and self.listing().generation == listing.generation:
                manifests = {key: self._decoded(name, found[name], Manifest) for key, name in wanted.items()}
                return Snapshot(listing.generation, base, manifests)
        raise StorageAwayError(f"the manifests of {self.store.url} change faster than they can be read")

    def _base(self, generation: int) -> Base:
        if generation < 0:
            return Base()
        name = base_name(generation)
        return self._decoded(name, self.store.read(name), Base)

    def _read(self, key: Key) -> Manifest | None:
        name = manifest_name(key)
        try:
            return self._decoded(name, self.store.read(name), Manifest)
        except FileNotFoundError:
            return None

    def _decoded(self, name: str, data: bytes, kind: type["M"]) -> "M":
        if len(data) > MAX_MANIFEST:
            raise SinkError(f"{self.store.url}/{name} has {len(data)} bytes, more than a manifest can have")
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise SinkError(f"{self.store.url}/{name} is no manifest: {error}") from None


M = TypeVar("M", Manifest, Base, list[DataFile])


def manifest_name(key: Key) -> str:
    """Where a manifest lies in its table."""
    return f"{MANIFESTS}/{key.query}-{key.batch:012d}.json"


def base_name(generation: int) -> str:
    """Where a base lies in its table; the first was not numbered once."""
    return f"{MANIFESTS}/{FIRST_BASE}" if generation == 0 else f"{MANIFESTS}/base-{generation:012d}.json"


def covers(base: Base, key: Key) -> bool:
    return base.batches.get(key.query, -1) >= key.batch
