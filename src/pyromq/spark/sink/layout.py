"""Names and places inside a folder of Parquet files, and how a file gets there so that it survives a power cut.

Folders that begin with `_` are not data: readers that list the folder, Spark and pyarrow among them, pass them over.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

STAGING = "_staging"
MANIFESTS = "_manifests"
REPLACED = "_replaced"
NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_path(values: Mapping[str, str | None]) -> str:
    """`day=2026-01-01/shop=Berlin`, empty without partition columns."""
    return "/".join(
        f"{quote(name)}={NULL if value is None else quote(value, safe=' ')}" for name, value in values.items()
    )


def sync_folder(folder: Path) -> None:
    """Make names that were added to or taken from a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a closed file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, data: bytes) -> None:
    """All of a file or nothing of it, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def move(source: Path, target: Path) -> bool:
    """Rename unless it was done before; returns whether there was something to do."""
    if not source.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    return True
