"""Folding: one base in place of many manifests, so that a table that is written for years stays quick to read.

The next base is created under the next number, and of all who fold at a time one succeeds; nothing is deleted before.
So it may be cut short anywhere, and may run beside commits, compactions and readers. Work is bounded: manifests since
the last fold, and one part of the base at most, unless files were replaced.
"""

import uuid
from collections.abc import Iterable

import msgspec

from pyromq.spark.sink.table.datafile import DataFile
from pyromq.spark.sink.table.folder import MANIFESTS, STAGING
from pyromq.spark.sink.table.manifest import (
    PARTS,
    Base,
    Key,
    Manifest,
    Manifests,
    Part,
    base_name,
    covers,
    manifest_name,
)

PART_FILES = 4096
"""Files that a part lists before another is begun, about a megabyte."""
KEPT_SECONDS = 3600.0
"""Bases and parts that count no more stay so long, for readers that are slow."""


def fold(manifests: Manifests) -> int:
    """Put the files of all manifests in place and fold them; returns how many, 0 if another was quicker."""
    # Listings take time, and one may miss a batch and have the next. Every batch up to one of the first listing was
    # committed before the second began, so it is there.
    last: dict[str, int] = {}
    listed = manifests.listing().manifests
    for key in listed:
        last[key.query] = max(key.batch, last.get(key.query, -1))
    now = manifests.snapshot()
    chosen = {key: each for key, each in now.manifests.items() if key.batch <= last.get(key.query, -1)}
    if not chosen:
        return 0
    staged = {entry.name for entry in manifests.store.list(STAGING)}
    for each in chosen.values():
        if any(file.staged in staged for file in each.files):  # the last step of a settlement takes them away
            manifests.settle_files(each)
    base, made = _folded(manifests, now.base, chosen)
    try:
        manifests.store.create(base_name(now.generation + 1), msgspec.json.encode(base))
    except FileExistsError:
        manifests.store.delete(made)
        return 0
    # With what was left by attempts that came too late: it counts for nothing.
    manifests.store.delete([manifest_name(key) for key in {*chosen, *listed} if covers(base, key)])
    _sweep(manifests, now.generation, base, now.base)
    return len(chosen)


def _folded(manifests: Manifests, before: Base, chosen: dict[Key, Manifest]) -> tuple[Base, list[str]]:
    """The next base, and the names of the parts that were made for it."""
    base = Base(batches=dict(before.batches), columns=dict(before.columns), parts=list(before.parts))
    files = {file.final: file for file in before.files}
    replaced = set(before.replaced)
    for key, manifest in chosen.items():
        base.batches[key.query] = max(key.batch, base.batches.get(key.query, -1))
        base.columns.update(manifest.columns)
        replaced.update(manifest.replaces)
        files.update((file.final, file) for file in manifest.files)
    found = replaced & files.keys()
    files = {final: file for final, file in files.items() if final not in replaced}
    made: list[str] = []
    if replaced - found:
        for part in list(base.parts):
            listed = {file.final: file for file in manifests.part_files(Base(parts=[part]))}
            if replaced & listed.keys():
                found |= replaced & listed.keys()
                base.parts.remove(part)
                files = {final: file for final, file in listed.items() if final not in replaced} | files
    elif base.parts and base.parts[-1].files < PART_FILES:
        files = {file.final: file for file in manifests.part_files(Base(parts=[base.parts.pop()]))} | files
    base.replaced = sorted(replaced - found)
    every = list(files.values())
    for start in range(0, len(every), PART_FILES):
        base.parts.append(_part(manifests, every[start : start + PART_FILES]))
        made.append(base.parts[-1].name)
    return base, made


def _part(manifests: Manifests, files: list[DataFile]) -> Part:
    name = f"{PARTS}/{uuid.uuid4().hex}.json"
    manifests.store.create(name, msgspec.json.encode(files))
    return Part(
        name=name, files=len(files), rows=sum(file.rows for file in files), bytes=sum(file.size for file in files)
    )


def _sweep(manifests: Manifests, generation: int, *kept: Base) -> None:
    """Delete bases before a generation, and parts that none of the kept ones names, once they are old.

    What another process has just made for its own base is young.
    """
    entries = manifests.store.list(MANIFESTS)
    named = {part.name for base in kept for part in base.parts}
    oldest = max((entry.modified for entry in entries), default=0.0) - KEPT_SECONDS
    old = [entry.name for entry in entries if entry.modified < oldest]
    before = {base_name(number) for number in range(max(0, generation - 1000), generation)}
    manifests.store.delete(_gone(old, named, before))


def _gone(names: Iterable[str], parts: set[str], bases: set[str]) -> list[str]:
    return [name for name in names if name in bases or (name.startswith(f"{PARTS}/") and name not in parts)]
